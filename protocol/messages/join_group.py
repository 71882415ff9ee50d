"""JoinGroup, API key 11: joins or rejoins a classic group.

Versions 0-9, flexible from 6 on (KIP-482).

- v1: rebalance_timeout_ms, separate from the session timeout (KIP-62).
- v4: a new member receives its id with MEMBER_ID_REQUIRED and joins again (KIP-394).
- v5: static members (KIP-345).
- v7: the response contains protocol_type and protocol_name (KIP-559).
- v8: reason (KIP-800).
- v9: skip_assignment (KIP-814).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import bytes_, int16, int32, string


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest:
    """The member's protocols in order of preference."""

    group_id: string = ""
    session_timeout_ms: int32 = 0
    rebalance_timeout_ms: int32 = field(default=-1, versions="1+", ignorable=True)
    member_id: string = ""
    group_instance_id: string | None = field(default=None, versions="5+")
    protocol_type: string = ""
    protocols: list[JoinGroupRequestProtocol] = []
    reason: string | None = field(default=None, versions="8+", ignorable=True)


@struct
class JoinGroupRequestProtocol:
    name: string = ""
    metadata: bytes_ = b""


@message(key=11, versions="0-9", flexible="6+")
class JoinGroupResponse:
    """The new generation; for the leader, with all members."""

    throttle_time_ms: int32 = field(default=0, versions="2+", ignorable=True)
    error_code: int16 = 0
    generation_id: int32 = -1
    protocol_type: string | None = field(default=None, versions="7+", ignorable=True)
    protocol_name: string | None = field(nullable="7+")
    leader: string = ""
    skip_assignment: bool = field(default=False, versions="9+")
    member_id: string = ""
    members: list[JoinGroupResponseMember] = []


@struct
class JoinGroupResponseMember:
    member_id: string = ""
    group_instance_id: string | None = field(default=None, versions="5+", ignorable=True)
    metadata: bytes_ = b""
