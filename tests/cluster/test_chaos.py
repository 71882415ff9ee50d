"""Random faults, one after the other, while both clients produce: nodes are killed, paused, stopped and restarted.

No acknowledged record is lost or duplicated, no node exits by itself, and all replicas are in sync at the end.
`MINIKAFKA_CHAOS=200` runs two hundred faults; `MINIKAFKA_CHAOS_SEED` selects other ones. librdkafka may duplicate a
batch if a leader steps down and is elected again at once (see `test_failover.py`); this has not happened here so far.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cluster_load import ConfluentLoad, MinikafkaLoad, read_back, wrongs
from support.clusters import PATIENCE_S, Topic, check_nobody_crashed, heal, make

from minikafka.cli.local_cluster import LocalCluster

MISHAPS = int(os.environ.get("MINIKAFKA_CHAOS", "8"))
SEED = int(os.environ.get("MINIKAFKA_CHAOS_SEED", "1"))
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
GOES_ON = 30

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120 + 30 * MISHAPS)]


class Chaos:
    """The faults. Each of them ends with all processes running."""

    def __init__(self, cluster: LocalCluster, chance: random.Random) -> None:
        self.cluster = cluster
        self.chance = chance

    def choose(self, count: int) -> list[int]:
        return self.chance.sample(self.cluster.node_ids, count)

    def wait(self, longest_s: float) -> None:
        time.sleep(self.chance.random() * longest_s)

    def hang(self, count: int, longest_s: float) -> None:
        some = self.choose(count)
        self.cluster.pause(*some)
        self.wait(longest_s)
        self.cluster.resume(*some)

    def go(self, end: Callable[..., None], count: int, longest_s: float) -> None:
        some = self.choose(count)
        end(*some)
        self.wait(longest_s)
        self.cluster.start(*some)

    def one_dies(self) -> None:
        self.go(self.cluster.kill, 1, 2)

    def two_die(self) -> None:
        self.go(self.cluster.kill, 2, 1)

    def all_die(self) -> None:
        self.go(self.cluster.kill, 3, 0)

    def one_leaves(self) -> None:
        self.go(self.cluster.stop, 1, 1)

    def one_hangs(self) -> None:
        self.hang(1, 4)

    def two_hang(self) -> None:
        self.hang(2, 3)

    def one_stutters(self) -> None:
        (node_id,) = self.choose(1)
        for _ in range(5):
            self.cluster.pause(node_id)
            self.wait(0.8)
            self.cluster.resume(node_id)
            self.wait(0.2)

    def one_hangs_and_another_dies(self) -> None:
        hanging, dead = self.choose(2)
        self.cluster.pause(hanging)
        self.wait(1)
        self.cluster.kill(dead)
        self.wait(2)
        self.cluster.resume(hanging)
        self.cluster.start(dead)

    def mishaps(self) -> list[Callable[[], None]]:
        every = [self.one_dies, self.two_die, self.all_die, self.one_leaves, self.one_hangs, self.two_hang]
        every += [self.one_stutters, self.one_hangs_and_another_dies]
        return [self.chance.choice(every) for _ in range(MISHAPS)]


def test_no_fault_loses_an_acknowledged_record(tmp_path: Path) -> None:
    with make(tmp_path, brokers=3) as cluster:
        chaos = Chaos(cluster, random.Random(SEED))
        topics = {"confluent": Topic(cluster, "confluent", REPLICAS), "ours": Topic(cluster, "ours", REPLICAS)}
        with (
            ConfluentLoad(cluster.bootstrap, "confluent") as theirs,
            MinikafkaLoad(cluster.bootstrap, "ours") as ours,
        ):
            for number, mishap in enumerate(chaos.mishaps()):
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
