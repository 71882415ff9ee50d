"""DescribeDelegationToken, API key 41: lists delegation tokens (KIP-48).

Versions 1-3, flexible from 2 on (KIP-482).

- v3: the requester of a token (KIP-373).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import bytes_, int16, int32, int64, string


@message(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest:
    """Owners; null selects all."""

    owners: list[DescribeDelegationTokenOwner] | None


@struct
class DescribeDelegationTokenOwner:
    principal_type: string = ""
    principal_name: string = ""


@message(key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse:
    """Tokens with their HMACs."""

    error_code: int16 = 0
    tokens: list[DescribedDelegationToken] = []
    throttle_time_ms: int32 = 0


@struct
class DescribedDelegationToken:
    principal_type: string = ""
    principal_name: string = ""
    token_requester_principal_type: string = field(default="", versions="3+")
    token_requester_principal_name: string = field(default="", versions="3+")
    issue_timestamp: int64 = 0
    expiry_timestamp: int64 = 0
    max_timestamp: int64 = 0
    token_id: string = ""
    hmac: bytes_ = b""
    renewers: list[DescribedDelegationTokenRenewer] = []


@struct
class DescribedDelegationTokenRenewer:
    principal_type: string = ""
    principal_name: string = ""
