"""DescribeGroups, API key 15: the state and members of classic groups.

Versions 0-6, flexible from 5 on (KIP-482).

- v3: authorized operations (KIP-430).
- v4: static members (KIP-345).
- v6: GROUP_ID_NOT_FOUND for an unknown group (KIP-1043).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import bytes_, int16, int32, string


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    """Group ids."""

    groups: list[string] = []
    include_authorized_operations: bool = field(default=False, versions="3+")


@message(key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    """Up to v5 an unknown group is in state Dead."""

    throttle_time_ms: int32 = field(default=0, versions="1+", ignorable=True)
    groups: list[DescribedGroup] = []


@struct
class DescribedGroup:
    error_code: int16 = 0
    error_message: string | None = field(default=None, versions="6+")
    group_id: string = ""
    group_state: string = ""
    protocol_type: string = ""
    protocol_data: string = ""
    members: list[DescribedGroupMember] = []
    authorized_operations: int32 = field(default=-0x8000_0000, versions="3+")


@struct
class DescribedGroupMember:
    member_id: string = ""
    group_instance_id: string | None = field(default=None, versions="4+", ignorable=True)
    client_id: string = ""
    client_host: string = ""
    member_metadata: bytes_ = b""
    member_assignment: bytes_ = b""
