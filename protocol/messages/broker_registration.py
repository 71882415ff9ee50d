"""BrokerRegistration, API key 62: a broker joins the cluster (KIP-631).

Versions 0-4, all flexible (KIP-482). Spoken among nodes alone: no client is offered it.

- v1: whether it comes from ZooKeeper (KIP-866).
- v2: its log directories (KIP-858).
- v3: the epoch that it had before a clean shutdown (KIP-966).
- v4: features down to level 0 (KAFKA-17011).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, int64, string, uint16, uuid


@message(key=62, versions="0-4", flexible="0+")
class BrokerRegistrationRequest:
    """Who the broker is, and where it can be reached."""

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
    """Its broker epoch."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    broker_epoch: int64 = -1
