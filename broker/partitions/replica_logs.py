"""`ReplicaLogs`: opens and deletes the logs of this node's replicas, and tells the controller where they are."""

from collections.abc import Callable, Collection

import structlog

from minikafka.broker.partitions.follower_progress import ReplicaEnvironment
from minikafka.broker.partitions.partition import SINGLE_NODE, Partition
from minikafka.controller.metadata.image import Image, PartitionState, Topic
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.directory_ids import LOST
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.disks.disk_errors import is_passing
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.recovery import CorruptLog

log = structlog.get_logger("minikafka.partitions")


class ReplicaLogs:
    """The logs of the replicas of this node.

    Args:
        node_id: This node.
        image: The metadata image.
        logs: The logs on disk.
        config_of: Returns the log settings of a topic.
        placed: Called with topic id, partition and directory id of each replica of this node that is in another data
            directory than the metadata say; with the directory id `LOST` for a replica that cannot be opened.
        target_of: Returns the id of the directory to which a replica is being moved; None without a move.
        environment: For each `Partition`.

    Attributes:
        missing: Topic id and partition of each replica whose log could not be opened because of a passing error.
    """

    def __init__(
        self,
        node_id: int,
        image: Image,
        logs: LogManager,
        config_of: Callable[[str], LogConfig],
        *,
        placed: Callable[[bytes, int, bytes], None] = lambda topic_id, index, directory: None,
        target_of: Callable[[TopicPartition], bytes | None] = lambda key: None,
        environment: ReplicaEnvironment = SINGLE_NODE,
    ) -> None:
        self.logs = logs
        self.config_of = config_of
        self.missing: dict[tuple[bytes, int], None] = {}
        self._node_id = node_id
        self._image = image
        self._placed = placed
        self._target_of = target_of
        self._environment = environment
        self._refused: set[tuple[bytes, int]] = set()
        self._in_full: dict[tuple[bytes, int], None] = {}

    def open(self, key: TopicPartition, topic_id: bytes, state: PartitionState, *, is_new: bool) -> Partition | None:
        """Open or create the replica's log; the log of a deleted topic with the same name is set aside (KAFKA-14616).

        Returns:
            The replica; None if its log cannot be opened, and this partition is not served.
        """
        replica = topic_id, key.partition
        assigned = state.directory(self._node_id)
        try:
            opened = self.logs.create(
                key,
                topic_id=topic_id,
                assigned=assigned,
                is_new=is_new and replica not in self._refused,
                is_needed=self._node_id in (*state.isr, *state.elr),
            )
        except (KafkaError, CorruptLog) as error:
            (log.debug if replica in self.missing else log.error)(
                "partition not served: log cannot be opened", partition=str(key), error=str(error)
            )
            if error.__cause__ is not None and is_passing(error.__cause__):
                self.missing[replica] = None
            self._refused.add(replica)
            if self._image.has_online(self._node_id, assigned):
                self._placed(*replica, LOST)
            return None
        self._refused.discard(replica)
        opened.update_config(self.config_of(key.topic))  # The log may have been opened with older settings.
        high_watermark = self.logs.high_watermark(key)
        return Partition(
            self._node_id, topic_id, key, opened, high_watermark=high_watermark, environment=self._environment
        )

    def report_place(self, partition: Partition, state: PartitionState) -> None:
        """Tell the controller in which data directory a replica is, if the metadata name another one."""
        directory = self.logs.directory_id(partition.topic_partition)
        replica = partition.topic_id, partition.topic_partition.partition
        expected = (directory, self._target_of(partition.topic_partition))
        if directory is not None and state.directory(self._node_id) not in expected and replica not in self._in_full:
            self._placed(*replica, directory)

    @property
    def some_in_full(self) -> bool:
        """Whether the controller was told of replicas in full directories."""
        return bool(self._in_full)

    def tell_if_full(self, partition: Partition, full: Collection[bytes]) -> None:
        """Tell the controller if a replica is in a full directory, whose ids are given, or no longer is.

        A replica in a full directory counts as lost while other replicas are in sync, so that one of these leads. The
        only replica in sync stays, and serves reads.
        """
        topic = self._image.topics_by_id.get(partition.topic_id)
        index = partition.topic_partition.partition
        directory = self.logs.directory_id(partition.topic_partition)
        if topic is None or directory is None:
            return
        state, replica = topic.partitions[index], (partition.topic_id, index)
        others = any(node != self._node_id for node in state.isr)
        if directory in full and state.leader >= 0 and others:
            if replica not in self._in_full:
                log.warning("partition led elsewhere: log directory full", partition=str(partition))
                self._in_full[replica] = None
                self._placed(*replica, LOST)
        elif replica in self._in_full and (directory not in full or state.leader < 0):
            del self._in_full[replica]
            self.report_place(partition, state)

    def remove(self, partition: Partition) -> None:
        """Delete the log of a replica that has been removed."""
        self._in_full.pop((partition.topic_id, partition.topic_partition.partition), None)
        self._delete(partition.topic_partition, partition.topic_id)

    def remove_unserved(self, topic: Topic, index: int) -> None:
        """Delete the log of a removed replica that could not be opened; but not that of a new topic of that name."""
        replica = topic.id, index
        if replica in self._refused:
            self._refused.discard(replica)
            self.missing.pop(replica, None)
            self._delete(TopicPartition(topic.name, index), topic.id)

    def _delete(self, key: TopicPartition, topic_id: bytes) -> None:
        try:
            self.logs.delete(key, topic_id)
        except KafkaError as error:
            log.error("log not deleted", partition=str(key), error=str(error))
