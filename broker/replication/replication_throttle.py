"""Replication throttles (KIP-73): limit the rate at which replicas that are behind are copied.

    throttled.rate of the node, throttled.replicas of the topic ──► Throttle ◄── follower_fetch_state.py, apis/fetch.py

Each side has its own limit: the leader's limit is for records that it sends to followers outside the ISR, the
follower's limit for records that it fetches while it is behind. Only replicas listed in the topic's settings count, and
only the records of a response (Kafka counts headers too). Time is passed in.

Source: Kafka's `ReplicationQuotaManager`, `SimpleRate`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from math import ceil

from minikafka.controller.metadata.image import Image
from minikafka.controller.settings.effective_settings import ALL_BROKERS, ResourceType
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.settings.registry import THROTTLE_SETTINGS, TOPIC_SETTINGS, InvalidSetting
from minikafka.protocol.settings.value_types import NotOfType, parse_int

FOLLOWER, LEADER = "follower", "leader"
MOVE_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
EVERY_REPLICA = "*"
WAIT_MS_MAX = 500
"""Upper bound of a wait, so that a removed limit takes effect soon."""


class Rate:
    """Bytes per second over the last samples, including the current one.

    Args:
        samples: The number of samples.
        sample_ms: The length of a sample.
    """

    def __init__(self, samples: int, sample_ms: int) -> None:
        self._samples: deque[tuple[int, int]] = deque()
        self._sample_ms = sample_ms
        self._kept_ms = samples * sample_ms

    def add(self, size_bytes: int, now_ms: int) -> None:
        """Add `size_bytes` that were copied now."""
        if self._samples and now_ms < self._samples[-1][0] + self._sample_ms:
            began_ms, before = self._samples.pop()
            self._samples.append((began_ms, before + size_bytes))
        else:
            self._samples.append((now_ms, size_bytes))

    def above_for_ms(self, limit: int, now_ms: int) -> int:
        """Return the milliseconds until the rate has fallen to `limit`; 0 if the rate is not above the limit."""
        while self._samples and self._samples[0][0] <= now_ms - self._kept_ms:
            self._samples.popleft()
        if not self._samples:
            return 0
        began_ms, total = self._samples[0][0], sum(size for _, size in self._samples)
        forgotten_ms = self._samples[-1][0] + self._kept_ms - now_ms
        elapsed_ms = max(now_ms - began_ms, self._sample_ms)
        if total * 1000 <= limit * elapsed_ms:
            return 0
        return min(forgotten_ms, ceil(total * 1000 / limit) - (now_ms - began_ms) if limit else forgotten_ms)


class Throttle:
    """Limits the rate of one side: the leader, the follower, or moves between directories.

    Args:
        limit: Returns the limit in bytes per second, or None without a limit.
        covers: Whether this node's replica of a partition is throttled.
        samples: See `Rate`.
        sample_ms: See `Rate`.

    Attributes:
        covers: The argument `covers`.
    """

    def __init__(
        self, limit: Callable[[], int | None], covers: Callable[[TopicPartition], bool], samples: int, sample_ms: int
    ) -> None:
        self.covers = covers
        self._limit = limit
        self._rate = Rate(samples, sample_ms)

    def wait_ms(self, now_ms: int) -> int:
        """How many milliseconds throttled replicas that are behind must wait; 0 if the rate is not above the limit."""
        limit = self._limit()
        return 0 if limit is None else min(self._rate.above_for_ms(limit, now_ms), WAIT_MS_MAX)

    def record(self, partition: TopicPartition, size_bytes: int, now_ms: int) -> None:
        """Count `size_bytes` of a partition; replicas that are not throttled do not count."""
        if size_bytes and self._limit() is not None and self.covers(partition):
            self._rate.add(size_bytes, now_ms)


UNLIMITED = Throttle(lambda: None, lambda _: False, 1, 1)
"""The default throttle, which has no limit."""


def throttle_of(side: str, node_id: int, image: Image, samples: int, sample_ms: int) -> Throttle:
    """Make a throttle of a node; its limit and replicas follow the current settings of the node and the topics.

    Args:
        side: `FOLLOWER` or `LEADER`.
        samples, sample_ms: `replication.quota.window.*`.
    """
    rate, replicas = f"{side}.replication.throttled.rate", f"{side}.replication.throttled.replicas"

    def covers(partition: TopicPartition) -> bool:
        text = image.config(ResourceType.TOPIC, partition.topic).get(replicas)
        if text is None:
            return False
        partitions = _partitions_of(replicas, text, node_id)
        return partitions is None or partition.partition in partitions

    return Throttle(_limit_of(rate, node_id, image), covers, samples, sample_ms)


def move_throttle(node_id: int, image: Image, samples: int, sample_ms: int) -> Throttle:
    """Make the throttle of copies between data directories of a node (KIP-113); every replica counts.

    Args:
        samples, sample_ms: `alter.log.dirs.replication.quota.window.*`.
    """
    return Throttle(_limit_of(MOVE_RATE, node_id, image), lambda _: True, samples, sample_ms)


def _limit_of(rate: str, node_id: int, image: Image) -> Callable[[], int | None]:
    def limit() -> int | None:
        text = image.config(ResourceType.BROKER, str(node_id)).get(rate)
        if text is None:
            text = image.config(ResourceType.BROKER, ALL_BROKERS).get(rate)
        return None if text is None else _rate_of(rate, text)

    return limit


@lru_cache
def _rate_of(name: str, text: str) -> int | None:
    """Parse a rate; an invalid value, set before minikafka validated the setting, means no limit."""
    try:
        value = THROTTLE_SETTINGS[name].parse(text)
    except InvalidSetting:
        return None
    return value if isinstance(value, int) else None


@lru_cache
def _partitions_of(name: str, text: str, node_id: int) -> frozenset[int] | None:
    """The partitions listed for a node in `partition:node, …`; None for all, empty for an invalid value."""
    try:
        named = TOPIC_SETTINGS[name].parse(text)
    except InvalidSetting:
        return frozenset()
    entries = named if isinstance(named, tuple) else ()
    if entries == (EVERY_REPLICA,):
        return None
    pairs = (entry.split(":") for entry in entries if entry)
    return frozenset(_number(partition) for partition, node in pairs if _number(node) == node_id)


def _number(digits: str) -> int:
    """Parse the digits of a node or partition; returns -1 if there are too many digits."""
    try:
        return parse_int(digits)
    except NotOfType:
        return -1
