"""Incremental fetch sessions (KIP-227): a client sends its partitions once, then only changes. Pure.

Time and randomness are passed in. A session remembers for each partition the last request and the last response, so
that an incremental response contains only changed partitions. The number of sessions is limited
(`max.incremental.fetch.session.cache.slots`); a session idle for `EVICTION_MS` is evicted for a newer one.

Source: Kafka's `FetchSession`, `FetchSessionCache`.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from minikafka.broker.partitions.request_waiters import ChangedPartitions
from minikafka.protocol.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
)

EVICTION_MS = 120_000
FINAL_EPOCH, INITIAL_EPOCH = -1, 0
NO_SESSION = 0

SessionKey = tuple[bytes, str, int]
"""Topic id (nil where the request goes by name), topic name ("" where unknown), partition."""


@dataclass(slots=True)
class CachedPartition:
    """One partition of a session: the last request, and the watermarks of the last response."""

    topic_id: bytes
    topic: str
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    high_watermark: int = -1
    answered_log_start_offset: int = -1
    answered: bool = False
    by_id: bool = False

    @property
    def key(self) -> SessionKey:
        """The key in the session; with topic ids it does not depend on the name."""
        return (self.topic_id, "", self.partition) if self.by_id else (self.topic_id, self.topic, self.partition)

    def update_from(self, newer: "CachedPartition") -> None:
        """Update from a later request of the session."""
        self.fetch_offset = newer.fetch_offset
        self.max_bytes = newer.max_bytes
        self.current_leader_epoch = newer.current_leader_epoch
        self.last_fetched_epoch = newer.last_fetched_epoch
        self.log_start_offset = newer.log_start_offset
        self.topic = newer.topic or self.topic


@dataclass(slots=True)
class Session:
    """One fetch session. `epoch` is that of the next request; `changes` is used for followers.

    Invariant: `partitions` is in the order of serving; partitions served last are moved to the end.
    """

    id: int
    by_id: bool
    epoch: int
    last_used_ms: int
    changes: ChangedPartitions = field(default_factory=ChangedPartitions)
    partitions: OrderedDict[SessionKey, CachedPartition] = field(default_factory=lambda: OrderedDict())

    def update(self, asked: Iterable[CachedPartition], forgotten: Iterable[SessionKey]) -> None:
        """Add, update and remove partitions as in the request."""
        for partition in asked:
            known = self.partitions.get(partition.key)
            if known is None:
                self.partitions[partition.key] = partition
            else:
                known.update_from(partition)
        for key in forgotten:
            self.partitions.pop(key, None)
            self.changes.unfollow(key)
            self.changes.keys.pop(key, None)


class SessionCache:
    """All fetch sessions of a node, at most `slots` of them."""

    def __init__(self, slots: int, random: Random) -> None:
        self._slots = slots
        self._random = random
        self._sessions: OrderedDict[int, Session] = OrderedDict()  # the longest unused first

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, partitions: Iterable[CachedPartition], *, by_id: bool, now_ms: int) -> Session | None:
        """Open a session; None if no slot is free, and the client continues with full fetches."""
        if len(self._sessions) >= self._slots and not self._evict(now_ms):
            return None
        session = Session(self._new_id(), by_id, epoch=1, last_used_ms=now_ms)
        session.update(partitions, ())
        self._sessions[session.id] = session
        return session

    def resume(self, session_id: int, epoch: int, *, by_id: bool, now_ms: int) -> Session:
        """Return the session for its next request.

        Raises:
            FetchSessionIdNotFoundError: The session is unknown, closed or evicted.
            InvalidFetchSessionEpochError: The epoch is not the next one; the session is unchanged.
            FetchSessionTopicIdError: Either the session or the request uses topic ids, but not both.
        """
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionIdNotFoundError(f"no fetch session {session_id}")
        if session.epoch != epoch:
            raise InvalidFetchSessionEpochError(f"expected epoch {session.epoch}, got {epoch}")
        if session.by_id != by_id:
            raise FetchSessionTopicIdError(f"fetch session {session_id} mixes topic ids and names")
        session.epoch = 1 if epoch == 2**31 - 1 else epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session

    def close(self, session_id: int) -> None:
        """Close a session; unknown ids are ignored."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.changes.close()

    def _evict(self, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms <= EVICTION_MS:
            return False
        self.close(oldest.id)
        return True

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randrange(1, 2**31)
            if session_id not in self._sessions:
                return session_id

