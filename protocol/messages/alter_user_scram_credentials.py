"""AlterUserScramCredentials, API key 51: sets or removes SCRAM credentials (KIP-554).

Version 0, flexible (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import bytes_, int8, int16, int32, string


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    """The credentials to remove and to set."""

    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []


@struct
class ScramCredentialDeletion:
    name: string = ""
    mechanism: int8 = 0


@struct
class ScramCredentialUpsertion:
    name: string = ""
    mechanism: int8 = 0
    iterations: int32 = 0
    salt: bytes_ = b""
    salted_password: bytes_ = b""


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    """A result per user."""

    throttle_time_ms: int32 = 0
    results: list[AlterUserScramCredentialsResult] = []


@struct
class AlterUserScramCredentialsResult:
    user: string = ""
    error_code: int16 = 0
    error_message: string | None
