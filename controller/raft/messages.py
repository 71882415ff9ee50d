"""The Raft messages between the nodes of a quorum: four requests and their responses (KIP-595, KIP-630, KIP-996).

Each response has the sender's epoch and its leader, if known, so that a request to the wrong node finds the leader. A
response was sent *as the leader* if it names its own sender as the leader of the request's epoch.

`to_map` and `from_map` convert a message to and from the form for msgpack: a map of plain values with `kind` and
`version`. Directory ids are sent only in a dynamic quorum, in version 1 of a message. In a static quorum the bytes are
the same as before KIP-853.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeAlias

from minikafka.controller.raft.election_state import EPOCH_MAX
from minikafka.controller.raft.log_interface import EpochEnd, SnapshotId
from minikafka.controller.raft.voter_set import NO_DIRECTORY

VERSION_MAX = 1
INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1


class BadMessage(ValueError):
    """A message that no minikafka of this version sends: the connection should be closed."""


@dataclass(frozen=True, slots=True)
class Message:
    """A Raft message. `epoch` is the sender's epoch, or the epoch of the requested vote."""

    KIND: ClassVar[str] = ""
    epoch: int

    def to_map(self) -> dict[str, Any]:
        """Convert the message to a map of plain values for msgpack."""
        directories = _DIRECTORIES_OF[self.KIND]
        version = 1 if any(getattr(self, name) != NO_DIRECTORY for name in directories) else 0
        plain: dict[str, Any] = {"kind": self.KIND, "version": version}
        for name in _CHECKS_OF[self.KIND, version]:
            value = getattr(self, name)
            plain[name] = list(value) if isinstance(value, tuple) else value
        return plain

    @classmethod
    def from_map(cls, plain: dict[str, Any]) -> Self:
        """Convert a map to a message of this class: the inverse of `to_map`. Raises BadMessage. `request_from_map` and
        `response_from_map` find the class."""
        kind, version = plain.get("kind"), plain.get("version")
        checks = _CHECKS_OF.get((cls.KIND, version)) if type(version) is int else None
        if kind != cls.KIND or checks is None:
            raise BadMessage(f"kind {kind!r} version {version!r} is not {cls.KIND} 0 to {VERSION_MAX}")
        if len(plain) != len(checks) + 2:
            raise BadMessage(f"{cls.KIND} with {len(plain) - 2} fields, expected {len(checks)}")
        try:
            return cls(**{name: check(name, plain[name]) for name, check in checks.items()})
        except KeyError as error:
            raise BadMessage(f"{cls.KIND} without {error}") from None


@dataclass(frozen=True, slots=True)
class Vote(Message):
    """Requests a vote for `candidate` in `epoch`. As `pre_vote`: asks whether a vote would be granted in a later epoch.

    `last_epoch` and `last_offset` are the epoch of the last record in the candidate's log, and the log's end offset.
    In a dynamic quorum the message names the directories of the candidate and of the voter that is asked, since a node
    whose disk was replaced is another voter.
    """

    KIND: ClassVar[str] = "vote"
    candidate: int
    last_epoch: int
    last_offset: int
    pre_vote: bool
    candidate_directory: bytes = NO_DIRECTORY
    voter_directory: bytes = NO_DIRECTORY


@dataclass(frozen=True, slots=True)
class VoteResponse(Message):
    """The response to Vote. `granted` counts only if `epoch` is still the request's epoch."""

    KIND: ClassVar[str] = "vote-answer"
    leader: int
    granted: bool


@dataclass(frozen=True, slots=True)
class BeginEpoch(Message):
    """Tells a voter that `leader` leads `epoch`, so that it fetches from the leader. Repeated until it fetches."""

    KIND: ClassVar[str] = "begin-epoch"
    leader: int


@dataclass(frozen=True, slots=True)
class BeginEpochResponse(Message):
    """Acknowledges a BeginEpoch."""

    KIND: ClassVar[str] = "begin-epoch-answer"
    leader: int


@dataclass(frozen=True, slots=True)
class Fetch(Message):
    """Requests records from `fetch_offset` on; the last record of `replica` is of `last_fetched_epoch`.

    A Fetch also acknowledges that `replica` has synced everything before `fetch_offset` and knows `high_watermark`. The
    response may wait up to `max_wait_ms` for newer records or a higher high watermark.
    """

    KIND: ClassVar[str] = "fetch"
    replica: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    max_wait_ms: int
    max_bytes: int
    directory: bytes = NO_DIRECTORY


@dataclass(frozen=True, slots=True)
class FetchResponse(Message):
    """The response to Fetch: records, or a divergence of the logs, or a snapshot to fetch first.

    Attributes:
        records: whole batches from the fetch offset on.
        high_watermark: the high watermark of the leader.
        diverging: if the logs diverge, the greatest epoch in the leader's log up to the last fetched epoch, and the end
            offset of that epoch.
        snapshot: if the fetch offset is no longer in the log, the snapshot (offset, epoch) that covers it.
        log_start: the leader's log start offset.
    """

    KIND: ClassVar[str] = "fetch-answer"
    leader: int
    records: bytes = b""
    high_watermark: int = 0
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    log_start: int = 0


@dataclass(frozen=True, slots=True)
class FetchSnapshot(Message):
    """Requests the bytes of a snapshot from `position` on."""

    KIND: ClassVar[str] = "fetch-snapshot"
    replica: int
    snapshot: SnapshotId
    position: int
    max_bytes: int
    directory: bytes = NO_DIRECTORY


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse(Message):
    """The response to FetchSnapshot: a part of the snapshot. `size` is the whole size, -1 if it was deleted."""

    KIND: ClassVar[str] = "fetch-snapshot-answer"
    leader: int
    snapshot: SnapshotId
    size: int = -1
    position: int = 0
    data: bytes = b""


Request: TypeAlias = Vote | BeginEpoch | Fetch | FetchSnapshot
Response: TypeAlias = VoteResponse | BeginEpochResponse | FetchResponse | FetchSnapshotResponse

REQUESTS: dict[str, type[Request]] = {kind.KIND: kind for kind in (Vote, BeginEpoch, Fetch, FetchSnapshot)}
RESPONSES: dict[str, type[Response]] = {
    kind.KIND: kind for kind in (VoteResponse, BeginEpochResponse, FetchResponse, FetchSnapshotResponse)
}
RESPONSE_OF: dict[type[Request], type[Response]] = dict(zip(REQUESTS.values(), RESPONSES.values(), strict=True))


def request_from_map(plain: object) -> Request:
    """Decode a request from the value that msgpack returned. Raises BadMessage."""
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if not isinstance(plain, dict) or not isinstance(kind, str) or kind not in REQUESTS:
        raise BadMessage(f"not a Raft request: kind {kind!r}")
    return REQUESTS[kind].from_map(plain)


def response_from_map(plain: object) -> Response:
    """Decode a response from the value that msgpack returned. Raises BadMessage."""
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if not isinstance(plain, dict) or not isinstance(kind, str) or kind not in RESPONSES:
        raise BadMessage(f"not a Raft response: kind {kind!r}")
    return RESPONSES[kind].from_map(plain)


def _number(at_least: int, at_most: int) -> "Check":
    def check(name: str, value: object) -> int:
        if type(value) is not int or not at_least <= value <= at_most:
            raise BadMessage(f"{name} must be a whole number from {at_least} to {at_most}, not {value!r}")
        return value

    return check


def _flag(name: str, value: object) -> bool:
    if type(value) is not bool:
        raise BadMessage(f"{name} must be true or false, not {value!r}")
    return value


def _data(name: str, value: object) -> bytes:
    if type(value) is not bytes:
        raise BadMessage(f"{name} must be bytes, not {type(value).__name__}")
    return value


def _directory(name: str, value: object) -> bytes:
    if type(value) is not bytes or len(value) != len(NO_DIRECTORY):
        raise BadMessage(f"{name} must be {len(NO_DIRECTORY)} bytes, not {value!r}")
    return value


def _pair(name: str, value: object, first: "Check", second: "Check") -> tuple[int, int]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise BadMessage(f"{name} must be two numbers, not {value!r}")
    return first(name, value[0]), second(name, value[1])


def _snapshot(name: str, value: object) -> SnapshotId:
    return SnapshotId(*_pair(name, value, _OFFSET, _EPOCH))


def _epoch_end(name: str, value: object) -> EpochEnd:
    return EpochEnd(*_pair(name, value, _EPOCH, _OFFSET))


def _optional(check: "Check") -> "Check":
    return lambda name, value: None if value is None else check(name, value)


Check: TypeAlias = Callable[[str, object], Any]
_EPOCH = _number(0, EPOCH_MAX)
_NODE = _number(0, INT32_MAX)
_NODE_OR_NOBODY = _number(-1, INT32_MAX)
_OFFSET = _number(0, INT64_MAX)
_SIZE = _number(0, INT32_MAX)
_CHECKS: dict[str, Check] = {
    "epoch": _EPOCH,
    "leader": _NODE_OR_NOBODY,
    "candidate": _NODE,
    "replica": _NODE,
    "last_epoch": _EPOCH,
    "last_offset": _OFFSET,
    "pre_vote": _flag,
    "granted": _flag,
    "fetch_offset": _OFFSET,
    "last_fetched_epoch": _EPOCH,
    "high_watermark": _OFFSET,
    "max_wait_ms": _SIZE,
    "max_bytes": _SIZE,
    "records": _data,
    "diverging": _optional(_epoch_end),
    "snapshot": _snapshot,
    "log_start": _OFFSET,
    "position": _OFFSET,
    "size": _number(-1, INT64_MAX),
    "data": _data,
    "directory": _directory,
    "candidate_directory": _directory,
    "voter_directory": _directory,
}
"""The check of each field by its name. Fields of the same name have the same type in every message, except that
`FetchResponse.snapshot` may be None."""


def _checks_of(kind: type[Message]) -> dict[str, Check]:
    checks = {field.name: _CHECKS[field.name] for field in fields(kind)}
    if kind is FetchResponse:
        checks["snapshot"] = _optional(_snapshot)
    return checks


_KINDS = (*REQUESTS.values(), *RESPONSES.values())
_DIRECTORIES_OF = {
    kind.KIND: tuple(name for name in _checks_of(kind) if _CHECKS[name] is _directory) for kind in _KINDS
}
"""The fields that were added in version 1, by kind of the message."""
_CHECKS_OF = {
    (kind.KIND, version): {
        name: check for name, check in _checks_of(kind).items() if version or name not in _DIRECTORIES_OF[kind.KIND]
    }
    for kind in _KINDS
    for version in ((0, 1) if _DIRECTORIES_OF[kind.KIND] else (0,))
}
"""The check of each field, in order, by kind and version of the message."""
