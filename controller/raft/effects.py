"""What Raft wants done. Effects are carried out strictly in the order in which they were returned.

That order is the whole of the promise to the disk: nothing that stands behind a `Persist` or a `Sync` may be seen by
anybody before that is on the device. Inputs may be given meanwhile; their effects queue up behind.
"""

from dataclasses import dataclass
from typing import TypeAlias

from minikafka.controller.raft.election_state import ElectionState
from minikafka.controller.raft.log_interface import SnapshotId
from minikafka.controller.raft.messages import Request, Response

Token: TypeAlias = object
"""Whatever the driver wants to find a request again by."""


@dataclass(frozen=True, slots=True)
class Persist:
    """Write the election state, and sync it. *Use:* a vote is on disk before anybody is told of it."""

    state: ElectionState


@dataclass(frozen=True, slots=True)
class Sync:
    """Sync the log up to `end_offset`, then call `Raft.synced` with this effect.

    Several that follow each other can be done by one sync; `synced` is then called with the last.
    """

    end_offset: int
    epoch: int


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Send a request to a node; its answer goes to `Raft.answer`, its failure to `Raft.failed`, with `request`."""

    peer: int
    request: Request


@dataclass(frozen=True, slots=True)
class SendResponse:
    """SendResponse the request that came in with `token`."""

    token: Token
    message: Response


@dataclass(frozen=True, slots=True)
class Committed:
    """All records before `high_watermark` will last: apply them. It only ever grows."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class Elected:
    """This node leads the epoch, and its log already has the record that says so (LEADER_CHANGE).

    What earlier leaders left is committed, and may be built upon, once the high watermark is beyond `end_offset`,
    the offset behind that record.
    """

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Deposed:
    """This node led, and does not any more. What it appended and has not seen committed may last or not."""


@dataclass(frozen=True, slots=True)
class Follow:
    """Another node leads, and this one fetches from it."""

    leader_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Installed:
    """A snapshot has taken the place of the log: forget all state and begin with `data`; everything before its offset
    is committed."""

    snapshot: SnapshotId
    data: bytes


Effect: TypeAlias = Persist | Sync | SendRequest | SendResponse | Committed | Elected | Deposed | Follow | Installed
Effects: TypeAlias = list[Effect]
