"""What the nodes of a quorum say to each other: four requests, and their answers (KIP-595, KIP-630, KIP-996).

Each answer tells the epoch that its sender is in and the leader of it, as far as the sender knows: so whoever asks the
wrong node learns where to go. An answer was given *as the leader* if it names its own sender for the request's epoch.

`to_map` and `from_map` are the form for msgpack: a map of plain values with `kind` and `version`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeAlias

from minikafka.controller.raft.log_interface import EpochEnd, SnapshotId

VERSION = 0
INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1


class BadMessage(ValueError):
    """Somebody sent what no minikafka of this version sends: the connection should be closed."""


@dataclass(frozen=True, slots=True)
class Message:
    """`epoch` is the one that the sender is in (or asks a vote for)."""

    KIND: ClassVar[str] = ""
    epoch: int

    def to_map(self) -> dict[str, Any]:
        """Plain values for msgpack."""
        plain: dict[str, Any] = {"kind": self.KIND, "version": VERSION}
        for name in _CHECKS_OF[self.KIND]:
            value = getattr(self, name)
            plain[name] = list(value) if isinstance(value, tuple) else value
        return plain

    @classmethod
    def from_map(cls, plain: dict[str, Any]) -> Self:
        """The message that `to_map` made this of; see `message_from_map`, which finds the class."""
        checks = _CHECKS_OF[cls.KIND]
        if plain.get("kind") != cls.KIND or plain.get("version") != VERSION:
            raise BadMessage(f"kind {plain.get('kind')!r} version {plain.get('version')!r} is not {cls.KIND} {VERSION}")
        if len(plain) != len(checks) + 2:
            raise BadMessage(f"a {cls.KIND} with {len(plain) - 2} fields, where {len(checks)} belong")
        try:
            return cls(**{name: check(name, plain[name]) for name, check in checks.items()})
        except KeyError as error:
            raise BadMessage(f"a {cls.KIND} without {error}") from None


@dataclass(frozen=True, slots=True)
class Vote(Message):
    """Will you vote for `candidate` in `epoch`? Or, as `pre_vote`: would you, if I began an epoch after this one?

    `last_epoch` and `last_offset` are the candidate's log's last record's epoch, and its end offset.
    """

    KIND: ClassVar[str] = "vote"
    candidate: int
    last_epoch: int
    last_offset: int
    pre_vote: bool


@dataclass(frozen=True, slots=True)
class VoteResponse(Message):
    """`granted` counts for the request's epoch only if `epoch` is still that one."""

    KIND: ClassVar[str] = "vote-answer"
    leader: int
    granted: bool


@dataclass(frozen=True, slots=True)
class BeginEpoch(Message):
    """`leader` leads `epoch`: fetch from it. Said until a voter fetches."""

    KIND: ClassVar[str] = "begin-epoch"
    leader: int


@dataclass(frozen=True, slots=True)
class BeginEpochResponse(Message):
    """Heard."""

    KIND: ClassVar[str] = "begin-epoch-answer"
    leader: int


@dataclass(frozen=True, slots=True)
class Fetch(Message):
    """Send records from `fetch_offset` on; the last one that `replica` has is of `last_fetched_epoch`.

    It says as well that `replica` has synced everything before `fetch_offset` and knows `high_watermark`: an answer
    may wait up to `max_wait_ms` until there is more to tell than that.
    """

    KIND: ClassVar[str] = "fetch"
    replica: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    max_wait_ms: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchResponse(Message):
    """Records, or else what to do first.

    Attributes:
        records: whole batches from the offset on that was asked for.
        high_watermark: the leader's.
        diverging: the logs part: the leader's greatest epoch not above the last fetched one, and where that ends there.
        snapshot: what was asked for is no longer in the log, but in this snapshot (offset, epoch).
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
    """Send the snapshot's bytes from `position` on."""

    KIND: ClassVar[str] = "fetch-snapshot"
    replica: int
    snapshot: SnapshotId
    position: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchSnapshotResponse(Message):
    """A part of the snapshot; `size` is that of the whole, -1 if it is no longer there."""

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
    """A request out of what msgpack gave. Raises BadMessage for anything else."""
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if not isinstance(plain, dict) or not isinstance(kind, str) or kind not in REQUESTS:
        raise BadMessage(f"no request of the quorum: kind {kind!r}")
    return REQUESTS[kind].from_map(plain)


def response_from_map(plain: object) -> Response:
    """An answer out of what msgpack gave. Raises BadMessage for anything else."""
    kind = plain.get("kind") if isinstance(plain, dict) else None
    if not isinstance(plain, dict) or not isinstance(kind, str) or kind not in RESPONSES:
        raise BadMessage(f"no answer of the quorum: kind {kind!r}")
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
_EPOCH = _number(0, INT32_MAX)
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
}
"""Fields of the same name hold the same in every message, but `FetchResponse.snapshot` may be None."""


def _checks_of(kind: type[Message]) -> dict[str, Check]:
    checks = {field.name: _CHECKS[field.name] for field in fields(kind)}
    if kind is FetchResponse:
        checks["snapshot"] = _optional(_snapshot)
    return checks


_CHECKS_OF = {kind.KIND: _checks_of(kind) for kind in (*REQUESTS.values(), *RESPONSES.values())}
"""The check of each field, in order, by kind of message."""
