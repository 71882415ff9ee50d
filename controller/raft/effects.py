"""The effects that Raft returns for its caller to carry out, strictly in the order in which they were returned.

The order makes votes and acknowledgements durable: no effect behind a `Persist` or a `Sync` may be visible to another
node before the state or the log is on the device. Further inputs are allowed meanwhile; their effects queue up behind.
Only a response that says nothing about the log need not wait for a Sync (`SendResponse.waits_for_log`).
"""

from dataclasses import dataclass
from typing import TypeAlias

from minikafka.controller.raft.election_state import ElectionState
from minikafka.controller.raft.log_interface import SnapshotId
from minikafka.controller.raft.messages import BeginEpochResponse, Request, Response

Token: TypeAlias = object
"""An opaque object by which the driver finds a request again."""


@dataclass(frozen=True, slots=True)
class Persist:
    """Write the election state, and sync it. *Use:* a vote is on disk before it is sent."""

    state: ElectionState


@dataclass(frozen=True, slots=True)
class Sync:
    """Sync the log up to `end_offset`, then call `Raft.synced` with this effect.

    Consecutive Sync effects may share one sync; `synced` is then called with the last of them.
    """

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Send a request to a node; pass its response to `Raft.response`, its failure to `Raft.failed`, with `request`."""

    peer: int
    request: Request


@dataclass(frozen=True, slots=True)
class SendResponse:
    """Send the response to the request that was passed in with `token`."""

    token: Token
    message: Response

    @property
    def waits_for_log(self) -> bool:
        """Whether the response must wait for a Sync before it. It waits for a Persist in any case.

        The response to BeginEpoch does not wait for a Sync: a leader that gets no response at all from a voter
        disconnects it, although only the voter's disk may be slow.
        """
        return not isinstance(self.message, BeginEpochResponse)


@dataclass(frozen=True, slots=True)
class Committed:
    """All records before `high_watermark` are committed: apply them. The high watermark never decreases."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class Elected:
    """This node leads the epoch, and its log has the epoch's first record (LEADER_CHANGE).

    The records of earlier leaders are committed once the high watermark reaches `end_offset`, the offset after that
    record.
    """

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Deposed:
    """This node is no longer the leader. Its uncommitted records may be kept or lost."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Another node leads, and this node fetches from it."""

    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Installed:
    """A snapshot has replaced the log: replace all state by `data`; everything before its offset is committed."""

    snapshot: SnapshotId
    data: bytes


Effect: TypeAlias = Persist | Sync | SendRequest | SendResponse | Committed | Elected | Deposed | Follow | Installed
Effects: TypeAlias = list[Effect]
