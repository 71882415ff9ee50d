"""Ranges of offsets, and how they are cut into input partitions. Pure.

The rules of Spark's `KafkaOffsetRangeCalculator`: a range per topic partition; `maxRecordsPerPartition` cuts ranges
that are longer; `minPartitions` cuts further, the long ranges into more pieces than the short ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from minikafka.protocol.names import TopicPartition
from minikafka.protocol.types import NIL_UUID


@dataclass(frozen=True)
class Range:
    """Offsets from `start` up to, but not including, `end`, of one partition of the topic with this id."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: bytes = NIL_UUID

    @property
    def size(self) -> int:
        """Offsets; records may be fewer."""
        return self.end - self.start

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def plan(ranges: Iterable[Range], *, at_least: int | None = None, size_max: int | None = None) -> list[Range]:
    """Cut ranges; empty ones are left out. The same input always gives the same plan."""
    wanted = [one for one in ranges if one.size > 0]
    if size_max is not None:
        wanted = [piece for one in wanted for piece in cut(one, -(-one.size // size_max))]
    if at_least is None or len(wanted) >= at_least:
        return wanted
    return [piece for one, count in zip(wanted, _shares(wanted, at_least), strict=True) for piece in cut(one, count)]


def _shares(ranges: list[Range], at_least: int) -> list[int]:
    """Pieces for each range: those too small to be cut count as one, the others share what is left by size."""
    total = sum(one.size for one in ranges)
    small = [_count(one.size, total, at_least) == 1 for one in ranges]
    left = total - sum(one.size for one, whole in zip(ranges, small, strict=True) if whole)
    pieces = at_least - sum(small)
    return [
        1 if whole else min(one.size, _count(one.size, left, pieces)) for one, whole in zip(ranges, small, strict=True)
    ]


def _count(size: int, total: int, pieces: int) -> int:
    return max(int(size / total * pieces + 0.5), 1)


def cut(one: Range, count: int) -> list[Range]:
    """`count` pieces of nearly the same size, in order."""
    bounds = [one.start + one.size * number // count for number in range(count + 1)]
    return [
        Range(one.topic, one.partition, start, end, one.topic_id)
        for start, end in pairwise(bounds)
        if end > start
    ]
