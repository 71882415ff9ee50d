"""DescribeAcls, API key 29: lists ACLs (KIP-140).

Versions 1-3, flexible from 2 on (KIP-482).

- v1: pattern types (KIP-290).
- v3: user resources, for delegation tokens (KIP-373).
"""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import int8, int16, int32, string


@message(key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest:
    """A filter; null fields match anything."""

    resource_type_filter: int8 = 0
    resource_name_filter: string | None
    pattern_type_filter: int8 = 3
    principal_filter: string | None
    host_filter: string | None
    operation: int8 = 0
    permission_type: int8 = 0


@message(key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse:
    """The ACLs by resource."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None
    resources: list[DescribeAclsResource] = []


@struct
class DescribeAclsResource:
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = 3
    acls: list[AclDescription] = []


@struct
class AclDescription:
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0
