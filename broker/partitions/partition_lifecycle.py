"""`MetadataFollower`: creates, changes and removes the replicas of this broker as the metadata log says.

`MetadataFollower.apply` receives every committed metadata record before the controller answers the request that wrote
it, so that a topic can be used as soon as CreateTopics has returned. Source: Kafka's `BrokerMetadataPublisher`,
`ReplicaManager.applyDelta`.

Methods that take long are generators, which yield between two replicas. Other tasks run at a `yield`, so that a topic
with thousands of partitions does not hold them up. The image does not change meanwhile, with one exception: during
`start`, the image may already have one more batch of records, which `apply` receives next.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import structlog

from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.partitions.replica_logs import ReplicaLogs
from minikafka.broker.partitions.stray_logs import set_stray_logs_aside
from minikafka.controller.failures import FAILURES
from minikafka.controller.metadata.image import Image, PartitionState, Topic
from minikafka.controller.metadata.records import (
    BrokerChange,
    BrokerRecord,
    ConfigRecord,
    PartitionChange,
    PartitionRecord,
    RemoveTopic,
)
from minikafka.protocol.errors import (
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollowerError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.names import TopicPartition
from minikafka.storage.log_config import LogConfig

log = structlog.get_logger("minikafka.partitions")

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
NAMES_MAX = 10
"""At most this many partitions are named in a line of the log."""
STEP_COST_MAX, OPENING_COST = 64, 16
"""A pause is due after work of cost `STEP_COST_MAX`, 2 to 10 ms: a replica that is looked at or changed costs 1, a log
that is opened or created costs 16. Cost is counted instead of time, so that a simulation has the same pauses."""


class FetcherManager(Protocol):
    """The interface to the replica fetchers; in a node `replication.ReplicaFetcherManager`."""

    def follow(self, partition: Partition) -> None: ...

    def unfollow(self, partition: Partition) -> None: ...

    def broker_changed(self, node_id: int) -> None: ...


class Moves(Protocol):
    """The interface to the moves of replicas between data directories; in a node `replication.ReplicaMoves`."""

    def resume(self, partition: Partition) -> None: ...

    def resume_waiting(self) -> None: ...

    def directory_failed(self) -> None: ...


class NoMoves:
    """`Moves` of a node whose replicas are not moved between data directories: does nothing."""

    def resume(self, partition: Partition) -> None:
        """Does nothing."""

    def resume_waiting(self) -> None:
        """Does nothing."""

    def directory_failed(self) -> None:
        """Does nothing."""


class NoFetchers:
    """`FetcherManager` of a node without other nodes: does nothing."""

    def follow(self, partition: Partition) -> None:
        """Does nothing."""

    def unfollow(self, partition: Partition) -> None:
        """Does nothing."""

    def broker_changed(self, node_id: int) -> None:
        """Does nothing."""


@dataclass(frozen=True, slots=True)
class ReplicaEvents:
    """What a node does when the role of a replica changes.

    Attributes:
        elected: Called for each partition that this node leads in a new leader epoch.
        resigned: Called for each partition that this node no longer leads, after the replica became a follower or was
            removed.
        deleted: Called with all partitions of a deleted topic, whether they had a replica on this node or not.
        isr_change_wanted: Called for a led partition whose ISR may have to change.
    """

    elected: Callable[[Partition], None] = lambda partition: None
    resigned: Callable[[Partition], None] = lambda partition: None
    deleted: Callable[[list[TopicPartition]], None] = lambda partitions: None
    isr_change_wanted: Callable[[Partition], None] = lambda partition: None


NO_EVENTS = ReplicaEvents()


class MetadataFollower:
    """Applies metadata records to the replicas of this node.

    Args:
        node_id: This node.
        image: The metadata image; a record is applied to it before `apply` is called.
        logs: The logs of the replicas.
        partitions: The replicas that are served.
        fetchers: Fetch the followed partitions from their leaders.
        moves: Move replicas between data directories.
    """

    def __init__(
        self,
        node_id: int,
        image: Image,
        logs: ReplicaLogs,
        partitions: Partitions,
        events: ReplicaEvents = NO_EVENTS,
        *,
        fetchers: FetcherManager | None = None,
        moves: Moves | None = None,
    ) -> None:
        self._node_id = node_id
        self._image = image
        self._logs = logs
        self._partitions = partitions
        self._events = events
        self._fetchers: FetcherManager = fetchers or NoFetchers()
        self._moves: Moves = moves or NoMoves()
        self._topics: dict[bytes, Topic] = {}
        self._new_roles: dict[Partition, bool] = {}
        self._step_cost = 0

    def _pause_due(self) -> bool:
        """Whether the work since the last pause should be followed by a pause."""
        if self._step_cost < STEP_COST_MAX:
            return False
        self._step_cost = 0
        return True

    def start(self) -> Generator[None]:
        """Create the replicas that the image assigns to this node, and set stray logs aside.

        The image must be caught up: with an older one, logs of newly assigned replicas look stray. A topic that is
        deleted meanwhile is created all the same: `apply` removes it, and its logs are not left as strays.
        """
        for topic in list(self._image.topics.values()):
            self._topics[topic.id] = topic
            for index in range(len(topic.partitions)):
                self._take_role(topic, index, is_new=False)
                if self._pause_due():
                    yield
        yield from set_stray_logs_aside(self._logs.logs, self._partitions, self._is_assigned)

    def _is_assigned(self, key: TopicPartition) -> bool:
        topic = self._image.topics.get(key.topic)
        if topic is None or key.partition >= len(topic.partitions):
            return False
        return self._node_id in topic.partitions[key.partition].replicas

    def look_for_room(self) -> Generator[None]:
        """Try full disks again, and tell the controller which replicas are in full directories. Called periodically."""
        logs = self._logs.logs
        logs.upkeep.check_room()
        yield from self._open_missing()
        self._moves.resume_waiting()
        full = logs.full_directory_ids()
        if full or self._logs.some_in_full:
            for partition in list(self._partitions):
                self._logs.tell_if_full(partition, full)
                self._step_cost += 1
                if self._pause_due():
                    yield

    def _open_missing(self) -> Generator[None]:
        for topic_id, index in list(self._logs.missing):
            topic = self._image.topics_by_id.get(topic_id)
            if topic is not None and self._partitions.get(topic.name, index) is None:
                self._take_role(topic, index, is_new=True)
            if topic is None or self._partitions.get(topic.name, index) is not None:
                self._logs.missing.pop((topic_id, index), None)
            if self._pause_due():
                yield

    def apply(self, records: Iterable[Any]) -> Generator[None]:
        """Apply committed records, in order. If the generator is closed early, later records are left out.

        A record with which a bug of minikafka is met is logged and counted; the other records are applied.
        """
        self._new_roles.clear()
        for record in records:
            if self._pause_due():
                yield
            try:
                yield from self._apply(record)
            except (OSError, KafkaStorageError):
                raise
            except Exception:
                log.exception("metadata not applied", record=type(record).__name__)
                FAILURES["metadata"] += 1
        self._log_new_roles()

    def _apply(self, record: Any) -> Generator[None]:
        match record:
            case PartitionRecord() | PartitionChange():
                topic = self._image.topics_by_id.get(record.topic_id)
                if topic is not None:
                    self._topics[topic.id] = topic
                    self._take_role(topic, record.partition, is_new=True)
            case RemoveTopic():
                yield from self._remove_topic(record.topic_id)
            case ConfigRecord():
                yield from self._configure(record.resource_type, record.resource_name)
            case BrokerRecord() | BrokerChange():
                self._fetchers.broker_changed(record.node_id)
                self._check_isr(record.node_id)
            case _:
                pass  # No effect on partitions.

    def _log_new_roles(self) -> None:
        """Log one line about all replicas whose role has changed; new replicas are left out."""
        if self._new_roles:
            leads = [str(partition) for partition, leads in self._new_roles.items() if leads]
            follows = [str(partition) for partition, leads in self._new_roles.items() if not leads]
            log.info(
                "replica roles changed",
                leads=len(leads),
                follows=len(follows),
                first_led=leads[:NAMES_MAX],
                first_followed=follows[:NAMES_MAX],
            )
        self._new_roles.clear()

    def _check_isr(self, node_id: int) -> None:
        """Check the ISRs after a broker changed: its replicas that have caught up may now enter without a fetch."""
        for partition in self._partitions:
            leader_state = partition.leader_state
            if leader_state is not None and node_id in leader_state.followers and node_id not in leader_state.isr:
                self._events.isr_change_wanted(partition)

    def _take_role(self, topic: Topic, index: int, *, is_new: bool) -> None:
        """Create this node's replica, change its role or remove it, according to the image.

        Args:
            is_new: Whether a replica that is not served has no log on this node.
        """
        self._step_cost += 1
        state = topic.partitions[index]
        partition = self._partitions.get(topic.name, index)
        if self._node_id not in state.replicas:
            if partition is not None:
                log.info("replica removed by reassignment", partition=str(partition), replicas=state.replicas)
                self._remove_replica(partition)
            else:
                self._logs.remove_unserved(topic, index)
            return
        if partition is None:
            self._step_cost += OPENING_COST
            partition = self._logs.open(TopicPartition(topic.name, index), topic.id, state, is_new=is_new)
            if partition is None:
                return
            partition.isr_change_wanted = self._events.isr_change_wanted
            self._partitions.add(partition)
            self._moves.resume(partition)
        self._logs.report_place(partition, state)
        self._change_role(partition, state)

    def _change_role(self, partition: Partition, state: PartitionState) -> None:
        led_before, had_role = partition.is_leader, partition.leader_epoch >= 0
        try:
            changed = partition.become(state)
        except KafkaError as error:
            log.error("partition offline", partition=str(partition), error=str(error))
            changed = False
        if partition.log.failure is not None:
            self._fetchers.unfollow(partition)
        elif changed and partition.is_leader:
            self._fetchers.unfollow(partition)
            self._events.elected(partition)
        elif changed:
            self._fetchers.follow(partition)
        if changed and led_before and not partition.is_leader:
            self._events.resigned(partition)
        if changed and had_role and led_before != partition.is_leader:
            self._new_roles[partition] = partition.is_leader

    def directory_failed(self) -> None:
        """Stop fetching the replicas in a data directory that has failed, and end their moves."""
        for partition in self._partitions:
            if partition.log.failure is not None:
                self._fetchers.unfollow(partition)
        self._moves.directory_failed()

    def _remove_topic(self, topic_id: bytes) -> Generator[None]:
        """Remove this node's replicas of a topic; if the node stops meanwhile, the remaining ones without a pause."""
        topic = self._topics.pop(topic_id, None)
        if topic is None:
            return
        served = (self._partitions.get(topic.name, index) for index in range(len(topic.partitions)))
        replicas = iter([one for one in served if one is not None and one.topic_id == topic_id])
        try:
            for partition in replicas:
                self._remove_replica(partition, UnknownTopicOrPartitionError)
                if self._pause_due():
                    yield
        finally:
            for partition in replicas:
                self._remove_replica(partition, UnknownTopicOrPartitionError)
            for index in range(len(topic.partitions)):
                self._logs.remove_unserved(topic, index)
        self._events.deleted([TopicPartition(topic.name, index) for index in range(len(topic.partitions))])

    def _remove_replica(self, partition: Partition, error: type[KafkaError] = NotLeaderOrFollowerError) -> None:
        """Remove a replica; requests that wait for it fail with the error."""
        self._step_cost += 2
        led_before = partition.is_leader
        self._partitions.remove(partition.topic_partition)
        self._fetchers.unfollow(partition)
        partition.resign(error)
        if led_before:
            self._events.resigned(partition)
        self._logs.remove(partition)

    def _configure(self, resource_type: int, name: str) -> Generator[None]:
        if resource_type not in (TOPIC_RESOURCE, BROKER_RESOURCE):
            return
        configs: dict[str, LogConfig] = {}
        for partition in list(self._partitions):
            topic = partition.topic_partition.topic
            if resource_type == BROKER_RESOURCE or topic == name:
                config = configs.get(topic)
                if config is None:
                    config = configs[topic] = self._logs.config_of(topic)
                partition.configure(config)
                self._step_cost += 1
                if self._pause_due():
                    yield
