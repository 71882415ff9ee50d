"""After each of several random faults of processes, producers go on in all partitions at once.

Nodes are killed, paused, stopped and restarted, one fault after the other. No acknowledged record is lost or
duplicated, no node exits by itself, and all replicas are in sync at the end. `test_chaos.py` has more kinds of faults
and clients, and demands progress at the end only. `MINIKAFKA_GOES_ON=200` runs two hundred faults.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from chaos.journal import Journal
from chaos.nemesis import CLOCKS, DISKS, LINKS, NETWORK, Nemesis
from support.cluster_load import ConfluentLoad, MinikafkaLoad, read_back, wrongs
from support.clusters import COMMON, PATIENCE_S, Topic, check_nobody_crashed, heal

from minikafka.cli.local_cluster import LocalCluster

FAULTS = int(os.environ.get("MINIKAFKA_GOES_ON", "5"))
SEED = int(os.environ.get("MINIKAFKA_CHAOS_SEED", "1"))
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
GOES_ON = 30

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 + 30 * FAULTS)]


class Processes(LocalCluster):
    """Three nodes, of which only the processes fail."""

    cannot = dict.fromkeys((NETWORK, LINKS, DISKS, CLOCKS), "only processes fail here")


def test_producers_go_on_after_each_fault(tmp_path: Path) -> None:
    with Processes(tmp_path, brokers=3, settings=COMMON) as cluster:
        nemesis = Nemesis(cluster, random.Random(SEED), Journal(time.monotonic_ns))  # type: ignore[arg-type]
        topics = {"confluent": Topic(cluster, "confluent", REPLICAS), "ours": Topic(cluster, "ours", REPLICAS)}
        with (
            ConfluentLoad(cluster.bootstrap, "confluent") as theirs,
            MinikafkaLoad(cluster.bootstrap, "ours") as ours,
        ):
            for number, fault in enumerate(nemesis.faults(FAULTS)):
                began = time.monotonic()
                nemesis.do(fault)
                for partition in range(len(REPLICAS)):
                    theirs.wait_acknowledged(GOES_ON, partition)
                    ours.wait_acknowledged(GOES_ON, partition)
                check_nobody_crashed(cluster)  # before the next fault restarts it
                print(f"{number}: {fault.__name__}, {time.monotonic() - began:.1f} s")
        cluster.wait_in_sync(PATIENCE_S)
        for ledger, topic in ((theirs, topics["confluent"]), (ours, topics["ours"])):
            assert wrongs(ledger, read_back(cluster.bootstrap, topic.name)) == [], f"{topic.name}, seed {SEED}"
        heal(cluster)
