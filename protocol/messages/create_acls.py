"""CreateAcls, API key 30: creates ACLs (KIP-140).

Versions 1-3, flexible from 2 on (KIP-482).

- v1: pattern types (KIP-290).
- v3: user resources, for delegation tokens (KIP-373).
"""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import int8, int16, int32, string


@message(key=30, versions="1-3", flexible="2+")
class CreateAclsRequest:
    """The ACLs to create."""

    creations: list[AclCreation] = []


@struct
class AclCreation:
    resource_type: int8 = 0
    resource_name: string = ""
    resource_pattern_type: int8 = 3
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0


@message(key=30, versions="1-3", flexible="2+")
class CreateAclsResponse:
    """A result per ACL, in the order of the request."""

    throttle_time_ms: int32 = 0
    results: list[AclCreationResult] = []


@struct
class AclCreationResult:
    error_code: int16 = 0
    error_message: string | None
