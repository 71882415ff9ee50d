"""DeleteAcls, API key 31: deletes ACLs (KIP-140).

Versions 1-3, flexible from 2 on (KIP-482).

- v1: pattern types (KIP-290).
- v3: user resources, for delegation tokens (KIP-373).
"""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import int8, int16, int32, string


@message(key=31, versions="1-3", flexible="2+")
class DeleteAclsRequest:
    """Filters; ACLs that match one of them are deleted."""

    filters: list[DeleteAclsFilter] = []


@struct
class DeleteAclsFilter:
    resource_type_filter: int8 = 0
    resource_name_filter: string | None
    pattern_type_filter: int8 = 3
    principal_filter: string | None
    host_filter: string | None
    operation: int8 = 0
    permission_type: int8 = 0


@message(key=31, versions="1-3", flexible="2+")
class DeleteAclsResponse:
    """The ACLs deleted by each filter."""

    throttle_time_ms: int32 = 0
    filter_results: list[DeleteAclsFilterResult] = []


@struct
class DeleteAclsFilterResult:
    error_code: int16 = 0
    error_message: string | None
    matching_acls: list[DeleteAclsMatchingAcl] = []


@struct
class DeleteAclsMatchingAcl:
    error_code: int16 = 0
    error_message: string | None
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = 3
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0
