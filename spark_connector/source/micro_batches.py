"""Determines the start and end offsets of each micro-batch of a stream. Runs in a separate process for each query.

Spark calls `latestOffset` repeatedly, every ten milliseconds while there are no new records; brokers are then queried
at most once per `idlePollMs`. Offsets only decrease if the log did: a re-created topic is recognized by its topic id, a
truncated log by its end offset, and both are reported according to `failOnDataLoss`. During a failover an end offset
may go back for a moment, until the new leader knows the high watermark: the query then keeps its position for as long
as any other request may take (`kafka.default.api.timeout.ms`).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from minikafka.protocol.names import TopicPartition
from minikafka.protocol.types import NIL_UUID
from minikafka.spark_connector.brokers import sockets
from minikafka.spark_connector.brokers.offset_reader import OffsetReader, PartitionGone, offset_reader_for
from minikafka.spark_connector.options.offsets import Offsets, from_json, names, to_json
from minikafka.spark_connector.options.rate_limits import RateLimiter
from minikafka.spark_connector.options.source_options import Bound, SourceOptions, check_stream, parse
from minikafka.spark_connector.source.data_loss import report
from minikafka.spark_connector.source.input_partitions import RangePartition, read_partition
from minikafka.spark_connector.source.offset_resolution import ends, find_partitions, resolve, starts
from minikafka.spark_connector.source.range_planner import Range, plan

if TYPE_CHECKING:
    import pyarrow as pa

_IDLE_PAUSE_FIRST_S = 0.01
_BACK_PAUSE_S = 0.5
_logger = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Implements Spark's interface; `StreamPosition` does the work, on the driver only."""

    def __init__(self, given: Mapping[str, str], columns: Sequence[str]) -> None:
        self._given = dict(given)
        self._columns = list(columns)
        self._options = parse(given)
        check_stream(self._options)
        self._opened: StreamPosition | None = None

    @property
    def _position(self) -> StreamPosition:
        if self._opened is None:
            self._opened = StreamPosition(self._options)
        return self._opened

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's names here and below)
        return self._position.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Returns the rate limit of the options; for Trigger.Once Spark uses ReadAllAvailable instead."""
        limits = self._options.rate_limits
        if limits.min_offsets is not None:
            return ReadMinRows(limits.min_offsets)
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return self._position.next(start, everything=isinstance(limit, ReadAllAvailable))

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return self._position.reported()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._position.pin()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges = self._position.ranges(start, end)
        options = self._options
        planned = plan(ranges, at_least=options.min_partitions, size_max=options.max_records_per_partition)
        return [RangePartition(one) for one in planned]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._given, self._columns, partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._position.commit(end)

    def __getstate__(self) -> dict[str, Any]:
        """Executors receive the options, not the connections."""
        return {**self.__dict__, "_opened": None}


class StreamPosition:
    """The position of a stream, and the metadata of its topics."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._brokers: OffsetReader = offset_reader_for(options.kafka)
        self._partitions: list[TopicPartition] = []
        self._metadata_refreshed_s = float("-inf")
        self._topic_ids: dict[str, bytes] = {}
        self._restarted: dict[TopicPartition, tuple[int, int]] = {}
        """Partitions whose log was replaced or truncated: the offset that the query had reached, and its next offset.

        An entry is removed once the query has continued, because it may reach the old offset again later."""
        self._back_since_s: dict[TopicPartition, float] = {}
        """Partitions whose end offset is before the offset that the query has reached, and the time since then."""
        self._deleted: dict[TopicPartition, tuple[bytes, int]] = {}
        """Partitions that counted as deleted: the topic id, and the offset that the query had reached."""
        self._latest: Offsets = {}
        self._available_now: Offsets | None = None
        self._rate_limiter = RateLimiter(options.rate_limits)
        self._pause_s = 0.0

    def initial(self) -> dict[str, Any]:
        """Returns the start offsets of a new query: the latest offsets, unless the options specify others."""
        partitions = self._find()
        bound = self._options.starting or Bound("latest")
        return self._json(resolve(self._brokers, self._options, bound, partitions, is_start=True))

    def pin(self) -> None:
        """Makes the current ends of the logs the end of the query, for Trigger.AvailableNow."""
        self._available_now = ends(self._brokers, self._options, self._find())

    def next(self, start: Mapping[str, Any], *, everything: bool) -> dict[str, Any]:
        """Returns the end of the micro-batch that begins at `start`, within the rate limits unless `everything`.

        Pauses before it returns `start` itself; a pause at the beginning would count as time of the next micro-batch
        with records.
        """
        begun, ids = from_json(start)
        for topic, topic_id in ids.items():
            self._topic_ids.setdefault(topic, topic_id)
        self._restarted = {tp: one for tp, one in self._restarted.items() if self._is_restarted(tp, begun)}
        latest = self._latest = self._ends(begun)
        low = self._starts(begun, latest)
        end = latest if everything else self._limited(low, latest)
        if end == begun:
            self._pause_s = min(max(2 * self._pause_s, _IDLE_PAUSE_FIRST_S), self._options.idle_poll_s)
            sockets.sleep(self._pause_s)
        else:
            self._pause_s = 0.0
        return self._json(end)

    def reported(self) -> dict[str, Any] | None:
        """Returns the ends of the logs as of the last query."""
        return self._json(self._latest) if self._latest else None

    def ranges(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Range]:
        """Returns the ranges between two offsets of the stream. Raises DataLoss for records known to be gone."""
        (begun, old_ids), (ended, ids) = from_json(start), from_json(end)
        if not self._partitions or self._absent(begun, ended):
            self._find(ended)
        gone = begun.keys() - ended.keys()
        if gone:
            self._lose(f"Partitions {names(gone)} have been deleted.")
            self._deleted |= {tp: (self._topic_ids.get(tp.topic, NIL_UUID), begun[tp]) for tp in gone}
        if absent := self._absent(begun, ended):
            self._lose(f"Partitions {names(absent)} have been deleted.")
            ended = {tp: offset for tp, offset in ended.items() if tp not in absent}
        low = self._starts(begun, ended)
        replaced = {topic: ids[topic] != old_id for topic, old_id in old_ids.items() if topic in ids}
        first: list[TopicPartition] = []
        for tp, offset in ended.items():
            if tp not in begun and low.get(tp) and not self._is_back(tp):
                self._lose(f"Added partition {tp} starts from {low[tp]} instead of 0.")
            if low.get(tp, 0) > offset:
                self._lose(_changed(tp, low[tp], offset))
            elif tp in begun and replaced.get(tp.topic) and not self._is_restarted(tp, begun):
                self._lose(f"Topic {tp.topic} was deleted and created again: {tp} had been read up to {begun[tp]}.")
            else:
                continue
            if tp in begun and tp in self._partitions and replaced.get(tp.topic, True):
                first.append(tp)
        if first:  # A batch that a failed run of the query has planned: the first one of a replaced log.
            low |= {tp: min(offset, ended[tp]) for tp, offset in starts(self._brokers, first).items()}
        topic_id = self._brokers.metadata.topic_id
        return [Range(tp.topic, tp.partition, low[tp], ended[tp], topic_id(tp.topic)) for tp in ended if tp in low]

    def _absent(self, begun: Offsets, ended: Offsets) -> list[TopicPartition]:
        """The added partitions of a batch that are gone: a failed run of the query has planned them."""
        return [tp for tp in ended if tp not in begun and self._brokers.metadata.missing(*tp)]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Commits the progress of the query to the group of `commitOffsets`, if set."""
        if self._options.commit_group:
            self._brokers.commit(self._options.commit_group, from_json(end)[0])

    def _find(self, known: Offsets | None = None) -> list[TopicPartition]:
        self._partitions = find_partitions(self._brokers, self._options, known)
        self._metadata_refreshed_s = sockets.now_s()
        return self._partitions

    def _ends(self, begun: Offsets) -> Offsets:
        """The end offsets of all partitions; not before `begun` unless a log was truncated or its topic re-created."""
        if sockets.now_s() - self._metadata_refreshed_s >= self._options.metadata_age_s:
            self._find(begun)
        self._detect_recreated_topics(begun)
        if self._available_now is not None:
            return self._pinned_ends(self._available_now, begun)
        return self._without_moments(self._present_ends(begun), begun)

    def _present_ends(self, begun: Offsets) -> Offsets:
        """The end offsets of the partitions that exist.

        A topic may have been deleted since the metadata were fetched: then the partitions are found anew, and those
        that are gone count as deleted. Brokers may disagree on what exists, but not for longer than a request may take.
        """
        deadline_s = sockets.now_s() + self._options.kafka.api_timeout_s
        while True:
            late = sockets.now_s() >= deadline_s
            try:
                return ends(self._brokers, self._options, self._partitions, wait_for_gone=late)
            except PartitionGone:
                self._find(begun)
                self._detect_recreated_topics(begun)
                sockets.sleep(_IDLE_PAUSE_FIRST_S)

    def _pinned_ends(self, pinned: Offsets, begun: Offsets) -> Offsets:
        """The pinned end offsets of the query.

        For an end before `begun`, waits until it is known whether the log was truncated. If it was not, the partition
        ends at `begun`: a failed batch has read more of an added partition than `pin` had found.
        """
        unpinned = [tp for tp in self._partitions if tp in begun and tp not in pinned]
        if unpinned:  # The metadata of `pin` lacked them.
            pinned |= ends(self._brokers, self._options, unpinned)
        before = [tp for tp in self._partitions if pinned.get(tp, sys.maxsize) < begun.get(tp, 0)]
        while before:
            self._without_moments(ends(self._brokers, self._options, before), begun)
            before = [tp for tp in before if tp in self._back_since_s and not self._is_restarted(tp, begun)]
            if before:
                sockets.sleep(_BACK_PAUSE_S)
        return {
            tp: offset if self._is_restarted(tp, begun) else max(offset, begun.get(tp, offset))
            for tp, offset in pinned.items()
        }

    def _without_moments(self, found: Offsets, begun: Offsets) -> Offsets:
        """The end offsets of logs; an end that has been before `begun` only for a short time is replaced by `begun`."""
        back = [tp for tp, end in found.items() if end < begun.get(tp, 0) and not self._is_restarted(tp, begun)]
        before, now_s, limit_s = self._back_since_s, sockets.now_s(), self._options.kafka.api_timeout_s
        self._back_since_s = {tp: before.get(tp, now_s) for tp in back}
        for tp in back:
            if now_s - self._back_since_s[tp] >= limit_s:
                self._lose(_changed(tp, begun[tp], found[tp]))
                self._restarted[tp] = (begun[tp], found[tp])
                continue
            if tp not in before:
                _logger.warning(
                    "%s ends at offset %d, before offset %d of the query: waiting up to %.0f s for its leader",
                    tp, found[tp], begun[tp], limit_s,
                )  # fmt: skip
            found[tp] = begun[tp]
        return found

    def _detect_recreated_topics(self, begun: Offsets) -> None:
        """Compares topic ids with those seen before: a topic may have been deleted and created again."""
        recreated: set[str] = set()
        for topic in sorted({tp.topic for tp in self._partitions}):
            now, before = self._brokers.metadata.topic_id(topic), self._topic_ids.get(topic, NIL_UUID)
            if NIL_UUID not in (now, before) and now != before:
                recreated.add(topic)
        for topic in sorted(recreated):
            reached = {tp: offset for tp, offset in begun.items() if tp.topic == topic}
            existing = [tp for tp in self._partitions if tp.topic == topic]
            new_ends = ends(self._brokers, self._options, existing)
            for tp, offset in reached.items():
                self._lose(
                    f"Topic {topic} was deleted and created again: {tp} had been read up to offset {offset}, the log of"
                    f" the new partition ends at {new_ends.get(tp, 0)}."
                )
            new_starts = starts(self._brokers, existing)
            self._restarted |= {tp: (reached[tp], new_starts[tp]) for tp in existing if tp in reached}
        known = {tp.topic: self._brokers.metadata.topic_id(tp.topic) for tp in self._partitions}
        self._topic_ids |= {topic: topic_id for topic, topic_id in known.items() if topic_id != NIL_UUID}

    def _starts(self, begun: Offsets, ended: Offsets) -> Offsets:
        """The start offsets: `begun`, also of partitions that are back; the log start of new and re-created partitions,
        the end of truncated logs.
        """
        new = [tp for tp in ended if tp not in begun]
        low = {tp: offset for tp, offset in begun.items() if tp in ended}
        if new:
            low |= starts(self._brokers, new)
            low |= {tp: min(self._deleted[tp][1], ended[tp]) for tp in new if self._is_back(tp)}
        for tp, (_, first) in self._restarted.items():
            if self._is_restarted(tp, begun) and tp in low:
                low[tp] = min(first, ended[tp])
        return low

    def _is_restarted(self, tp: TopicPartition, begun: Offsets) -> bool:
        """Whether the batch that begins at `begun` is the first one of a log that was replaced or truncated."""
        return tp in self._restarted and begun.get(tp) == self._restarted[tp][0]

    def _is_back(self, tp: TopicPartition) -> bool:
        """Whether a partition that counted as deleted was not: its topic is there again with the same id."""
        topic_id, _ = self._deleted.get(tp, (NIL_UUID, 0))
        return topic_id != NIL_UUID and topic_id == self._brokers.metadata.topic_id(tp.topic)

    def _limited(self, low: Offsets, latest: Offsets) -> Offsets:
        is_available_now = self._available_now is not None
        return self._rate_limiter.end_offsets(low, latest, now_s=sockets.now_s(), ignore_minimum=is_available_now)

    def _json(self, offsets: Offsets) -> dict[str, Any]:
        if not self._options.remember_topic_ids:
            return to_json(offsets)
        topics = dict.fromkeys(tp.topic for tp in offsets)
        known = {topic: self._brokers.metadata.topic_id(topic) for topic in topics}
        return to_json(offsets, {topic: topic_id for topic, topic_id in known.items() if topic_id != NIL_UUID})

    def _lose(self, reason: str) -> None:
        report(reason, fail=self._options.fail_on_data_loss)


def _changed(tp: TopicPartition, before: int, now: int) -> str:
    return (
        f"Partition {tp} offset was changed from {before} to {now}: the query was at offset {before}, the log ends at"
        f" {now}."
        " This could be either 1) a user error that the start offset is set beyond available offset when starting"
        " query, or 2) the kafka topic-partition is deleted and re-created."
    )
