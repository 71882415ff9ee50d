"""ControllerRegistration, API key 70: a controller registers with the active one (KIP-919).

Version 0, flexible (KIP-482).
"""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, string, uint16, uuid


@message(key=70, versions="0", flexible="0+")
class ControllerRegistrationRequest:
    """The endpoints and features of a controller."""

    controller_id: int32 = 0
    incarnation_id: uuid = NIL_UUID
    zk_migration_ready: bool = False
    listeners: list[Listener] = []
    features: list[Feature] = []


@struct
class Listener:
    name: string = ""
    host: string = ""
    port: uint16 = 0
    security_protocol: int16 = 0


@struct
class Feature:
    name: string = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


@message(key=70, versions="0", flexible="0+")
class ControllerRegistrationResponse:
    """An error for the whole request."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
