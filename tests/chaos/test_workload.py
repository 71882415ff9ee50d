"""The workload on real processes: its histories are legal, each program does something, and an anomaly is found."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from chaos.checker import check
from chaos.history import Event, Recorder
from chaos.sabotage import SABOTAGE, History
from chaos.workload.administration import create_topics
from chaos.workload.final_reading import final_reading
from chaos.workload.plan import Plan
from chaos.workload.process import ClientProcess
from chaos.workload.programs import members, programs
from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.connections.seams import Seams

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "100",
    "log.retention.check.interval.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "broker.session.timeout.ms": "3000",
}
Faults = Callable[[], Awaitable[None]]


class Run:
    """Client processes of one run, each a task."""

    def __init__(self, cluster: LocalCluster, brokers: int, seed: str) -> None:
        self.cluster = cluster
        self.plan = Plan.of(brokers)
        self.recorder = Recorder(time.monotonic_ns)
        self.seed = seed

    def process(self, name: str) -> ClientProcess:
        seams = Seams(random=random.Random(f"{self.seed}/{name}/client"))
        return ClientProcess(
            name,
            self.recorder,
            random.Random(f"{self.seed}/{name}"),
            seams,
            self.cluster.bootstrap,
            self.plan,
            pace_s=0.05,
        )

    async def run(self, faults: Faults) -> list[Event]:
        """All programs during `faults`, then the final reading, while the groups' members go on. The history."""
        await create_topics(self.process("creator/1"))
        in_groups = members(self.plan)
        async with trio.open_nursery() as staying:
            async with trio.open_nursery() as leaving:
                for name, program in programs(self.plan).items():
                    for number in (1, 2) if name in in_groups else (1,):
                        process = self.process(f"{name.replace(' ', '-')}-{number}/1")
                        (staying if name in in_groups else leaving).start_soon(program, process)
                await faults()
                leaving.cancel_scope.cancel()
            await final_reading(self.process("final/1"), groups=list(self.plan.groups))
            staying.cancel_scope.cancel()
        return self.recorder.events


def _judge(run: Run, events: list[Event]) -> None:
    assert check(events, compacted=run.plan.compacted) == []
    idle = [name for name in programs(run.plan) if not run.plan.succeeded(name)]
    assert not idle, run.plan.coverage
    planted = 0
    for sabotage, kind in SABOTAGE:
        changed = list(events)
        if sabotage(History(changed, random.Random(1), run.plan.compacted)):
            planted += 1
            assert kind in {one.kind for one in check(changed, compacted=run.plan.compacted)}, sabotage
    assert planted >= 10, "all but those that need transactions and logs of replicas"


def test_one_node(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "one", brokers=1, settings=SETTINGS) as cluster:
        run = Run(cluster, 1, "one")
        events = trio.run(run.run, partial(trio.sleep, 6))
        _judge(run, events)


def test_three_nodes_of_which_a_leader_is_killed(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "three", brokers=3, settings=SETTINGS) as cluster:
        run = Run(cluster, 3, "three")

        async def kill_a_leader() -> None:
            await trio.sleep(4)
            async with run.process("finder/1").admin() as admin:
                leader = (await admin.describe_topic("steady")).partitions[0].leader
            await trio.to_thread.run_sync(cluster.kill, leader)
            await trio.sleep(4)
            await trio.to_thread.run_sync(cluster.start, leader)
            await trio.sleep(2)

        events = trio.run(run.run, kill_a_leader)
        _judge(run, events)
