"""Rate limits of streams: maxOffsetsPerTrigger, minOffsetsPerTrigger and maxTriggerDelay. Pure.

maxOffsetsPerTrigger limits a micro-batch and is divided among its partitions in proportion to their backlogs;
minOffsetsPerTrigger delays a micro-batch until the backlog is large enough or maxTriggerDelay has passed. The rules are
those of Spark's `KafkaMicroBatchStream`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.options.offsets import Offsets

_INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class RateLimits:
    """The values of the three options; None means no limit."""

    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_s: float = 900.0

    def check(self) -> None:
        """Raises ValueError, with Spark's error message, if the minimum exceeds the maximum."""
        least, most = self.min_offsets, self.max_offsets
        if least is not None and most is not None and least > most:
            raise ValueError(
                f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most})."
            )


class RateLimiter:
    """Determines the end offsets of the micro-batches of one stream."""

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits
        self._triggered_s = float("-inf")

    def end_offsets(self, start: Offsets, latest: Offsets, *, now_s: float, ignore_minimum: bool = False) -> Offsets:
        """Returns the end of a micro-batch from `start`; equal to `start` while minOffsetsPerTrigger delays it.

        Args:
            latest: the ends of the logs.
            now_s: the time on a monotonic clock.
            ignore_minimum: set for Trigger.AvailableNow.
        """
        limits = self._limits
        if limits.min_offsets is not None and not ignore_minimum:
            is_overdue = now_s - self._triggered_s >= limits.max_delay_s
            if not is_overdue and backlog(start, latest) < limits.min_offsets:
                return {tp: offset for tp, offset in start.items() if tp in latest}
            self._triggered_s = now_s
        if limits.max_offsets is not None:
            return prorate(limits.max_offsets, start, latest)
        return latest


def prorate(limit: int, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Offsets:
    """Divides about `limit` offsets among partitions in proportion to their backlogs, at least one to each.

    The formula of Spark's `KafkaMicroBatchStream.rateLimit`. A partition missing in `start` is read to its end.
    """
    sizes = {tp: end[tp] - start[tp] for tp in end if tp in start and end[tp] > start[tp]}
    total = sum(sizes.values())
    if total < 1:
        return dict(end)
    ends: Offsets = {}
    for tp, last in end.items():
        if tp not in sizes:
            ends[tp] = last
            continue
        share = limit * (sizes[tp] / float(total))
        whole = math.ceil(share) if share < 1 else math.floor(share)
        ends[tp] = min(last, start[tp] + whole, _INT64_MAX)
    return ends


def backlog(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    """Returns the number of offsets from `start` to `end`; a partition missing in `start` counts from 0."""
    return sum(offset - start.get(tp, 0) for tp, offset in end.items())
