"""The workload on real processes: its histories are legal, each program does something, and an anomaly is found."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest
import trio
from support.logins import Logins

from chaos.checker import check
from chaos.history import Event
from chaos.sabotage import SABOTAGE, History
from chaos.workload.programs import programs
from chaos.workload.run import Run
from minikafka.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "100",
    "log.retention.check.interval.ms": "1000",
    "offsets.topic.num.partitions": "3",
    "broker.session.timeout.ms": "3000",
}


def _judge(run: Run, events: list[Event]) -> None:
    assert check(events, compacted=run.plan.compacted, keeping=run.plan.compacted) == []
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
        run = Run(Logins.of(cluster), 1, "one")
        events = trio.run(run.run, partial(trio.sleep, 6))
        _judge(run, events)


def test_three_nodes_of_which_a_leader_is_killed(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "three", brokers=3, settings=SETTINGS) as cluster:
        run = Run(Logins.of(cluster), 3, "three")

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
