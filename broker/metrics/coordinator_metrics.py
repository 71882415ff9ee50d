"""Collects the metrics of the groups and transactions that a node coordinates."""

from collections import Counter
from collections.abc import Callable, Iterator

from minikafka.broker.coordinator.groups.group_coordinator import GroupCoordinator
from minikafka.broker.coordinator.groups.group_shard import GroupShard
from minikafka.broker.coordinator.transactions.transaction import IDLE
from minikafka.broker.coordinator.transactions.transaction_coordinator import TransactionCoordinator
from minikafka.broker.metrics.family import Collector, Family, Sample, gauge, total
from minikafka.broker.partitions.partition_table import Partitions

__all__ = ["group_metrics", "transaction_metrics"]

GROUPS_AT_ONCE = 200
TRANSACTIONS_AT_ONCE = 1000
LABELS = ("consumergroup", "topic", "partition")


def group_metrics(groups: GroupCoordinator, partitions: Partitions) -> Collector:
    """Make the collector of groups, their committed offsets, and the lag of these offsets behind the high watermark."""

    def collect() -> Iterator[Family | None]:
        shards = list(groups.runtime.states())
        by_state: Counter[str] = Counter()
        for number, (_shard, _group_id, state) in enumerate(_groups(shards)):
            by_state[state] += 1
            if number % GROUPS_AT_ONCE == 0:
                yield None
        yield gauge(
            "kafka_coordinator_group_groupmetadatamanager_numgroups",
            "Groups that this node coordinates.",
            by_state.total(),
        )
        yield Family(
            "minikafka_groups",
            "gauge",
            "Groups that this node coordinates, by their state.",
            [((state,), float(count)) for state, count in by_state.items()],
            ("state",),
        )
        yield Family(
            "kafka_consumergroup_current_offset",
            "gauge",
            "The committed offset of a group; from its coordinator.",
            ((labels, float(offset)) for labels, offset in _committed(shards)),
            LABELS,
        )
        yield Family(
            "kafka_consumergroup_lag",
            "gauge",
            "Committed records that a group has yet to read; from a coordinator with a replica of the partition.",
            _lags(shards, partitions),
            LABELS,
        )
        yield total(
            "minikafka_groups_records_skipped",
            "Records of __consumer_offsets that cannot be read, and were skipped while partitions were loaded.",
            groups.runtime.skipped,
        )

    return collect


def _groups(shards: list[GroupShard]) -> Iterator[tuple[GroupShard, str, str]]:
    """Yield each group as (shard, group id, state)."""
    for shard in shards:
        for group in list(shard.groups()):
            yield shard, group.group_id, group.state_name


def _committed(shards: list[GroupShard]) -> Iterator[tuple[tuple[str, str, str], int]]:
    for shard, group_id, _ in _groups(shards):
        for topic, offsets in shard.offsets.topics(group_id):
            for partition, committed in offsets:
                yield (group_id, topic, str(partition)), committed.offset


def _lags(shards: list[GroupShard], partitions: Partitions) -> Iterator[Sample]:
    for labels, offset in _committed(shards):
        replica = partitions.get(labels[1], int(labels[2]))
        if replica is not None:
            yield labels, float(max(0, replica.high_watermark - offset))


def transaction_metrics(transactions: TransactionCoordinator, now_ms: Callable[[], int]) -> Collector:
    """Make the collector of transactional ids by state, and of the age of the oldest open transaction."""

    def collect() -> Iterator[Family | None]:
        by_state: Counter[str] = Counter()
        oldest_ms = now = now_ms()
        for shard in list(transactions.runtime.states()):
            for number, one in enumerate(list(shard.transactions.values())):
                by_state[one.state.title] += 1
                if one.state not in IDLE and one.start_ms >= 0:
                    oldest_ms = min(oldest_ms, one.start_ms)
                if number % TRANSACTIONS_AT_ONCE == 0:
                    yield None
        yield Family(
            "minikafka_transactions",
            "gauge",
            "Transactional ids that this node coordinates, by the state of their transaction.",
            [((state,), float(count)) for state, count in by_state.items()],
            ("state",),
        )
        yield gauge(
            "minikafka_transaction_oldest_seconds",
            "How long ago the oldest transaction began that is open or being completed; 0 without any.",
            (now - oldest_ms) / 1000,
        )
        yield total(
            "minikafka_transactions_records_skipped",
            "Records of __transaction_state that cannot be read, and were skipped while partitions were loaded.",
            transactions.runtime.skipped,
        )

    return collect
