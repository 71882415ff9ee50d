"""Micro-batches: from which offsets to which, one after the other. Lives in a process of its own, one for each query.

Spark asks `latestOffset` again and again, every ten milliseconds when nothing is new; it is answered from the brokers
at most once in `idlePollMs` then. Offsets never go back, unless the log itself has: a topic that was created again is
known by its id, one that was cut by its end, and either is reported as `failOnDataLoss` has it.
"""

from __future__ import annotations

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
from minikafka.spark_connector import sockets
from minikafka.spark_connector.data_loss import report
from minikafka.spark_connector.data_source import RangePartition, read_partition
from minikafka.spark_connector.offset_reader import Cluster, cluster_for
from minikafka.spark_connector.offset_resolution import ends, find_partitions, resolve, starts
from minikafka.spark_connector.offsets import Offsets, backlog, from_json, names, prorate, to_json
from minikafka.spark_connector.options import Limit, SourceOptions, check_stream, parse
from minikafka.spark_connector.range_planner import Range, plan

if TYPE_CHECKING:
    import pyarrow as pa

_IDLE_PAUSE_FIRST_S = 0.01


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What Spark calls; `Position` does the work, on the driver only."""

    def __init__(self, given: Mapping[str, str], columns: Sequence[str]) -> None:
        self._given = dict(given)
        self._columns = list(columns)
        self._options = parse(given)
        check_stream(self._options)
        self._known: Position | None = None

    @property
    def _position(self) -> Position:
        if self._known is None:
            self._known = Position(self._options)
        return self._known

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's names here and below)
        return self._position.initial()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limits of the options; Spark passes ReadAllAvailable instead for Trigger.Once."""
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
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
        cut = plan(ranges, at_least=options.min_partitions, size_max=options.max_records_per_partition)
        return [RangePartition(one) for one in cut]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(self._given, self._columns, partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._position.commit(end)

    def __getstate__(self) -> dict[str, Any]:
        """Executors get the options, never a connection."""
        return {**self.__dict__, "_known": None}


class Position:
    """Where a stream is, and what it knows of its topics."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster: Cluster = cluster_for(options.kafka)
        self._partitions: list[TopicPartition] = []
        self._asked_metadata_s = float("-inf")
        self._ids: dict[str, bytes] = {}
        self._again: dict[TopicPartition, tuple[int, int]] = {}
        self._latest: Offsets = {}
        self._pinned: Offsets | None = None
        self._triggered_s = float("-inf")
        self._pause_s = 0.0

    def initial(self) -> dict[str, Any]:
        """Where a new query begins: at the end, unless options say otherwise."""
        partitions = self._find(must_exist=True)
        limit = self._options.starting or Limit("latest")
        return self._json(resolve(self._cluster, self._options, limit, partitions, is_start=True))

    def pin(self) -> None:
        """AvailableNow: go as far as the log goes now, and no further."""
        self._pinned = ends(self._cluster, self._options, self._find(must_exist=True))

    def next(self, start: Mapping[str, Any], *, everything: bool) -> dict[str, Any]:
        """Where the micro-batch that begins at `start` ends.

        Where nothing is new it waits before it says so: a wait at the beginning would count as part of the micro-batch
        that finds something.
        """
        begun, ids = from_json(start)
        for topic, topic_id in ids.items():
            self._ids.setdefault(topic, topic_id)
        latest = self._latest = self._ends(begun)
        low = self._starts(begun, latest)
        end = latest if everything else self._limited(low, latest)
        if end == begun:
            self._pause_s = min(max(2 * self._pause_s, _IDLE_PAUSE_FIRST_S), self._options.idle_poll_s)
            sockets.pause(self._pause_s)
        else:
            self._pause_s = 0.0
        return self._json(end)

    def reported(self) -> dict[str, Any] | None:
        """The end of the log as it was when last asked for."""
        return self._json(self._latest) if self._latest else None

    def ranges(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[Range]:
        """What lies between two offsets. Raises DataLoss for what is known to be gone."""
        (begun, _), (ended, _) = from_json(start), from_json(end)
        if not self._partitions:
            self._find(must_exist=False)
        gone = begun.keys() - ended.keys()
        if gone:
            self._lose(f"Partitions {names(gone)} have been deleted.")
        low = self._starts(begun, ended)
        for tp, offset in ended.items():
            if tp not in begun and low.get(tp):
                self._lose(f"Added partition {tp} starts from {low[tp]} instead of 0.")
            if low.get(tp, 0) > offset:
                self._lose(_changed(tp, low[tp], offset))
        topic_id = self._cluster.metadata.topic_id
        return [Range(tp.topic, tp.partition, low[tp], ended[tp], topic_id(tp.topic)) for tp in ended if tp in low]

    def commit(self, end: Mapping[str, Any]) -> None:
        """Tell a group how far the query has come, if one was named."""
        if self._options.commit_group:
            self._cluster.commit(self._options.commit_group, from_json(end)[0])

    def _find(self, *, must_exist: bool) -> list[TopicPartition]:
        self._partitions = find_partitions(self._cluster, self._options, must_exist=must_exist)
        self._asked_metadata_s = sockets.now_s()
        return self._partitions

    def _ends(self, begun: Offsets) -> Offsets:
        """The end of every partition; never before where the query stands, unless the log was cut or made anew."""
        if sockets.now_s() - self._asked_metadata_s >= self._options.metadata_age_s:
            self._find(must_exist=False)
        self._look_for_new_topics(begun)
        if self._pinned is not None:
            return {tp: max(offset, begun.get(tp, offset)) for tp, offset in self._pinned.items()}
        for attempt in range(self._options.retries + 1):
            found = ends(self._cluster, self._options, self._partitions)
            back = [tp for tp, end in found.items() if end < begun.get(tp, 0) and tp not in self._again]
            if not back:
                return found
            if attempt < self._options.retries:
                sockets.pause(self._options.retry_interval_s)
        for tp in back:
            self._lose(_changed(tp, begun[tp], found[tp]))
            self._again[tp] = (begun[tp], found[tp])
        return found

    def _look_for_new_topics(self, begun: Offsets) -> None:
        """Compare topic ids with those seen before: the same name may belong to another topic by now."""
        anew: set[str] = set()
        for topic in sorted({tp.topic for tp in self._partitions}):
            now, before = self._cluster.metadata.topic_id(topic), self._ids.get(topic, NIL_UUID)
            if NIL_UUID not in (now, before) and now != before:
                anew.add(topic)
        for topic in sorted(anew):
            stood = {tp: offset for tp, offset in begun.items() if tp.topic == topic}
            there = [tp for tp in self._partitions if tp.topic == topic]
            reached = ends(self._cluster, self._options, there)
            for tp, offset in stood.items():
                self._lose(
                    f"Topic {topic} was deleted and created again: {tp} was to be read on from offset {offset}, the new"
                    f" partition's records end at {reached.get(tp, 0)}."
                )
            first = starts(self._cluster, there)
            self._again |= {tp: (stood[tp], first[tp]) for tp in there if tp in stood}
        self._ids |= {tp.topic: self._cluster.metadata.topic_id(tp.topic) for tp in self._partitions}

    def _starts(self, begun: Offsets, ended: Offsets) -> Offsets:
        """Where to read from: `begun`, a new log's beginning, or for new partitions the beginning of theirs."""
        new = [tp for tp in ended if tp not in begun]
        low = {tp: offset for tp, offset in begun.items() if tp in ended}
        if new:
            low |= starts(self._cluster, new)
        for tp, (stood, first) in self._again.items():
            if begun.get(tp) == stood and tp in low:
                low[tp] = min(first, ended[tp])
        return low

    def _limited(self, low: Offsets, latest: Offsets) -> Offsets:
        options = self._options
        if options.min_offsets_per_trigger is not None and self._pinned is None:
            now_s = sockets.now_s()
            late = now_s - self._triggered_s >= options.max_trigger_delay_s
            if not late and backlog(low, latest) < options.min_offsets_per_trigger:
                return {tp: offset for tp, offset in low.items() if tp in latest}
            self._triggered_s = now_s
        if options.max_offsets_per_trigger is not None:
            return prorate(options.max_offsets_per_trigger, low, latest)
        return latest

    def _json(self, offsets: Offsets) -> dict[str, Any]:
        if not self._options.remember_topic_ids:
            return to_json(offsets)
        topics = dict.fromkeys(tp.topic for tp in offsets)
        known = {topic: self._cluster.metadata.topic_id(topic) for topic in topics}
        return to_json(offsets, {topic: topic_id for topic, topic_id in known.items() if topic_id != NIL_UUID})

    def _lose(self, reason: str) -> None:
        report(reason, fail=self._options.fail_on_data_loss)


def _changed(tp: TopicPartition, before: int, now: int) -> str:
    return (
        f"Partition {tp} offset was changed from {before} to {now}: offset {before} was wanted, the log ends at {now}."
        " This could be either 1) a user error that the start offset is set beyond available offset when starting"
        " query, or 2) the kafka topic-partition is deleted and re-created."
    )
