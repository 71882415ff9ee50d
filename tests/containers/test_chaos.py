"""Random faults in the cluster of docker-compose.yml, while confluent-kafka and our client are at work.

Containers are killed, paused, stopped and restarted, and cut off from the other brokers. The history of all clients is
judged by `chaos.checker`. `MINIKAFKA_CHAOS_MINUTES=10` lasts longer; `MINIKAFKA_CHAOS_SEED` selects other faults. The
history and the report are left in `MINIKAFKA_CHAOS_FOLDER`, or in pytest's folder of the test.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from chaos.round import Round
from support.containers import ComposeCluster

MINUTES = float(os.environ.get("MINIKAFKA_CHAOS_MINUTES", "0.5"))
SEED = os.environ.get("MINIKAFKA_CHAOS_SEED", "1")
FOLDER = os.environ.get("MINIKAFKA_CHAOS_FOLDER")

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(900 + 120 * MINUTES)]


def test_no_fault_breaks_a_guarantee(cluster: ComposeCluster, tmp_path: Path) -> None:
    folder = Path(FOLDER) if FOLDER else tmp_path / "found"
    title = "minikafka, containers of docker-compose.yml"
    found = Round(cluster, title, SEED, folder, minutes=MINUTES, check_running=cluster.check_running).run()
    print(f"{len(found.events)} events, {len(found.anomalies)} anomalies, {dict(found.done)}, {dict(found.faults)}")
    assert found.anomalies == [], f"seed {SEED}: {folder}"
    cluster.check_running()
    assert all(found.done.values()), found.done
