"""CreateDelegationToken, API key 38: creates a delegation token (KIP-48).

Versions 1-3, flexible from 2 on (KIP-482).

- v3: an owner other than the requester (KIP-373).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import bytes_, int16, int32, int64, string


@message(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest:
    """The renewers and the maximum lifetime of the token."""

    owner_principal_type: string | None = field(default="", versions="3+")
    owner_principal_name: string | None = field(default="", versions="3+")
    renewers: list[CreatableRenewers] = []
    max_lifetime_ms: int64 = 0


@struct
class CreatableRenewers:
    principal_type: string = ""
    principal_name: string = ""


@message(key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse:
    """The token and its HMAC."""

    error_code: int16 = 0
    principal_type: string = ""
    principal_name: string = ""
    token_requester_principal_type: string = field(default="", versions="3+")
    token_requester_principal_name: string = field(default="", versions="3+")
    issue_timestamp_ms: int64 = 0
    expiry_timestamp_ms: int64 = 0
    max_timestamp_ms: int64 = 0
    token_id: string = ""
    hmac: bytes_ = b""
    throttle_time_ms: int32 = 0
