"""AddRaftVoter, API key 80: adds a voter to the quorum (KIP-853).

Versions 0-1, all flexible (KIP-482).

- v1: whether to answer before the change is committed (KIP-1186).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, string, uint16, uuid


@message(key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    """The voter, with its endpoints."""

    cluster_id: string | None
    timeout_ms: int32 = 0
    voter_id: int32 = 0
    voter_directory_id: uuid = NIL_UUID
    listeners: list[Listener] = []
    ack_when_committed: bool = field(default=True, versions="1+")


@struct
class Listener:
    name: string = ""
    host: string = ""
    port: uint16 = 0


@message(key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    """An error for the whole request."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = field(default="", ignorable=True)
