"""OffsetTable: the committed offsets of one shard, and how records change them.

Offsets committed within a transaction (KIP-98) are kept apart, by producer, until its marker is applied.
Source: Kafka's `OffsetMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from minikafka.broker.coordinator.groups.state.group_records import NEVER, OffsetCommitValue
from minikafka.protocol.messages.group_records import OffsetCommitKey
from minikafka.protocol.names import TopicPartition

NO_PRODUCER = -1
ENDED_AT_ONCE = 1_000
"""Offsets of a transaction that are committed or dropped before others run; about 2 ms."""
TableKey = tuple[str, str, int]
"""(group id, topic, partition)."""


@dataclass(slots=True)
class CommittedOffset:
    """A committed offset. It is never changed; `frozen` would make loading slower by a tenth.

    Attributes:
        leader_epoch: Leader epoch of the last consumed record; -1 if the consumer did not send it (KIP-320).
        expire_timestamp: Explicit expiry of commits before v5; else `NEVER`.
        topic_id: Id of the topic, 16 bytes; nil in older records.
        record_offset: Offset of the record. *Use:* of a plain and a transactional commit, the later one wins.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: bytes
    record_offset: int

    @classmethod
    def of(cls, value: OffsetCommitValue, record_offset: int) -> CommittedOffset:
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            record_offset,
        )

    def is_expired(self, since_ms: int, now_ms: int, retention_ms: int) -> bool:
        """Whether the retention, counted from `since_ms`, is over; an explicit expiry takes precedence."""
        if self.expire_timestamp != NEVER:
            return now_ms >= self.expire_timestamp
        return now_ms - since_ms >= retention_ms


class _Pending:
    """The pending offsets of a transaction. Compared by identity: its producer may begin another while it ends."""

    __slots__ = ("offsets",)

    def __init__(self) -> None:
        self.offsets: dict[TableKey, CommittedOffset] = {}


class OffsetTable:
    """All committed offsets of one shard. Only `apply` and `end_transaction` change it."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}
        self._pending: dict[int, _Pending] = {}
        """By producer: its open transaction."""
        self._transactions: dict[str, dict[tuple[str, int], dict[_Pending, None]]] = {}
        """By group and partition: the transactions that have a pending offset. *Invariant:* nothing in it is empty."""

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self._groups.values() for partitions in topics.values())

    # -- queries -------------------------------------------------------------------------------------------------

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def topics(self, group_id: str) -> list[tuple[str, list[tuple[int, CommittedOffset]]]]:
        """All committed offsets of a group: (topic, [(partition, committed)])."""
        return [(topic, list(partitions.items())) for topic, partitions in self._groups.get(group_id, {}).items()]

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction has an offset for this partition (KIP-447)."""
        return (topic, partition) in self._transactions.get(group_id, ())

    def pending(self, group_id: str) -> list[TopicPartition]:
        """The partitions for which open transactions have an offset."""
        return [TopicPartition(*partition) for partition in self._transactions.get(group_id, ())]

    def is_known(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether there is a committed or a pending offset."""
        return self.get(group_id, topic, partition) is not None or self.is_pending(group_id, topic, partition)

    def has_open_transaction(self, group_id: str) -> bool:
        return group_id in self._transactions

    def count(self, group_id: str) -> int:
        """How many committed offsets a group has."""
        return sum(map(len, self._groups.get(group_id, {}).values()))

    def parts(self, group_id: str, size_max: int) -> Iterator[tuple[str, list[int]]]:
        """The partitions in which a group has committed offsets: (topic, at most so many partitions).

        Offsets may be changed meanwhile: those that are added may be left out, those that are removed be in it.
        """
        for topic in list(self._groups.get(group_id, ())):
            indexes = list(self._groups.get(group_id, {}).get(topic, ()))
            for first in range(0, len(indexes), size_max):
                yield topic, indexes[first : first + size_max]

    def partitions(self, group_id: str) -> Iterator[tuple[str, int]]:
        """The partitions in which a group has a committed or pending offset, each once."""
        for topic, partitions in self._groups.get(group_id, {}).items():
            for partition in partitions:
                yield topic, partition
        for topic, partition in self._transactions.get(group_id, ()):
            if self.get(group_id, topic, partition) is None:
                yield topic, partition

    def groups(self) -> list[str]:
        """The groups that have committed or pending offsets."""
        return list(self._groups | self._transactions)

    def known_of(self, group_id: str, partitions: Mapping[str, Set[int]]) -> list[tuple[str, int]]:
        """Those of the partitions, by topic, in which a group has a committed or pending offset; each once."""
        committed = self._groups.get(group_id, {})
        found = {
            (topic, index)
            for topic in committed.keys() & partitions
            for index in committed[topic].keys() & partitions[topic]
        }
        found.update(key for key in self._transactions.get(group_id, ()) if key[1] in partitions.get(key[0], ()))
        return sorted(found)

    # -- changes ------------------------------------------------------------------------------------------------

    def apply(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, record_offset: int, producer_id: int
    ) -> None:
        """Apply a record: a commit, pending if it has a producer id, or a tombstone."""
        table_key = (key.group, key.topic, key.partition)
        if value is None:
            self._remove(table_key)
        elif producer_id == NO_PRODUCER:
            self._put(table_key, CommittedOffset.of(value, record_offset))
        else:
            transaction = self._pending.setdefault(producer_id, _Pending())
            transaction.offsets[table_key] = CommittedOffset.of(value, record_offset)
            self._transactions.setdefault(key.group, {}).setdefault(table_key[1:], {})[transaction] = None

    def end_transaction(self, producer_id: int, *, committed: bool) -> Iterator[None]:
        """Apply a transaction marker: the producer's pending offsets become committed or are dropped.

        Others may change the table at each `yield`: what is not ended yet is still pending.
        """
        ended = self._pending.pop(producer_id, _Pending())
        for number, key in enumerate(list(ended.offsets), 1):
            pending = ended.offsets.get(key)
            if pending is not None:  # Otherwise a tombstone has removed it meanwhile.
                self._forget_pending(key, ended)
                known = self.get(*key)
                # Compaction keeps one record per key: a plain commit after the pending one must also win after a
                # restart.
                if committed and (known is None or pending.record_offset > known.record_offset):
                    self._put(key, pending)
            if number % ENDED_AT_ONCE == 0:
                yield

    def _put(self, key: TableKey, committed: CommittedOffset) -> None:
        group_id, topic, partition = key
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed

    def _remove(self, key: TableKey) -> None:
        group_id, topic, partition = key
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self._groups.pop(group_id, None)
        for transaction in list(self._transactions.get(group_id, {}).get(key[1:], ())):
            self._forget_pending(key, transaction)

    def _forget_pending(self, key: TableKey, transaction: _Pending) -> None:
        group_id, partition = key[0], key[1:]
        del transaction.offsets[key]
        of_group = self._transactions[group_id]
        del of_group[partition][transaction]
        if not of_group[partition]:
            del of_group[partition]
        if not of_group:
            del self._transactions[group_id]
