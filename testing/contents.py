"""`Contents`: the topics, records and groups of a cluster for tests, as tests make them and look at them.

Its clients have a client id of their own: no fault concerns them, and their requests are not noted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from minikafka.testing.faults.helper import HELPER

if TYPE_CHECKING:
    from minikafka.client import ConsumerRecord
    from minikafka.client.blocking import Admin

__all__ = ["Contents"]

POLL_S = 0.005
GROUP_TOPIC = "__consumer_offsets"
READ_MS = 50
T = TypeVar("T")


class Contents:
    """What a cluster contains.

    Args:
        servers: Returns the present addresses of its brokers.
    """

    def __init__(self, servers: Callable[[], str]) -> None:
        self._servers = servers
        self._admin: Admin | None = None

    def close(self) -> None:
        """Close the connections; they are opened again when they are needed."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.__exit__(None, None, None)

    @property
    def admin(self) -> Admin:
        """A client for all that has no method here."""
        if self._admin is None:
            from minikafka.client.blocking import Admin

            self._admin = Admin(self._servers(), client_id=HELPER).__enter__()
        return self._admin

    def create_topic(
        self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str] | None
    ) -> None:
        self.admin.create_topic(
            name, partitions=partitions, replication_factor=replication_factor, configs=dict(config or {})
        )

    def produce(self, topic: str, records: Iterable[Any], partition: int | None) -> None:
        from minikafka.client.blocking import Producer

        with Producer(self._servers(), client_id=HELPER) as producer:
            sent = [producer.send(topic, **{"partition": partition, **_record(one)}) for one in records]
            for delivery in sent:
                delivery.result()

    def records(self, topic: str, wait_for: int | None, timeout: float) -> list[ConsumerRecord]:
        deadline = time.monotonic() + timeout
        while True:
            found = self._committed(topic, deadline)
            if wait_for is None or len(found) >= wait_for:
                return found
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{topic} has {len(found)} committed records after {timeout:g} s, not {wait_for}")
            time.sleep(POLL_S)

    def _committed(self, topic: str, deadline: float) -> list[ConsumerRecord]:
        """All committed records of a topic, by partition and offset; none if there is no such topic yet."""
        from minikafka.client import TopicPartition
        from minikafka.client.blocking import Consumer
        from minikafka.protocol.errors import UnknownTopicOrPartitionError

        try:
            indexes = [one.index for one in self.admin.describe_topic(topic).partitions]
        except UnknownTopicOrPartitionError:
            return []
        partitions = [TopicPartition(topic, index) for index in indexes]
        found: list[ConsumerRecord] = []
        with Consumer(
            bootstrap_servers=self._servers(), client_id=HELPER, isolation_level="read_committed"
        ) as consumer:
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            ends = consumer.end_offsets(partitions)
            while any(consumer.position(one) < ends[one] for one in partitions):
                found += consumer.poll(timeout_ms=READ_MS)
                if time.monotonic() >= deadline:
                    raise TimeoutError(f"{topic} is not read to its end {ends}; so far {len(found)} records")
        return sorted(found, key=lambda record: (record.partition, record.offset))

    @property
    def groups(self) -> list[str]:
        return sorted(group.group_id for group in self.admin.list_groups())

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        return {(at.topic, at.partition): one.offset for at, one in self.admin.list_group_offsets(group).items()}

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """The records that a group has not consumed of each partition of which it has an offset, or that it reads."""
        from minikafka.client import LATEST, TopicPartition

        committed = self.offsets(group)
        members = self.admin.describe_group(group).members
        assigned = {(one.topic, one.partition) for member in members for one in member.assignment}
        partitions = [TopicPartition(*one) for one in sorted(committed.keys() | assigned)]
        ends = self.admin.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level="read_committed")
        return {
            (at.topic, at.partition): end.offset - committed.get((at.topic, at.partition), 0)
            for at, end in ends.items()
        }

    def members(self, group: str) -> int:
        """How many members a stable group has; 0 while it rebalances, and if there is no such group."""
        from minikafka.protocol.errors import GroupIdNotFoundError

        try:
            description = self.admin.describe_group(group)
        except GroupIdNotFoundError:
            return 0
        return len(description.members) if description.state == "Stable" else 0

    # -- leaders and fencing -------------------------------------------------------------------------------------

    def leader(self, topic: str, partition: int) -> int:
        return self.admin.describe_topic(topic).partitions[partition].leader

    def elect(self, topic: str, partition: int, node: int, timeout: float) -> None:
        from minikafka.client import TopicPartition

        at = TopicPartition(topic, partition)
        replicas = self.admin.describe_topic(topic).partitions[partition].replicas
        if node not in replicas:
            raise ValueError(f"node {node} has no replica of {topic}-{partition}; nodes with one: {replicas}")
        wanted = [node, *(one for one in replicas if one != node)]
        self.admin.alter_partition_reassignments({at: wanted})

        def elected() -> int:
            self.admin.elect_leaders([at])
            return self.leader(topic, partition)

        until(elected, lambda leader: leader == node, timeout, f"node {node} leads {topic}-{partition}")

    def move_coordinator(self, group: str, timeout: float) -> int:
        from minikafka.broker.coordinator.runtime import partition_for

        before = self.admin.describe_group(group).coordinator
        partition = partition_for(group, len(self.admin.describe_topic(GROUP_TOPIC).partitions))
        replicas = self.admin.describe_topic(GROUP_TOPIC).partitions[partition].replicas
        others = [one for one in replicas if one != before]
        if not others:
            raise ValueError(f"only node {before} can coordinate group {group!r}")
        self.elect(GROUP_TOPIC, partition, others[0], timeout)
        wanted = f"node {others[0]} coordinates group {group!r}"
        until(lambda: self.admin.describe_group(group).coordinator, lambda found: found == others[0], timeout, wanted)
        return others[0]

    def fence(self, transactional_id: str) -> None:
        from minikafka.client.blocking import Producer

        with Producer(self._servers(), client_id=HELPER, transactional_id=transactional_id):
            pass  # it has the next epoch


def until(read: Callable[[], T], is_reached: Callable[[T], bool], timeout: float, wanted: str) -> T:
    """Read again and again until it is what is wanted. Raises TimeoutError, which says what was seen instead."""
    deadline = time.monotonic() + timeout
    while True:
        seen: object
        try:
            seen = found = read()
        except Exception as error:
            seen = error
            if time.monotonic() >= deadline:
                raise TimeoutError(f"{wanted}: not within {timeout:g} s; last seen: {error!r}") from error
        else:
            if is_reached(found):
                return found
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{wanted}: not within {timeout:g} s; last seen: {seen!r}")
        time.sleep(POLL_S)


def _record(given: Any) -> dict[str, Any]:
    """The arguments of `send` of a value, a pair of key and value, or a dict of arguments."""
    if isinstance(given, Mapping):
        return {name: _bytes(one) if name in ("key", "value") else one for name, one in given.items()}
    if isinstance(given, tuple):
        key, value = given
        return {"key": _bytes(key), "value": _bytes(value)}
    return {"value": _bytes(given)}


def _bytes(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value
