"""LeaveGroup, API key 13: members leave a classic group.

Versions 0-5, flexible from 4 on (KIP-482).

- v3: many members; static members by group_instance_id (KIP-345).
- v5: reason (KIP-800).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int16, int32, string


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest:
    """One member up to v2, many from v3 on."""

    group_id: string = ""
    member_id: string = field(default="", versions="0-2")
    members: list[MemberIdentity] = field(default=[], versions="3+")


@struct
class MemberIdentity:
    member_id: string = field(default="", versions="3+")
    group_instance_id: string | None = field(default=None, versions="3+")
    reason: string | None = field(default=None, versions="5+", ignorable=True)


@message(key=13, versions="0-5", flexible="4+")
class LeaveGroupResponse:
    """From v3 on, an error code per member."""

    throttle_time_ms: int32 = field(default=0, versions="1+", ignorable=True)
    error_code: int16 = 0
    members: list[MemberResponse] = field(default=[], versions="3+")


@struct
class MemberResponse:
    member_id: string = field(default="", versions="3+")
    group_instance_id: string | None = field(versions="3+")
    error_code: int16 = field(default=0, versions="3+")
