"""Random faults in the cluster of docker-compose.yml, while confluent-kafka and our client are at work.

Containers are killed, paused, stopped and restarted, and cut off from the other brokers. The history of all clients is
judged by `chaos.checker`. `MINIKAFKA_CHAOS_MINUTES=10` lasts longer; `MINIKAFKA_CHAOS_SEED` selects other faults. The
history of a run that fails is kept in pytest's folder of the test, as JSON lines.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
import trio
from chaos.checker import check
from chaos.history import write_lines
from chaos.nemesis import NetworkNemesis
from chaos.workload.confluent import ConfluentRun
from chaos.workload.run import Run
from support.containers import ComposeCluster, wait_healthy

MINUTES = float(os.environ.get("MINIKAFKA_CHAOS_MINUTES", "0.5"))
SEED = os.environ.get("MINIKAFKA_CHAOS_SEED", "1")
FAULTS_MAX = 10_000
TOPIC, PARTITIONS = "steady", 3
PACE_S = 0.3

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900 + 120 * MINUTES)]


def inject_faults(cluster: ComposeCluster) -> None:
    """Faults for the time of the run, with pauses; then all nodes are up."""
    chance = random.Random(SEED)
    nemesis, until = NetworkNemesis(cluster, chance), time.monotonic() + 60 * MINUTES
    for number, fault in enumerate(nemesis.faults(FAULTS_MAX)):
        if time.monotonic() > until:
            break
        began = time.monotonic()
        fault()
        print(f"{number}: {fault.__name__}, {time.monotonic() - began:.1f} s", flush=True)
        nemesis.wait(8)
    wait_healthy(*map(cluster.container, cluster.node_ids))


def test_no_fault_breaks_a_guarantee(cluster: ComposeCluster, tmp_path: Path) -> None:
    run = Run(cluster.bootstrap, len(cluster.node_ids), SEED, pace_s=PACE_S)
    run.plan.committed_offsets_are_fresh = False  # a coordinator that is isolated does not know of later commits
    confluent = ConfluentRun(cluster.bootstrap, run.recorder, SEED, TOPIC, PARTITIONS)

    async def faults() -> None:
        with confluent.running():
            await trio.to_thread.run_sync(inject_faults, cluster)

    try:
        events = trio.run(run.run, faults)
    finally:
        lines = tmp_path / "history.jsonl"
        lines.write_text("".join(f"{line}\n" for line in write_lines(run.recorder.events)))
    anomalies = check(events, compacted=run.plan.compacted)
    print(f"{len(events)} events, confluent-kafka: {confluent.done}, {len(anomalies)} anomalies")
    assert anomalies == [], f"seed {SEED}: {lines}"
    cluster.check_running()
    assert all(confluent.done.values()), confluent.done
