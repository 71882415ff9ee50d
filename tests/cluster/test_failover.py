"""Three nodes under load, one of them killed, paused or restarted: no acknowledged record is lost or duplicated.

acks=all, idempotence, replication factor 3, min.insync.replicas 2. The gap, the longest time without an acknowledgement
of a partition whose leader failed, is printed (`pytest -s`), not asserted, since it depends on the load of the machine.
`MINIKAFKA_KILLS=50` kills the leader fifty times, with the clients' defaults.

The tests with librdkafka avoid a leader that steps down and is elected again at once: librdkafka takes
NOT_LEADER_OR_FOLLOWER to mean that nothing was written. If its next request but one reaches the returned leader and
finds a gap in the sequence, it starts a new epoch and writes all records again (librdkafka issue #4953).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import suppress

import pytest
from support.clients import closing, connect, eventually, read
from support.cluster_load import LOADS, WITH_DEFAULTS, Ledger, load, read_back, wrongs
from support.clusters import PATIENCE_S, ROUNDS, Topic, active_controller, heal

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin
from minikafka.protocol.errors import KafkaError, TopicAlreadyExistsError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 30 * ROUNDS)]
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
GOES_ON = 60
"""The number of further acknowledgements of a partition that shows that it has recovered."""

every_client = pytest.mark.parametrize("client", LOADS)


def survive(
    cluster: LocalCluster, client: str, name: str, mistreat: Callable[[Topic, Ledger], list[float]]
) -> list[float]:
    """Returns what `mistreat` measured, after checking that no acknowledged record is lost or duplicated."""
    topic = Topic(cluster, name, REPLICAS)
    with load(client, cluster.bootstrap, name) as ledger:
        gaps = mistreat(topic, ledger)
    cluster.wait_in_sync()
    assert wrongs(ledger, read_back(cluster.bootstrap, name)) == []
    told = f"median {statistics.median(gaps):.2f} s, worst {max(gaps):.2f} s of {len(gaps)}" if gaps else "no gap"
    print(f"\n{name}: {told}; {len(ledger.acknowledged):,} records")
    return gaps


@pytest.mark.parametrize("client", WITH_DEFAULTS)
def test_the_leader_is_killed_again_and_again(three: LocalCluster, client: str, name: str) -> None:
    def mistreat(topic: Topic, ledger: Ledger) -> list[float]:
        gaps: list[float] = []
        for _ in range(ROUNDS):
            leader, moment = topic.leader(0), ledger.now()
            three.kill(leader)
            ledger.wait_acknowledged(GOES_ON, partition=0)
            gaps.append(ledger.gap_s(0, moment))
            heal(three)
            if client == "confluent-kafka-with-defaults":
                ledger.wait_acknowledged(GOES_ON, partition=0)  # by the newly elected leader, see the module docstring
        return gaps

    survive(three, client, name, mistreat)


@every_client
def test_the_leader_is_paused(three: LocalCluster, client: str, name: str) -> None:
    def mistreat(topic: Topic, ledger: Ledger) -> list[float]:
        leader, moment = topic.leader(0), ledger.now()
        three.pause(leader)
        try:
            topic.asked = [node_id for node_id in three.broker_ids if node_id != leader]
            topic.until(lambda: topic.leader(0) not in (leader, -1))
            ledger.wait_acknowledged(GOES_ON, partition=0)
        finally:
            three.resume(leader)
        heal(three)
        ledger.wait_acknowledged(GOES_ON)
        return [ledger.gap_s(0, moment)]

    survive(three, client, name, mistreat)


def test_a_follower_is_restarted(three: LocalCluster, name: str) -> None:
    def mistreat(topic: Topic, ledger: Ledger) -> list[float]:
        follower, moment = topic.state(0).replicas[1], ledger.now()
        three.kill(follower)
        ledger.wait_acknowledged(GOES_ON, partition=0)
        three.start(follower)
        topic.until_in_sync(1, 2, 3)
        return [ledger.gap_s(0, moment)]

    survive(three, "confluent-kafka", name, mistreat)


@every_client
def test_a_rolling_restart_fails_no_produce(three: LocalCluster, client: str, name: str) -> None:
    def mistreat(topic: Topic, ledger: Ledger) -> list[float]:
        moment = ledger.now()
        three.rolling_restart()
        ledger.wait_acknowledged(GOES_ON)
        assert ledger.refused == []
        return [max(ledger.gap_s(n, moment) for n in range(len(REPLICAS)))]

    survive(three, client, name, mistreat)


def test_the_active_controller_is_lost(three: LocalCluster, name: str) -> None:
    def mistreat(topic: Topic, ledger: Ledger) -> list[float]:
        controller, moment = active_controller(three), ledger.now()
        three.kill(controller)
        topic.until(lambda: controller_elected(topic, besides=controller))
        with Admin(topic.living()) as admin, suppress(TopicAlreadyExistsError):  # by an attempt without a response
            admin.create_topic(f"{topic.name}-after", partitions=2, replication_factor=2)
        for partition in range(len(REPLICAS)):
            ledger.wait_acknowledged(GOES_ON, partition)
        gaps = [ledger.gap_s(n, moment) for n in range(len(REPLICAS))]
        heal(three)
        return gaps

    survive(three, "confluent-kafka", name, mistreat)


def test_all_nodes_are_killed_at_once(three: LocalCluster, name: str) -> None:
    def mistreat(topic: Topic, ledger: Ledger) -> list[float]:
        moment = ledger.now()
        three.kill()
        three.start()
        for partition in range(len(REPLICAS)):
            ledger.wait_acknowledged(GOES_ON, partition)
        return [ledger.gap_s(n, moment) for n in range(len(REPLICAS))]

    survive(three, "minikafka", name, mistreat)


@every_client
def test_a_group_reads_on_when_its_coordinator_is_killed(three: LocalCluster, client: str, name: str) -> None:
    Topic(three, name, REPLICAS)
    with connect(client, three.bootstrap) as connected, closing(connected.member(name, [name])) as member:
        with load("minikafka", three.bootstrap, name) as ledger:
            seen = {record.value for record in read(member, 100, timeout_s=PATIENCE_S)}
            member.commit()
            with Admin(three.bootstrap) as admin:
                coordinator = admin.describe_group(name).coordinator
            three.kill(coordinator)
            ledger.wait_acknowledged(GOES_ON)
            seen |= {record.value for record in read(member, 100, timeout_s=PATIENCE_S)}
            three.start(coordinator)
        written = {one.value for one in ledger.acknowledged}
        eventually(lambda: written <= seen or seen.update(one.value for one in member.poll(0.5)), timeout_s=PATIENCE_S)
        member.commit()


def controller_elected(topic: Topic, besides: int) -> bool:
    with suppress(KafkaError), Admin(topic.living(), default_api_timeout_ms=int(PATIENCE_S * 1000)) as admin:
        leader: int = admin.describe_quorum().leader_id
        return leader not in (-1, besides)
    return False
