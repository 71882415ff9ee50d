"""Committed offsets: the table, and how records change it.

Those committed within a transaction (KIP-98) lie apart, by producer, until its marker comes.
Source: Kafka's `OffsetMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from minikafka.broker.coordinator.groups.group_records import NEVER, OffsetCommitValue
from minikafka.protocol.messages.group_records import OffsetCommitKey
from minikafka.protocol.names import TopicPartition

NO_PRODUCER = -1
Place = tuple[str, str, int]
"""(group id, topic, partition)."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset.

    Attributes:
        leader_epoch: Of the record before it, as the consumer knew it; -1 if it did not say (KIP-320).
        expire_timestamp: Its own expiry, of commits before v5; `NEVER` if it has none.
        topic_id: Of the topic that was meant, 16 bytes; nil in older records.
        record_offset: Where in the log it stands. *Use:* the later of a plain and a transactional commit counts.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: bytes
    record_offset: int

    @classmethod
    def of(cls, value: OffsetCommitValue, record_offset: int) -> Committed:
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
        """Whether it has been kept long enough, counting from `since_ms` unless it has an expiry of its own."""
        if self.expire_timestamp != NEVER:
            return now_ms >= self.expire_timestamp
        return now_ms - since_ms >= retention_ms


class Offsets:
    """All committed offsets of one coordinator. Only `apply`, `forget` and `end_transaction` change it."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, Committed]]] = {}
        self._pending: dict[int, dict[Place, Committed]] = {}

    def __len__(self) -> int:
        return sum(len(partitions) for topics in self._groups.values() for partitions in topics.values())

    # -- looking -------------------------------------------------------------------------------------------------

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        return self._groups.get(group_id, {}).get(topic, {}).get(partition)

    def topics(self, group_id: str) -> list[tuple[str, list[tuple[int, Committed]]]]:
        """All that a group has committed: (topic, [(partition, committed)])."""
        return [(topic, list(partitions.items())) for topic, partitions in self._groups.get(group_id, {}).items()]

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether an open transaction would change this one (KIP-447)."""
        place = (group_id, topic, partition)
        return any(place in places for places in self._pending.values())

    def is_known(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether there is an offset, or would be if an open transaction were committed."""
        return self.get(group_id, topic, partition) is not None or self.is_pending(group_id, topic, partition)

    def has_open_transaction(self, group_id: str) -> bool:
        return any(place[0] == group_id for places in self._pending.values() for place in places)

    def places(self, group_id: str) -> list[TopicPartition]:
        """Where a group has an offset, committed or pending, each once."""
        return list(dict.fromkeys(TopicPartition(topic, index) for topic, index in self._places(group_id)))

    def groups_with(self, partition: TopicPartition) -> list[str]:
        """The groups that have an offset, committed or pending, in `partition`."""
        found = [g for g, topics in self._groups.items() if partition.partition in topics.get(partition.topic, {})]
        found += [p[0] for places in self._pending.values() for p in places if p[1:] == tuple(partition)]
        return list(dict.fromkeys(found))

    def _places(self, group_id: str) -> Iterator[tuple[str, int]]:
        for topic, partitions in self._groups.get(group_id, {}).items():
            for partition in partitions:
                yield topic, partition
        for places in self._pending.values():
            for place in places:
                if place[0] == group_id:
                    yield place[1], place[2]

    # -- changing ------------------------------------------------------------------------------------------------

    def apply(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, record_offset: int, producer_id: int
    ) -> None:
        """A record: an offset, of a transaction if it has a producer, or the end of one."""
        place = (key.group, key.topic, key.partition)
        if value is None:
            self._remove(place)
        elif producer_id == NO_PRODUCER:
            self._put(place, Committed.of(value, record_offset))
        else:
            self._pending.setdefault(producer_id, {})[place] = Committed.of(value, record_offset)

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """A marker: what the producer has pending counts, or never was."""
        for place, pending in self._pending.pop(producer_id, {}).items():
            known = self.get(*place)
            # Compaction keeps one record a key: a plain commit after the pending one must win after a restart too.
            if committed and (known is None or pending.record_offset > known.record_offset):
                self._put(place, pending)

    def _put(self, place: Place, committed: Committed) -> None:
        group_id, topic, partition = place
        self._groups.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed

    def _remove(self, place: Place) -> None:
        group_id, topic, partition = place
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self._groups.pop(group_id, None)
        for places in self._pending.values():
            places.pop(place, None)
