"""FindCoordinator, API key 10: finds the coordinator of a group or transactional id.

Versions 0-6, flexible from 3 on (KIP-482).

- v1: transactional ids (KIP-98).
- v4: many keys in one request (KIP-699).
- v5: TRANSACTION_ABORTABLE may be returned (KIP-890).
- v6: share groups (KIP-932).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int8, int16, int32, string


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """Keys of one type: 0 groups, 1 transactional ids, 2 share groups."""

    key: string = field(default="", versions="0-3")
    key_type: int8 = field(default=0, versions="1+")
    coordinator_keys: list[string] = field(default=[], versions="4+")


@message(key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    """The coordinator of each key."""

    throttle_time_ms: int32 = field(default=0, versions="1+", ignorable=True)
    error_code: int16 = field(default=0, versions="0-3")
    error_message: string | None = field(default="", versions="1-3", ignorable=True)
    node_id: int32 = field(default=0, versions="0-3")
    host: string = field(default="", versions="0-3")
    port: int32 = field(default=0, versions="0-3")
    coordinators: list[Coordinator] = field(default=[], versions="4+")


@struct
class Coordinator:
    key: string = field(default="", versions="4+")
    node_id: int32 = field(default=0, versions="4+")
    host: string = field(default="", versions="4+")
    port: int32 = field(default=0, versions="4+")
    error_code: int16 = field(default=0, versions="4+")
    error_message: string | None = field(versions="4+", ignorable=True)
