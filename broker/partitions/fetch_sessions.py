"""Incremental fetch sessions (KIP-227): a client sends its partitions once, then only changes. Pure.

Time and randomness are passed in. A session remembers for each partition the last request and the last response, so
that an incremental response contains only changed partitions. The number of sessions is limited
(`max.incremental.fetch.session.cache.slots`); a session idle for `EVICTION_MS` is evicted for a newer one. A session of
a follower also evicts one of a client that is in use, as in Kafka: clients cannot keep followers from having sessions.

Memory is limited, too: a partition of a session takes about 700 bytes. All sessions together have at most
`PARTITIONS_MAX` partitions, and a session has at most `UNKNOWN_MAX` partitions that do not exist. A session beyond
these limits is not opened, and a session that grows beyond them is closed: its client goes on with full fetches, as it
does when no slot is free.

Source: Kafka's `FetchSession`, `FetchSessionCache`.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from random import Random

from minikafka.broker.partitions.request_waiters import ChangedPartitions
from minikafka.protocol.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
)

EVICTION_MS = 120_000
KAFKA_CACHES = 8
FINAL_EPOCH, INITIAL_EPOCH = -1, 0
NO_SESSION = 0
PARTITIONS_MAX = 200_000
UNKNOWN_MAX = 1_000

SessionKey = tuple[bytes, str, int]
"""The key of a partition in a session: topic id (nil in requests by name), topic name ("" if unknown), partition."""


@dataclass(slots=True)
class CachedPartition:
    """One partition of a session: the fields of the last request, and the watermarks of the last response.

    Attributes:
        unknown: Whether the partition did not exist when it was added to the session.
    """

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
    unknown: bool = False

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
    """One fetch session.

    Attributes:
        epoch: The session epoch of the next request.
        is_of_follower: Whether it is of a follower, which has the right to be one.
        changes: The partitions that have grown or changed since they were last read.
        partitions: The partitions by key. *Invariant:* in the order of serving; a partition that was served is moved to
            the end.
    """

    id: int
    by_id: bool
    epoch: int
    last_used_ms: int
    is_of_follower: bool = False
    unknown: int = 0
    """How many of the session's partitions did not exist when they were added."""
    changes: ChangedPartitions = field(default_factory=ChangedPartitions)
    partitions: OrderedDict[SessionKey, CachedPartition] = field(default_factory=lambda: OrderedDict())

    def update(self, asked: Iterable[CachedPartition], forgotten: Iterable[SessionKey]) -> None:
        """Add, update and remove partitions as in the request."""
        for partition in asked:
            known = self.partitions.get(partition.key)
            if known is None:
                self.partitions[partition.key] = partition
                self.unknown += partition.unknown
            else:
                known.update_from(partition)
        for key in forgotten:
            known = self.partitions.pop(key, None)
            self.unknown -= known is not None and known.unknown
            self.changes.unfollow(key)
            self.changes.keys.pop(key, None)


def usable_slots(slots: int) -> int:
    """Round `max.incremental.fetch.session.cache.slots` down as Kafka does, which divides it among eight caches."""
    return slots - slots % KAFKA_CACHES


class SessionCache:
    """All fetch sessions of a node, at most `slots` of them."""

    def __init__(self, slots: int, random: Random) -> None:
        self._slots = slots
        self._random = random
        self._sessions: OrderedDict[int, Session] = OrderedDict()  # the longest unused first
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, partitions: Collection[CachedPartition], *, by_id: bool, now_ms: int, is_of_follower: bool = False
    ) -> Session | None:
        """Open a session; None if no slot is free or the session is too large: the client goes on with full fetches."""
        unknown = sum(partition.unknown for partition in partitions)
        if unknown > UNKNOWN_MAX or len(partitions) > PARTITIONS_MAX:
            return None
        while len(self._sessions) >= self._slots or self._partitions + len(partitions) > PARTITIONS_MAX:
            if not self._evict(now_ms, for_follower=is_of_follower):
                return None
        session = Session(self._new_id(), by_id, epoch=1, last_used_ms=now_ms, is_of_follower=is_of_follower)
        self._sessions[session.id] = session
        self.update(session, partitions, ())
        return session

    def update(
        self, session: Session, asked: Iterable[CachedPartition], forgotten: Iterable[SessionKey]
    ) -> None:
        """Add, update and remove partitions as in the request.

        Raises:
            FetchSessionIdNotFoundError: The session has become too large, and is closed.
        """
        before = len(session.partitions)
        session.update(asked, forgotten)
        self._partitions += len(session.partitions) - before
        if session.unknown > UNKNOWN_MAX or self._partitions > PARTITIONS_MAX:
            self.close(session.id)
            raise FetchSessionIdNotFoundError(f"fetch session {session.id} has too many partitions")

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
            self._partitions -= len(session.partitions)
            session.changes.close()

    def _evict(self, now_ms: int, *, for_follower: bool) -> bool:
        evicted = next(iter(self._sessions.values()), None)
        if evicted is not None and now_ms - evicted.last_used_ms <= EVICTION_MS:
            of_clients = (one for one in self._sessions.values() if not one.is_of_follower)
            evicted = next(of_clients, None) if for_follower else None
        if evicted is None:
            return False
        self.close(evicted.id)
        return True

    def _new_id(self) -> int:
        while True:
            session_id = self._random.randrange(1, 2**31)
            if session_id not in self._sessions:
                return session_id

