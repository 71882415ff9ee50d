"""BrokerHeartbeat, API key 63: a broker is alive, and asks to be unfenced or to shut down (KIP-631).

Versions 0-2, all flexible (KIP-482). Used between nodes only; not advertised to clients.

- v1: offline log directories (KIP-858).
- v2: cordoned log directories (KIP-1066).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message
from minikafka.protocol.types import int16, int32, int64, uuid


@message(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatRequest:
    """The broker's metadata offset and the state that it requests."""

    broker_id: int32 = 0
    broker_epoch: int64 = -1
    current_metadata_offset: int64 = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: list[uuid] = field(default=[], versions="1+", tag=0)
    cordoned_log_dirs: list[uuid] | None = field(default=None, versions="2+", tag=1)


@message(key=63, versions="0-2", flexible="0+")
class BrokerHeartbeatResponse:
    """The broker's state."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False
