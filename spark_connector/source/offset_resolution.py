"""Resolves options to partitions and offsets: subscriptions, startingOffsets, endingOffsets and timestamps."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping

from minikafka.client.connections.cluster_metadata import Topic
from minikafka.protocol.errors import KafkaError, UnknownTopicOrPartitionError
from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.brokers import sockets
from minikafka.spark_connector.brokers.offset_reader import OffsetReader
from minikafka.spark_connector.options.offsets import EARLIEST, LATEST, Offsets, names
from minikafka.spark_connector.options.source_options import Bound, SourceOptions
from minikafka.spark_connector.source.data_loss import report
from minikafka.spark_connector.source.range_planner import Range, plan

_logger = logging.getLogger(__name__)


class UnresolvedOffsets(ValueError):
    """Offsets of the options do not match the existing partitions or records."""


def find_partitions(
    reader: OffsetReader, options: SourceOptions, known: Collection[TopicPartition] | None = None
) -> list[TopicPartition]:
    """Returns the sorted partitions to read, from newly fetched metadata.

    A single response may come from a broker that does not know of a topic or partition yet: brokers are asked again,
    as often as `fetchOffset.numRetries` says. An assigned partition that does not exist is left out, as by Spark's own
    source, and logged.

    Args:
        known: the partitions that the query has read. None at its start: then all topics must exist.

    Raises UnknownTopicOrPartitionError for a topic that must exist and does not; a topic's error, of a known partition
    only if it is not that it does not exist.
    """
    attempts, pause_s = options.retries + 1, options.retry_interval_s
    if known is None:
        attempts, pause_s = max(1, options.retries), min(pause_s, 0.2)
    for attempt in range(attempts):
        if attempt:
            sockets.sleep(pause_s)
        reader.refresh(_names(options))
        found, missing, absent = _existing(reader, options), _missing(reader, options), _absent(reader, options)
        lost = set(known or ()).difference(found)
        if not (missing or absent if known is None else lost):
            break
    if known is None and missing:
        raise missing[0]
    for tp in sorted(lost):
        error = reader.metadata.errors.get(tp.topic)
        if error is not None and not isinstance(error, UnknownTopicOrPartitionError):
            raise error
    for tp in absent:
        _logger.warning("assigned partition does not exist, and is left out: %s", tp)
    return found


def _existing(reader: OffsetReader, options: SourceOptions) -> list[TopicPartition]:
    """The sorted partitions to read that the metadata has."""
    found = [
        TopicPartition(topic.name, partition.index)
        for topic in _topics(reader, options)
        for partition in topic.partitions
    ]
    return sorted(tp for tp in found if options.strategy != "assign" or tp in options.assigned)


def _missing(reader: OffsetReader, options: SourceOptions) -> list[KafkaError]:
    """An error for each topic that the metadata does not have."""
    topics, faults, advice = reader.metadata.topics, reader.metadata.errors, f"correct the option {options.strategy!r}"
    missing: list[KafkaError] = []
    for name in _names(options) or ():
        if name not in topics:
            fault = faults.get(name)
            unknown = fault is None or isinstance(fault, UnknownTopicOrPartitionError)
            text = f"topic {name!r} does not exist: create it, or {advice}"
            missing.append(UnknownTopicOrPartitionError(text) if unknown or fault is None else fault)
    return missing


def _absent(reader: OffsetReader, options: SourceOptions) -> list[TopicPartition]:
    """The assigned partitions that do not exist although their topics do."""
    topics = reader.metadata.topics
    return [
        tp
        for tp in options.assigned
        if tp.topic in topics and not 0 <= tp.partition < len(topics[tp.topic].partitions)
    ]


def _names(options: SourceOptions) -> list[str] | None:
    if options.strategy == "subscribePattern":
        return None
    if options.strategy == "assign":
        return list(dict.fromkeys(tp.topic for tp in options.assigned))
    return list(dict.fromkeys(options.topics))


def _topics(reader: OffsetReader, options: SourceOptions) -> list[Topic]:
    wanted = _names(options)
    topics = [
        topic
        for topic in reader.metadata.topics.values()
        if not topic.is_internal and (wanted is None or topic.name in wanted)
    ]
    if options.strategy == "subscribePattern":
        pattern = re.compile(options.pattern)
        return [topic for topic in topics if pattern.search(topic.name)]  # Spark too matches anywhere in the name.
    return topics


def ends(
    reader: OffsetReader,
    options: SourceOptions,
    partitions: Iterable[TopicPartition],
    *,
    wait_for_gone: bool = True,
) -> Offsets:
    """Returns last stable offsets, or high watermarks with read_uncommitted; see `OffsetReader.list_offsets`."""
    wanted, committed = dict.fromkeys(partitions, LATEST), options.kafka.read_committed
    return reader.list_offsets(wanted, read_committed=committed, wait_for_gone=wait_for_gone)


def starts(reader: OffsetReader, partitions: Iterable[TopicPartition]) -> Offsets:
    """Returns log start offsets."""
    return reader.list_offsets(dict.fromkeys(partitions, EARLIEST))


def resolve(
    reader: OffsetReader, options: SourceOptions, bound: Bound, partitions: list[TopicPartition], *, is_start: bool
) -> Offsets:
    """Returns the offsets of a bound.

    Raises UnresolvedOffsets if the bound specifies other partitions than exist, or a start timestamp that is after all
    records.
    """
    committed = options.kafka.read_committed
    if bound.kind in ("earliest", "latest"):
        special = EARLIEST if bound.kind == "earliest" else LATEST
        return reader.list_offsets(dict.fromkeys(partitions, special), read_committed=committed)
    if bound.kind == "offsets":
        _check_same(bound.by_partition, partitions)
        special_ones = {tp: offset for tp, offset in bound.by_partition.items() if offset < 0}
        found = reader.list_offsets(special_ones, read_committed=committed) if special_ones else {}
        return {tp: found.get(tp, bound.by_partition[tp]) for tp in partitions}
    times = dict.fromkeys(partitions, bound.time_ms)
    if bound.kind == "times":
        _check_same(bound.by_partition, partitions, by_time="start" if is_start else "end")
        times = {tp: bound.by_partition[tp] for tp in partitions}
    return _at_times(reader, options, times, is_start=is_start)


def _check_same(given: Mapping[TopicPartition, int], existing: list[TopicPartition], *, by_time: str = "") -> None:
    if set(given) == set(existing):
        return
    compared = f"Specified: {{{names(given)}}} Assigned: {{{names(existing)}}}"
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
    reader: OffsetReader, options: SourceOptions, times: Mapping[TopicPartition, int], *, is_start: bool
) -> Offsets:
    committed = options.kafka.read_committed
    found = reader.list_offsets(times, read_committed=committed)
    unmatched = [tp for tp, offset in found.items() if offset < 0]
    if unmatched and is_start and not options.no_match_latest:
        tp = unmatched[0]
        raise UnresolvedOffsets(
            f"No offset matched from request of topic-partition {tp} and timestamp {times[tp]}. To start at the end of"
            " such partitions, set startingOffsetsByTimestampStrategy to latest."
        )
    if unmatched:
        found |= ends(reader, options, unmatched)
    return found


def batch_ranges(reader: OffsetReader, options: SourceOptions) -> list[Range]:
    """Returns the ranges that a batch query reads.

    Raises UnresolvedOffsets; DataLoss with `failOnDataLoss`, if requested offsets do not exist.
    """
    partitions = find_partitions(reader, options)
    low = resolve(reader, options, options.starting or Bound("earliest"), partitions, is_start=True)
    high = resolve(reader, options, options.ending or Bound("latest"), partitions, is_start=False)
    for tp in partitions:
        if low[tp] > high[tp]:
            raise UnresolvedOffsets(
                f"The resolved start offset {low[tp]} is greater than the resolved end offset {high[tp]} for topic"
                f" {tp.topic} partition {tp.partition}: either the start was set beyond the end, or the topic was"
                " deleted and created again."
            )
    high = _capped_at_log_end(reader, options, high)
    ranges = [
        Range(tp.topic, tp.partition, low[tp], high[tp], reader.metadata.topic_id(tp.topic)) for tp in partitions
    ]
    return plan(ranges, at_least=options.min_partitions, size_max=options.max_records_per_partition)


def _capped_at_log_end(reader: OffsetReader, options: SourceOptions, high: Offsets) -> Offsets:
    """Limits ending offsets to the log ends, and reports those of the user that are beyond the log end.

    The report comes at once; Spark's source waits for minutes.
    """
    if (options.ending or Bound("latest")).kind != "offsets":
        return high
    log_ends = ends(reader, options, high)
    for tp, offset in high.items():
        if offset > log_ends[tp]:
            report(
                f"The ending offset {offset} for {tp} is greater than the last available offset {log_ends[tp]}.",
                fail=options.fail_on_data_loss,
            )
    return {tp: min(offset, log_ends[tp]) for tp, offset in high.items()}
