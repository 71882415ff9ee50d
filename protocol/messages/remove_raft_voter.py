"""RemoveRaftVoter, API key 81: removes a voter from the quorum (KIP-853).

Version 0, flexible (KIP-482).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message
from minikafka.protocol.types import NIL_UUID, int16, int32, string, uuid


@message(key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    """The voter."""

    cluster_id: string | None
    voter_id: int32 = 0
    voter_directory_id: uuid = NIL_UUID


@message(key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    """An error for the whole request."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = field(default="", ignorable=True)
