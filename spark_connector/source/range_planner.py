"""Divides ranges of offsets into input partitions: minPartitions and maxRecordsPerPartition. Pure.

The rules of Spark's `KafkaOffsetRangeCalculator`: one range per topic partition; `maxRecordsPerPartition` splits longer
ranges; `minPartitions` splits further, long ranges into more pieces than short ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from minikafka.protocol.names import TopicPartition
from minikafka.protocol.types import NIL_UUID


@dataclass(frozen=True)
class Range:
    """The offsets from `start` (inclusive) to `end` (exclusive) of one partition of the topic with this id."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: bytes = NIL_UUID

    @property
    def size(self) -> int:
        """The number of offsets, an upper bound of the number of records."""
        return self.end - self.start

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def plan(ranges: Iterable[Range], *, at_least: int | None = None, size_max: int | None = None) -> list[Range]:
    """Splits ranges and drops empty ones. Deterministic."""
    nonempty = [one for one in ranges if one.size > 0]
    if size_max is not None:
        nonempty = [piece for one in nonempty for piece in split(one, -(-one.size // size_max))]
    if at_least is None or len(nonempty) >= at_least:
        return nonempty
    shares = _shares(nonempty, at_least)
    return [piece for one, count in zip(nonempty, shares, strict=True) for piece in split(one, count)]


def _shares(ranges: list[Range], at_least: int) -> list[int]:
    """The number of pieces of each range: one for small ranges, the remaining pieces by size for the others."""
    total = sum(one.size for one in ranges)
    small = [_count(one.size, total, at_least) == 1 for one in ranges]
    left = total - sum(one.size for one, whole in zip(ranges, small, strict=True) if whole)
    pieces = at_least - sum(small)
    return [
        1 if whole else min(one.size, _count(one.size, left, pieces)) for one, whole in zip(ranges, small, strict=True)
    ]


def _count(size: int, total: int, pieces: int) -> int:
    return max(int(size / total * pieces + 0.5), 1)


def split(offsets: Range, count: int) -> list[Range]:
    """Splits a range into `count` pieces of nearly equal size, in order."""
    bounds = [offsets.start + offsets.size * number // count for number in range(count + 1)]
    return [
        Range(offsets.topic, offsets.partition, start, end, offsets.topic_id)
        for start, end in pairwise(bounds)
        if end > start
    ]
