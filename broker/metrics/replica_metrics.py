"""Collects the metrics of the replicas on a node: partitions, their logs and followers, and the data directories."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from minikafka.broker.metrics.family import Collector, Family, Sample, gauge, total
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.replication.follower_fetch_state import PartitionFetchState
from minikafka.broker.replication.isr_changes import AlterPartitionManager
from minikafka.controller.metadata.image import Image
from minikafka.storage.directories.log_manager import LogManager

__all__ = ["directory_metrics", "fetcher_metrics", "isr_metrics", "log_metrics", "replica_metrics"]

PARTITIONS_AT_ONCE = 500
LABELS = ("topic", "partition")
MANAGER = "kafka_server_replicamanager"


@dataclass(slots=True)
class _Counts:
    leaders: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    at_min_isr: int = 0
    reassigning: int = 0
    follower_lag_max: int = 0
    produces_waiting: int = 0

    def add(self, partition: Partition, image: Image) -> None:
        """Count a partition that this node leads."""
        leader_state = partition.leader_state
        if leader_state is None:
            return
        in_sync, replicas = len(leader_state.isr), 1 + len(leader_state.followers)
        min_isr = leader_state.min_isr(partition.log.config.min_insync_replicas)
        self.leaders += 1
        self.produces_waiting += partition.commits_awaited
        self.under_replicated += in_sync < replicas
        self.under_min_isr += in_sync < min_isr
        self.at_min_isr += in_sync == min_isr
        self.reassigning += _is_reassigned(partition, image)
        for _, lag in _lags(partition):
            self.follower_lag_max = max(self.follower_lag_max, lag)


def _is_reassigned(partition: Partition, image: Image) -> bool:
    topic = image.topics_by_id.get(partition.topic_id)
    index = partition.topic_partition.partition
    if topic is None or index >= len(topic.partitions):
        return False
    state = topic.partitions[index]
    return bool(state.adding_replicas or state.removing_replicas)


def _lags(partition: Partition) -> list[tuple[int, int]]:
    """Return (node id, lag) of each follower: the records that it lacks, as of its last fetch in this leader epoch.

    Before its first fetch a follower lacks all records of the log.
    """
    leader_state, log = partition.leader_state, partition.log
    if leader_state is None:
        return []
    return [
        (node_id, max(0, log.end_offset - max(follower.end_offset, log.start_offset)))
        for node_id, follower in leader_state.followers.items()
    ]


def replica_metrics(
    partitions: Partitions, image: Callable[[], Image], fetches_waiting: Callable[[], int]
) -> Collector:
    """Make the collector of partition counts, ISR sizes, lags of followers, and waiting requests."""

    def collect() -> Iterator[Family | None]:
        counts, all_partitions = _Counts(), list(partitions)
        for number, partition in enumerate(all_partitions):
            counts.add(partition, image())
            if number % PARTITIONS_AT_ONCE == 0:
                yield None
        yield gauge(f"{MANAGER}_partitioncount", "Replicas on this node.", len(all_partitions))
        yield gauge(f"{MANAGER}_leadercount", "Partitions that this node leads.", counts.leaders)
        yield gauge(
            f"{MANAGER}_underreplicatedpartitions",
            "Partitions led by this node of which a replica is not in sync.",
            counts.under_replicated,
        )
        yield gauge(
            f"{MANAGER}_underminisrpartitioncount",
            "Partitions led by this node with fewer replicas in sync than min.insync.replicas.",
            counts.under_min_isr,
        )
        yield gauge(
            f"{MANAGER}_atminisrpartitioncount",
            "Partitions led by this node with as many replicas in sync as min.insync.replicas.",
            counts.at_min_isr,
        )
        yield gauge(
            f"{MANAGER}_reassigningpartitions", "Partitions led by this node that are reassigned.", counts.reassigning
        )
        yield gauge(
            "minikafka_follower_lag_max",
            "The records that the follower lacks which is furthest behind, of the partitions led by this node.",
            counts.follower_lag_max,
        )
        yield Family(
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "gauge",
            "Requests that wait until their records are committed, or until there are records.",
            [(("Produce",), float(counts.produces_waiting)), (("Fetch",), float(fetches_waiting()))],
            ("delayedOperation",),
        )
        yield from _by_partition(all_partitions)

    return collect


def fetcher_metrics(fetched: Callable[[], Iterable[tuple[int, PartitionFetchState]]]) -> Collector:
    """Make the collector of this node's lag behind the leaders that it follows, as of their last responses."""

    def collect() -> Iterator[Family | None]:
        states = list(fetched())
        lag_max = max((state.lag for _, state in states), default=0)
        yield Family(
            "kafka_server_replicafetchermanager_maxlag",
            "gauge",
            "The committed records that this node lacks of the partition with which it is furthest behind.",
            [(("Replica",), float(lag_max))],
            ("clientId",),
        )
        yield Family(
            "kafka_server_fetcherlagmetrics_consumerlag",
            "gauge",
            "The committed records of a partition that this node lacks; from the follower.",
            ((_fetcher(leader_id, state), float(state.lag)) for leader_id, state in states),
            ("clientId", *LABELS),
        )

    return collect


def _fetcher(leader_id: int, state: PartitionFetchState) -> tuple[str, str, str]:
    return f"ReplicaFetcherThread-0-{leader_id}", *_labels(state.partition)


def isr_metrics(changes: AlterPartitionManager) -> Collector:
    """Make the collector of ISR changes that leaders on this node asked for.

    Changes after a broker was fenced are the controller's, and do not count here.
    """

    def collect() -> Iterator[Family | None]:
        yield total(f"{MANAGER}_isrshrinks", "ISRs that lost a replica by its leader's wish.", changes.shrinks)
        yield total(f"{MANAGER}_isrexpands", "ISRs that a replica entered.", changes.expands)

    return collect


def _by_partition(partitions: list[Partition]) -> Iterator[Family]:
    """Yield the families with a sample for each partition that this node leads."""
    yield Family(
        "kafka_cluster_partition_underreplicated",
        "gauge",
        "1 if a replica of the partition is not in sync; from its leader.",
        _of_leaders(partitions, lambda one, isr, replicas: len(isr) < replicas),
        LABELS,
    )
    yield Family(
        "kafka_cluster_partition_insyncreplicascount",
        "gauge",
        "The replicas in sync, with the leader; from the leader.",
        _of_leaders(partitions, lambda one, isr, replicas: len(isr)),
        LABELS,
    )
    yield Family(
        "minikafka_follower_lag",
        "gauge",
        "The records that a follower lacks, as of its last fetch; from the leader.",
        (((*_labels(one), str(follower)), lag) for one in partitions for follower, lag in _lags(one)),
        (*LABELS, "follower"),
    )


def _of_leaders(
    partitions: Iterable[Partition], value: Callable[[Partition, tuple[int, ...], int], float]
) -> Iterator[Sample]:
    for one in partitions:
        leader_state = one.leader_state
        if leader_state is not None:
            yield _labels(one), float(value(one, leader_state.isr, 1 + len(leader_state.followers)))


def _labels(partition: Partition) -> tuple[str, str]:
    topic, index = partition.topic_partition
    return topic, str(index)


_OF_LOGS: tuple[tuple[str, str, Callable[[Partition], int]], ...] = (
    ("kafka_log_log_size", "The size of a replica's log in bytes.", lambda one: one.log.size_bytes),
    ("kafka_log_log_logstartoffset", "The first offset of a replica's log.", lambda one: one.log.start_offset),
    ("kafka_log_log_logendoffset", "The offset of the next record of a replica's log.", lambda one: one.log.end_offset),
    ("kafka_log_log_numlogsegments", "The segments of a replica's log.", lambda one: len(one.log.segments)),
    (
        "minikafka_log_highwatermark",
        "The offset below which a replica knows all records to be committed.",
        lambda one: one.high_watermark,
    ),
)


def log_metrics(partitions: Partitions) -> Collector:
    """Make the collector of the sizes and offsets of all logs on this node."""

    def collect() -> Iterator[Family | None]:
        for name, documentation, read in _OF_LOGS:
            yield Family(name, "gauge", documentation, _of_all(list(partitions), read), LABELS)

    return collect


def _of_all(partitions: list[Partition], read: Callable[[Partition], int]) -> Iterator[Sample]:
    for one in partitions:
        yield _labels(one), read(one)


def directory_metrics(logs: Callable[[], LogManager]) -> Collector:
    """Make the collector of the data directories: which have failed or are full, and the room on their disks."""

    def collect() -> Iterator[Family | None]:
        directories = logs().directories
        failed = [directory for directory in directories if directory.failure is not None]
        yield gauge("kafka_log_logmanager_offlinelogdirectorycount", "Data directories that have failed.", len(failed))
        yield _of_directories(
            "kafka_log_logmanager_logdirectoryoffline",
            "1 for a data directory that has failed.",
            {one.path: one.failure is not None for one in directories},
        )
        full = {one.path: one.room.is_full for one in directories}
        yield _of_directories("minikafka_log_directory_full", "1 for a data directory that refused a write.", full)
        sizes = {one.path: found for one in directories if (found := one.sizes()) is not None}
        of_disks = {path: total for path, (total, _) in sizes.items()}
        yield _of_directories("minikafka_log_directory_size_bytes", "Bytes of the disk of a data directory.", of_disks)
        free = {path: found for path, (_, found) in sizes.items()}
        yield _of_directories("minikafka_log_directory_free_bytes", "Those that are free for this node.", free)

    return collect


def _of_directories(name: str, text: str, values: Mapping[str, int]) -> Family:
    return Family(name, "gauge", text, [((path,), float(value)) for path, value in values.items()], ("logDirectory",))
