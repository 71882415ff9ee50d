"""From options to offsets: which partitions there are, and where each is to be read from and up to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from minikafka.client.connections.cluster_metadata import Topic
from minikafka.protocol.errors import UnknownTopicOrPartitionError
from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector import sockets
from minikafka.spark_connector.data_loss import report
from minikafka.spark_connector.offset_reader import EARLIEST, LATEST, Cluster
from minikafka.spark_connector.offsets import Offsets, names
from minikafka.spark_connector.options import Limit, SourceOptions
from minikafka.spark_connector.range_planner import Range, plan


class UnresolvedOffsets(ValueError):
    """Options that do not fit the partitions that there are."""


def find_partitions(cluster: Cluster, options: SourceOptions, *, must_exist: bool = True) -> list[TopicPartition]:
    """The partitions to read, in order, from metadata that is asked for now.

    Raises UnknownTopicOrPartitionError where a subscribed topic is missing and `must_exist`.
    """
    for _ in range(options.retries if must_exist else 1):
        cluster.refresh(_names(options))
        missing = [name for name in _names(options) or () if name not in cluster.metadata.topics]
        if not missing:
            break
        sockets.pause(min(options.retry_interval_s, 0.2))
    if missing and must_exist:
        fault = cluster.metadata.errors.get(missing[0])
        raise UnknownTopicOrPartitionError(f"topic '{missing[0]}' does not exist: {fault.message if fault else ''}")
    found = [
        TopicPartition(topic.name, partition.index)
        for topic in _topics(cluster, options)
        for partition in topic.partitions
    ]
    if options.strategy == "assign":
        found = [tp for tp in found if tp in options.assigned]
    return sorted(found)


def _names(options: SourceOptions) -> list[str] | None:
    if options.strategy == "subscribePattern":
        return None
    if options.strategy == "assign":
        return list(dict.fromkeys(tp.topic for tp in options.assigned))
    return list(dict.fromkeys(options.topics))


def _topics(cluster: Cluster, options: SourceOptions) -> list[Topic]:
    wanted = _names(options)
    topics = [
        topic
        for topic in cluster.metadata.topics.values()
        if not topic.is_internal and (wanted is None or topic.name in wanted)
    ]
    if options.strategy == "subscribePattern":
        pattern = re.compile(options.pattern)
        return [topic for topic in topics if pattern.search(topic.name)]  # Spark's own finds it anywhere in the name
    return topics


def ends(cluster: Cluster, options: SourceOptions, partitions: Iterable[TopicPartition]) -> Offsets:
    """Last stable offsets, or high watermarks for read_uncommitted."""
    return cluster.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=options.kafka.read_committed)


def starts(cluster: Cluster, partitions: Iterable[TopicPartition]) -> Offsets:
    """Where the logs begin."""
    return cluster.list_offsets(dict.fromkeys(partitions, EARLIEST))


def resolve(
    cluster: Cluster, options: SourceOptions, limit: Limit, partitions: list[TopicPartition], *, is_start: bool
) -> Offsets:
    """The offsets that a limit stands for.

    Raises UnresolvedOffsets where it names other partitions than there are, or a start lies behind all records.
    """
    committed = options.kafka.read_committed
    if limit.kind in ("earliest", "latest"):
        special = EARLIEST if limit.kind == "earliest" else LATEST
        return cluster.list_offsets(dict.fromkeys(partitions, special), read_committed=committed)
    if limit.kind == "offsets":
        _check_same(limit.by_partition, partitions)
        special_ones = {tp: offset for tp, offset in limit.by_partition.items() if offset < 0}
        found = cluster.list_offsets(special_ones, read_committed=committed) if special_ones else {}
        return {tp: found.get(tp, limit.by_partition[tp]) for tp in partitions}
    times = dict.fromkeys(partitions, limit.time_ms)
    if limit.kind == "times":
        _check_same(limit.by_partition, partitions, by_time="start" if is_start else "end")
        times = {tp: limit.by_partition[tp] for tp in partitions}
    return _at_times(cluster, options, times, is_start=is_start)


def _check_same(given: Mapping[TopicPartition, int], there: list[TopicPartition], *, by_time: str = "") -> None:
    if set(given) == set(there):
        return
    compared = f"Specified: {{{names(given)}}} Assigned: {{{names(there)}}}"
    if by_time:
        raise UnresolvedOffsets(
            f"Partitions specified for Kafka timestamp based {by_time} offsets don't match what are assigned. Maybe"
            " topic partitions are created or deleted while the query is running, or you didn't specify all the"
            f" partitions. {compared}"
        )
    raise UnresolvedOffsets(
        "If startingOffsets contains specific offsets, you must specify all TopicPartitions.\n"
        f"Use -1 for latest, -2 for earliest, if you don't care.\n{compared}"
    )


def _at_times(
    cluster: Cluster, options: SourceOptions, times: Mapping[TopicPartition, int], *, is_start: bool
) -> Offsets:
    committed = options.kafka.read_committed
    found = cluster.list_offsets(times, read_committed=committed)
    unmatched = [tp for tp, offset in found.items() if offset < 0]
    if unmatched and is_start and not options.no_match_latest:
        tp = unmatched[0]
        raise UnresolvedOffsets(
            f"No offset matched from request of topic-partition {tp} and timestamp {times[tp]}. To begin at the end of"
            " such partitions, set startingOffsetsByTimestampStrategy to latest."
        )
    if unmatched:
        found |= ends(cluster, options, unmatched)
    return found


def batch_ranges(cluster: Cluster, options: SourceOptions) -> list[Range]:
    """What a batch query reads.

    Raises UnresolvedOffsets, DataLoss (where `failOnDataLoss` and offsets that were asked for are not there).
    """
    partitions = find_partitions(cluster, options)
    low = resolve(cluster, options, options.starting or Limit("earliest"), partitions, is_start=True)
    high = resolve(cluster, options, options.ending or Limit("latest"), partitions, is_start=False)
    for tp in partitions:
        if low[tp] > high[tp]:
            raise UnresolvedOffsets(
                f"The resolved start offset {low[tp]} is greater than the resolved end offset {high[tp]} for topic"
                f" {tp.topic} partition {tp.partition}: either the start was set beyond the end, or the topic was"
                " deleted and created again."
            )
    high = _within_reach(cluster, options, high)
    ranges = [
        Range(tp.topic, tp.partition, low[tp], high[tp], cluster.metadata.topic_id(tp.topic)) for tp in partitions
    ]
    return plan(ranges, at_least=options.min_partitions, size_max=options.max_records_per_partition)


def _within_reach(cluster: Cluster, options: SourceOptions, high: Offsets) -> Offsets:
    """Ends that a user has written may lie behind everything: say so at once; Spark's own source waits for minutes."""
    if (options.ending or Limit("latest")).kind != "offsets":
        return high
    there = ends(cluster, options, high)
    for tp, offset in high.items():
        if offset > there[tp]:
            report(
                f"The ending offset {offset} for {tp} is greater than the last available offset {there[tp]}.",
                fail=options.fail_on_data_loss,
            )
    return {tp: min(offset, there[tp]) for tp, offset in high.items()}
