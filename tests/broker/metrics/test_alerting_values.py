"""The metrics behind alerts of docs/prometheus-alerts.yml take the values that the alerts are for.

Those of replicas, readiness and controllers are seen on real nodes in tests/cluster.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from minikafka.broker.coordinator.transactions.transaction import IDLE
from minikafka.broker.metrics.cluster_metrics import QuorumState, quorum_metrics
from minikafka.broker.metrics.coordinator_metrics import transaction_metrics
from minikafka.broker.metrics.family import Collector
from minikafka.broker.metrics.process_metrics import loop_metrics, process_metrics

IDLE_SHARE = "kafka_network_socketserver_networkprocessoravgidle_percent"
OLDEST = "minikafka_transaction_oldest_seconds"
NOW_MS = 2_000_000


def value(collector: Collector, name: str) -> float:
    """The value of a metric without labels."""
    [found] = [family for family in collector() if family is not None and family.name == name]
    [(_, number)] = found.samples
    return number


def test_the_idle_share_of_a_loop_that_never_waits_is_0() -> None:
    loop = SimpleNamespace(longest=0.0, steps=0, collections_s=0.0, idle_s=0.0)
    times = iter((0.0, 10.0, 20.0, 30.0))
    collector = loop_metrics(loop, lambda: next(times))
    assert value(collector, IDLE_SHARE) == 0
    loop.idle_s = 9.0
    assert value(collector, IDLE_SHARE) == 0.9
    assert value(collector, IDLE_SHARE) == 0


def oldest(*transactions: object) -> float:
    shard = SimpleNamespace(transactions=dict(enumerate(transactions)))
    coordinator = cast(Any, SimpleNamespace(runtime=SimpleNamespace(states=lambda: [shard], skipped=0)))
    return value(transaction_metrics(coordinator, lambda: NOW_MS), OLDEST)


def test_the_oldest_open_transaction_counts_and_one_that_has_ended_does_not() -> None:
    ongoing = SimpleNamespace(title="Ongoing")
    ended = next(iter(IDLE))
    assert oldest() == 0
    assert oldest(SimpleNamespace(state=ended, start_ms=1000)) == 0
    some = [SimpleNamespace(state=ongoing, start_ms=NOW_MS - age_ms) for age_ms in (1_000, 901_000, 5_000)]
    assert oldest(*some) == 901


def test_the_metadata_lag_is_what_is_committed_and_not_applied() -> None:
    def lag(applied: int) -> float:
        state = QuorumState(leader_id=1, leader_epoch=3, applied_offset=applied, committed_offset=2_000)
        return value(quorum_metrics(lambda: state), "minikafka_metadata_lag")

    assert lag(999) == 1001
    assert lag(2_000) == 0


def test_open_descriptors_grow_with_files_and_have_a_limit(tmp_path: Path) -> None:
    before = value(process_metrics(), "process_open_fds")
    files = [(tmp_path / str(number)).open("wb") for number in range(10)]
    assert value(process_metrics(), "process_open_fds") == before + 10
    for file in files:
        file.close()
    assert value(process_metrics(), "process_max_fds") > before
