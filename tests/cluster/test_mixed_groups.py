"""Members with five clients and both protocols share groups, come, go and die; coordinators and leaders are killed.

`support.mixed_groups` says what is judged. `MINIKAFKA_MIXED_GROUPS=180` goes on for three minutes, with all clients
(`make mixed-groups`); `MINIKAFKA_MIXED_GROUPS_SEED` selects other members and faults.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support import mixed_groups
from support.clusters import check_nobody_crashed, heal
from support.java_programs import compiled, why_not_compiled
from support.mixed_groups.journal import Journal
from support.mixed_groups.run import Kind, MixedRun

from minikafka.cli.local_cluster import LocalCluster

LASTS_S = float(os.environ.get("MINIKAFKA_MIXED_GROUPS", "0"))
SEED = os.environ.get("MINIKAFKA_MIXED_GROUPS_SEED", "1")
SHORT_S = 4.0
SESSION_MS = 10_000
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "offsets.topic.num.partitions": "6",
}
OF_CLASSIC = [Kind(client, "classic") for client in ("confluent", "java", "kafka-python", "aiokafka", "ours")]
OF_CONSUMER = [Kind(client, "consumer") for client in ("confluent", "java", "ours")]
GROUPS = {
    "classic": OF_CLASSIC,
    "consumer": OF_CONSUMER,
    "both": [
        *(Kind(client, "classic") for client in ("java", "kafka-python", "aiokafka", "ours")),
        *(Kind(client, "consumer") for client in ("confluent", "ours")),
    ],
}
SHORT_GROUPS = {
    "classic": [Kind("confluent", "classic"), Kind("ours", "classic")],
    "consumer": [Kind("confluent", "consumer"), Kind("ours", "consumer")],
}
AGENT = Path(mixed_groups.__file__).with_name("GroupMember.java")


@pytest.mark.slow
@pytest.mark.timeout(600 + 2 * LASTS_S)
def test_groups_of_mixed_clients_under_faults(tmp_path: Path) -> None:
    groups = dict(GROUPS if LASTS_S else SHORT_GROUPS)
    java = compiled(AGENT, tmp_path, heap="64m") if LASTS_S and not why_not_compiled() else []
    if not java:
        groups = {name: [kind for kind in kinds if kind.client != "java"] for name, kinds in groups.items()}
    with LocalCluster(tmp_path / "cluster", brokers=3, settings=SETTINGS) as cluster:
        size = {"life_s": LASTS_S / 6} if LASTS_S else {"life_s": SHORT_S, "deaths": 0.0, "down_s": 0.1}
        run = MixedRun(cluster, groups, java=java, seed=SEED, session_ms=SESSION_MS, **size)
        with run.running():
            ends = time.monotonic() + LASTS_S
            while time.monotonic() < ends:
                time.sleep(8)
                run.kill_a_leader()
            run.everybody_stays()
            if LASTS_S:
                heal(cluster)
                print(f"settled after members had died: {run.seconds_to_settle(sessions=2)}")
            run.kill_a_leader()
            heal(cluster)
            settled = run.seconds_to_settle()
            sent = run.all_is_read()
        check_nobody_crashed(cluster)
    for name, one in run.journals.items():
        print(
            f"{name}: settled within {settled[name]:.1f} s of the last fault, {one.reads} reads of {len(sent)} "
            f"records, {one.commits} commits, {one.refused} refused, {one.overlaps} overlaps"
        )
    print(f"{run.kills} kills, members {run.starts}, {run.observer.looks} descriptions")
    assert run.observer.wrong == []
    for one in run.journals.values():
        assert one.intrusions == []
        assert sent <= one.seen


def test_a_commit_of_what_another_member_has_is_noticed() -> None:
    journal = Journal("g")
    place = ("t", 0)
    journal.assigned("a", [place], 1)
    journal.committed("a", {place: 1}, 2)
    journal.assigned("b", [place], 3)
    assert (journal.intrusions, journal.overlaps) == ([], 1)
    journal.committed("a", {place: 1}, 4)
    assert len(journal.intrusions) == 1
    journal.ended("b", 5)
    journal.committed("a", {place: 1}, 6)
    journal.released("a", [place], 7)
    journal.assigned("a", [place], 8)
    journal.committed("a", {place: 1}, 9)
    assert len(journal.intrusions) == 1
    assert journal.owners() == {place: ["a"]}
