"""Random faults in a cluster of processes, while confluent-kafka and our client are at work; the checker judges.

Nodes are killed, paused, stopped and restarted, with full disks and wrong clocks, and cut off from each other and from
clients. `MINIKAFKA_CHAOS_MINUTES=30` lasts longer; `MINIKAFKA_CHAOS_SEED` selects other faults. The history and the
report are left in `MINIKAFKA_CHAOS_FOLDER`, or in pytest's folder of the test.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from chaos import workload
from chaos.round import Round
from support.clusters import ON_KAFKA, check_nobody_crashed
from support.faulty_cluster import FaultyCluster, FaultyKafka
from support.java_programs import compiled, why_not_compiled
from support.logins import Logins

MINUTES = float(os.environ.get("MINIKAFKA_CHAOS_MINUTES", "0"))
SHORT_MINUTES = 0.1
SEED = os.environ.get("MINIKAFKA_CHAOS_SEED", "1")
AGENT = Path(workload.__file__).with_name("Agent.java")
FOLDER = os.environ.get("MINIKAFKA_CHAOS_FOLDER")
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "100",
    "log.retention.check.interval.ms": "1000",
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 120 * MINUTES)]


@pytest.mark.parametrize("secured", [False, True], ids=["open", "secured"])
def test_no_fault_breaks_a_guarantee(secured: bool, tmp_path: Path) -> None:
    folder = Path(FOLDER) if FOLDER else tmp_path / "found"
    short = {"waits": 0.25, "pause_s": 4} if not MINUTES else {}
    java = compiled(AGENT, tmp_path) if MINUTES and not why_not_compiled() else []
    if MINUTES and not java:
        print(f"without Kafka's Java client: {why_not_compiled()}")
    kind_of_cluster = FaultyKafka if ON_KAFKA else FaultyCluster
    nodes = f"{'Apache Kafka' if ON_KAFKA else 'minikafka'}, three {'secured ' if secured else ''}processes"
    with kind_of_cluster(tmp_path / "cluster", settings=SETTINGS, secured=secured) as cluster:
        for kind, reason in cluster.cannot.items():
            print(f"not injected: {kind}: {reason}")
        round_ = Round(
            cluster,
            f"{nodes} under faults",
            SEED,
            folder,
            minutes=MINUTES or SHORT_MINUTES,
            logins=Logins.of(cluster),
            java=java,
            check_running=lambda: check_nobody_crashed(cluster),
            **short,
        )
        found = round_.run()
        check_nobody_crashed(cluster)
    print(f"{len(found.events)} events, {len(found.anomalies)} anomalies, {dict(found.done)}, {dict(found.faults)}")
    assert found.anomalies == [], f"seed {SEED}: {folder}"
    assert all(found.done.values()) or not MINUTES, found.done
