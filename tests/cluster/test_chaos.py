"""Random faults, one after the other, while both clients produce: nodes are killed, paused, stopped and restarted.

No acknowledged record is lost or duplicated, no node exits by itself, and all replicas are in sync at the end.
`MINIKAFKA_CHAOS=200` runs two hundred faults; `MINIKAFKA_CHAOS_SEED` selects other ones. librdkafka may duplicate a
batch if a leader steps down and is elected again at once (see `test_failover.py`); this has not happened here so far.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from chaos.nemesis import Nemesis
from support.cluster_load import ConfluentLoad, MinikafkaLoad, read_back, wrongs
from support.clusters import PATIENCE_S, Topic, check_nobody_crashed, heal, make

MISHAPS = int(os.environ.get("MINIKAFKA_CHAOS", "8"))
SEED = int(os.environ.get("MINIKAFKA_CHAOS_SEED", "1"))
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
GOES_ON = 30

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 + 30 * MISHAPS)]


def test_no_fault_loses_an_acknowledged_record(tmp_path: Path) -> None:
    with make(tmp_path, brokers=3) as cluster:
        nemesis = Nemesis(cluster, random.Random(SEED))
        topics = {"confluent": Topic(cluster, "confluent", REPLICAS), "ours": Topic(cluster, "ours", REPLICAS)}
        with (
            ConfluentLoad(cluster.bootstrap, "confluent") as theirs,
            MinikafkaLoad(cluster.bootstrap, "ours") as ours,
        ):
            for number, mishap in enumerate(nemesis.faults(MISHAPS)):
                began = time.monotonic()
                mishap()
                for partition in range(len(REPLICAS)):
                    theirs.wait_acknowledged(GOES_ON, partition)
                    ours.wait_acknowledged(GOES_ON, partition)
                check_nobody_crashed(cluster)  # before the next fault restarts it
                print(f"{number}: {mishap.__name__}, {time.monotonic() - began:.1f} s")
        cluster.wait_in_sync(PATIENCE_S)
        for ledger, topic in ((theirs, topics["confluent"]), (ours, topics["ours"])):
            assert wrongs(ledger, read_back(cluster.bootstrap, topic.name)) == [], f"{topic.name}, seed {SEED}"
        heal(cluster)
