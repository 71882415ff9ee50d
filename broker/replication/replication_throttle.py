"""ReplicaFetcherManager throttles (KIP-73): replicas that are being copied leave room for everybody else.

    throttled.rate of the node, throttled.replicas of the topic ──► Throttle ──asked by──► `copying.py`, `apis/fetch.py`

Both sides have a limit of their own: a leader of what it sends to followers that are not in sync, a follower of what
it takes while it is behind. Only replicas that their topic names count, and of an answer only the records (Kafka counts
its headers too). No clock: the time is handed in.

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

FOLLOWER, LEADER = "follower", "leader"
EVERY_REPLICA = "*"
WAIT_MS_MAX = 500
"""How long a limit that was lifted may go unnoticed."""


class Rate:
    """Bytes a second over the last samples, the present one included.

    Args:
        samples: How many are kept.
        sample_ms: How long each is.
    """

    def __init__(self, samples: int, sample_ms: int) -> None:
        self._samples: deque[tuple[int, int]] = deque()
        self._sample_ms = sample_ms
        self._kept_ms = samples * sample_ms

    def add(self, size_bytes: int, now_ms: int) -> None:
        """So much was copied now."""
        if self._samples and now_ms < self._samples[-1][0] + self._sample_ms:
            began_ms, before = self._samples.pop()
            self._samples.append((began_ms, before + size_bytes))
        else:
            self._samples.append((now_ms, size_bytes))

    def above_for_ms(self, limit: int, now_ms: int) -> int:
        """How long until the rate is down to the limit if nothing is added; 0 if it is not above."""
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
    """The limit of one side.

    Args:
        limit: Bytes a second; None where there is none.
        covers: Whether a partition's replica here is throttled.
        samples: See `Rate`.
        sample_ms: See `Rate`.

    Attributes:
        covers: As given.
    """

    def __init__(
        self, limit: Callable[[], int | None], covers: Callable[[TopicPartition], bool], samples: int, sample_ms: int
    ) -> None:
        self.covers = covers
        self._limit = limit
        self._rate = Rate(samples, sample_ms)

    def wait_ms(self, now_ms: int) -> int:
        """How long throttled replicas that are behind have to wait; 0 if they need not."""
        limit = self._limit()
        return 0 if limit is None else min(self._rate.above_for_ms(limit, now_ms), WAIT_MS_MAX)

    def record(self, partition: TopicPartition, size_bytes: int, now_ms: int) -> None:
        """So much of a partition was copied now; what is not throttled does not count."""
        if size_bytes and self._limit() is not None and self.covers(partition):
            self._rate.add(size_bytes, now_ms)


UNLIMITED = Throttle(lambda: None, lambda _: False, 1, 1)
"""For those who have no settings to ask."""


def throttle_of(side: str, node_id: int, image: Image, samples: int, sample_ms: int) -> Throttle:
    """The limit of a node as its settings and those of the topics have it at each moment.

    Args:
        side: `FOLLOWER` or `LEADER`.
        samples, sample_ms: `replication.quota.window.*`.
    """
    rate, replicas = f"{side}.replication.throttled.rate", f"{side}.replication.throttled.replicas"

    def limit() -> int | None:
        text = image.config(ResourceType.BROKER, str(node_id)).get(rate)
        if text is None:
            text = image.config(ResourceType.BROKER, ALL_BROKERS).get(rate)
        return None if text is None else _rate_of(rate, text)

    def covers(partition: TopicPartition) -> bool:
        text = image.config(ResourceType.TOPIC, partition.topic).get(replicas)
        if text is None:
            return False
        partitions = _partitions_of(replicas, text, node_id)
        return partitions is None or partition.partition in partitions

    return Throttle(limit, covers, samples, sample_ms)


@lru_cache
def _rate_of(name: str, text: str) -> int | None:
    """A value that nobody checked, since it was set before minikafka knew the setting, limits nothing."""
    try:
        value = THROTTLE_SETTINGS[name].parse(text)
    except InvalidSetting:
        return None
    return value if isinstance(value, int) else None


@lru_cache
def _partitions_of(name: str, text: str, node_id: int) -> frozenset[int] | None:
    """The partitions whose replicas on a node are named in `partition:node, …`; None for all. See `_rate_of`."""
    try:
        named = TOPIC_SETTINGS[name].parse(text)
    except InvalidSetting:
        return frozenset()
    entries = named if isinstance(named, tuple) else ()
    if entries == (EVERY_REPLICA,):
        return None
    pairs = (entry.split(":") for entry in entries)
    return frozenset(int(partition) for partition, node in pairs if int(node) == node_id)
