"""ListGroups, API key 16: lists the groups of a coordinator.

Versions 0-5, flexible from 3 on (KIP-482).

- v4: filter by state (KIP-518).
- v5: filter by type (KIP-848).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int16, int32, string


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    """Filters by state and type; empty selects all."""

    states_filter: list[string] = field(default=[], versions="4+")
    types_filter: list[string] = field(default=[], versions="5+")


@message(key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    """A row per group."""

    throttle_time_ms: int32 = field(default=0, versions="1+", ignorable=True)
    error_code: int16 = 0
    groups: list[ListedGroup] = []


@struct
class ListedGroup:
    group_id: string = ""
    protocol_type: string = ""
    group_state: string = field(default="", versions="4+", ignorable=True)
    group_type: string = field(default="", versions="5+", ignorable=True)
