"""DeleteGroups, API key 42: deletes groups without members (KIP-229).

Versions 0-2, flexible from 2 on (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import int16, int32, string


@message(key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    """Group ids."""

    groups_names: list[string] = []


@message(key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    """An error code per group."""

    throttle_time_ms: int32 = 0
    results: list[DeletableGroupResult] = []


@struct
class DeletableGroupResult:
    group_id: string = ""
    error_code: int16 = 0
