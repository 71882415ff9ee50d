"""SyncGroup, API key 14: distributes the leader's assignment to the members of a classic group.

Versions 0-5, flexible from 4 on (KIP-482).

- v3: static members (KIP-345).
- v5: protocol type and name (KIP-559).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import bytes_, int16, int32, string


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    """From the leader, all assignments; from other members, none."""

    group_id: string = ""
    generation_id: int32 = 0
    member_id: string = ""
    group_instance_id: string | None = field(default=None, versions="3+")
    protocol_type: string | None = field(default=None, versions="5+", ignorable=True)
    protocol_name: string | None = field(default=None, versions="5+", ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = []


@struct
class SyncGroupRequestAssignment:
    member_id: string = ""
    assignment: bytes_ = b""


@message(key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    """The member's assignment, opaque to the broker."""

    throttle_time_ms: int32 = field(default=0, versions="1+", ignorable=True)
    error_code: int16 = 0
    protocol_type: string | None = field(default=None, versions="5+", ignorable=True)
    protocol_name: string | None = field(default=None, versions="5+", ignorable=True)
    assignment: bytes_ = b""
