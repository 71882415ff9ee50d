"""The metrics of a consumer: fetches, records, lag, polls, commits, heartbeats and rebalances.

Source: Kafka's `FetchMetricsRegistry`, `ConsumerCoordinatorMetrics` and `KafkaConsumerMetrics`.
"""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.client.consumer.background_fetch import FetchLoop
from minikafka.client.groups.group_counts import GroupCounts
from minikafka.client.metrics import Distribution, Readings
from minikafka.protocol.names import TopicPartition

FETCHES = "fetch-manager-metrics"
GROUP = "coordinator-metrics"


def measure_fetching(
    readings: Readings,
    loop: FetchLoop,
    consumed: Mapping[str, tuple[int, int]],
    lags: Mapping[TopicPartition, int],
) -> None:
    """Add the metrics of fetching; `consumed` has the number and bytes of the records returned, by topic."""
    readings.total("fetch", loop.fetches, FETCHES)
    readings.distribution("fetch-latency", loop.latencies_ms, FETCHES)
    readings.total("records-consumed", sum(records for records, _ in consumed.values()), FETCHES)
    readings.total("bytes-consumed", sum(size_bytes for _, size_bytes in consumed.values()), FETCHES)
    for topic, (records, size_bytes) in consumed.items():
        readings.total("records-consumed", records, FETCHES, topic=topic)
        readings.total("bytes-consumed", size_bytes, FETCHES, topic=topic)
    for tp, lag in lags.items():
        readings.gauge("records-lag", lag, FETCHES, topic=tp.topic, partition=tp.partition)
    readings.gauge("records-lag-max", max(lags.values(), default=float("nan")), FETCHES)


def measure_polls(readings: Readings, polls_ms: Distribution) -> None:
    """Add the metrics of polls; `polls_ms` are the times between two requests for records."""
    readings.distribution("time-between-poll", polls_ms)
    readings.gauge("last-poll-seconds-ago", polls_ms.seconds_ago())


def measure_membership(readings: Readings, counts: GroupCounts, assigned: int) -> None:
    """Add the metrics of group membership; `assigned` is the number of assigned partitions."""
    readings.gauge("assigned-partitions", assigned, GROUP)
    readings.total("commit", counts.commits_ms.count, GROUP)
    readings.distribution("commit-latency", counts.commits_ms, GROUP)
    readings.total("heartbeat", counts.heartbeats_ms.count, GROUP)
    readings.gauge("heartbeat-response-time-max", counts.heartbeats_ms.greatest(), GROUP)
    readings.gauge("last-heartbeat-seconds-ago", counts.heartbeats_ms.seconds_ago(), GROUP)
    readings.gauge("rebalance-total", counts.rebalances_ms.count, GROUP)
    readings.distribution("rebalance-latency", counts.rebalances_ms, GROUP)
    readings.gauge("last-rebalance-seconds-ago", counts.rebalances_ms.seconds_ago(), GROUP)
