"""BrokerRegistration, API key 62: registers a broker with the controller (KIP-631).

Versions 0-4, all flexible (KIP-482). Used between nodes only; not advertised to clients.

- v1: whether it is migrating from ZooKeeper (KIP-866).
- v2: its log directories (KIP-858).
- v3: the broker epoch before the last clean shutdown (KIP-966).
- v4: the minimum level of a feature may be 0 (KAFKA-17011).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, int64, string, uint16, uuid


@message(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest:
    """The broker's identity, endpoints and features."""

    broker_id: int32 = 0
    cluster_id: string = ""
    incarnation_id: uuid = NIL_UUID
    listeners: list[Listener] = []
    features: list[Feature] = []
    rack: string | None
    is_migrating_zk_broker: bool = field(default=False, versions="1+")
    log_dirs: list[uuid] = field(default=[], versions="2+", ignorable=True)
    previous_broker_epoch: int64 = field(default=-1, versions="3+", ignorable=True)


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


@message(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationResponse:
    """The new broker epoch."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    broker_epoch: int64 = -1
