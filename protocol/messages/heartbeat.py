"""Heartbeat, API key 12: keeps the session of a member of a classic group alive.

Versions 0-4, flexible from 4 on (KIP-482).

- v3: static members (KIP-345).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message
from minikafka.protocol.types import int16, int32, string


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    """Sent several times per session timeout."""

    group_id: string = ""
    generation_id: int32 = 0
    member_id: string = ""
    group_instance_id: string | None = field(default=None, versions="3+")


@message(key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    """REBALANCE_IN_PROGRESS asks the member to rejoin."""

    throttle_time_ms: int32 = field(default=0, versions="1+", ignorable=True)
    error_code: int16 = 0
