"""AlterClientQuotas, API key 49: sets or removes client quotas (KIP-546).

Versions 0-1, flexible from 1 on (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import float64, int16, int32, string


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    """Operations by entity."""

    entries: list[RequestEntryData] = []
    validate_only: bool = False


@struct
class RequestEntryData:
    entity: list[EntityData] = []
    ops: list[OpData] = []


@struct
class EntityData:
    entity_type: string = ""
    entity_name: string | None


@struct
class OpData:
    key: string = ""
    value: float64 = 0.0
    remove: bool = False


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    """A result per entity."""

    throttle_time_ms: int32 = 0
    entries: list[ResponseEntryData] = []


@struct
class ResponseEntryData:
    error_code: int16 = 0
    error_message: string | None
    entity: list[EntityData] = []
