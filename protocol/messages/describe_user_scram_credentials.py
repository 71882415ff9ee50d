"""DescribeUserScramCredentials, API key 50: the SCRAM mechanisms of users (KIP-554).

Version 0, flexible (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import int8, int16, int32, string


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    """Users; null or an empty list selects all."""

    users: list[UserName] | None


@struct
class UserName:
    name: string = ""


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    """Mechanisms and iterations; no secrets."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None
    results: list[DescribeUserScramCredentialsResult] = []


@struct
class DescribeUserScramCredentialsResult:
    user: string = ""
    error_code: int16 = 0
    error_message: string | None
    credential_infos: list[CredentialInfo] = []


@struct
class CredentialInfo:
    mechanism: int8 = 0
    iterations: int32 = 0
