"""The replication scenarios of a Kafka course, one test each, on real processes."""

from __future__ import annotations

import pytest
from support.cluster_load import load, read_back, wrongs
from support.clusters import ON_KAFKA, Topic

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client import TopicPartition
from minikafka.client.blocking import Admin
from minikafka.protocol.errors import ElectionNotNeededError, InvalidPartitionsError, NotEnoughReplicasError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 if ON_KAFKA else 300)]


def test_isr_shrinks_and_min_insync_replicas_pauses_writes(brokers: LocalCluster, name: str) -> None:
    topic = Topic(brokers, name, [[1, 2, 3]])
    assert topic.write(b"three") == 0
    brokers.kill(3)
    topic.until_in_sync(1, 2)
    assert topic.write(b"two") == 1
    brokers.kill(2)
    topic.until_in_sync(1)
    with pytest.raises(NotEnoughReplicasError):
        topic.write(b"one")
    brokers.start(2)
    assert topic.write_surely(b"two again") == 2
    assert topic.read() == [b"three", b"two", b"two again"]


def test_both_isr_members_die_and_the_partition_waits_for_one_of_them(brokers: LocalCluster, name: str) -> None:
    topic = Topic(brokers, name, [[1, 2]], {"min.insync.replicas": "1"})
    brokers.kill(2)
    topic.until_in_sync(1)
    topic.write(b"only 1 has it")
    brokers.kill(1)
    brokers.start(2)
    topic.until_led_by(-1)
    with pytest.raises(Exception, match=r"no leader|did not succeed|not delivered within"):
        topic.write(b"nobody takes it", delivery_timeout_ms=1500, request_timeout_ms=1000, max_block_ms=1500)
    brokers.start(1)
    topic.until_led_by(1)
    topic.until_in_sync(1, 2)
    assert topic.read() == [b"only 1 has it"]


def test_both_isr_members_die_and_the_partition_comes_back_with_loss_if_unclean_election_is_enabled(
    brokers: LocalCluster, name: str
) -> None:
    configs = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    topic = Topic(brokers, name, [[1, 2]], configs)
    topic.write(b"both have it")
    brokers.kill(2)
    topic.until_in_sync(1)
    topic.write(b"only 1 has it")
    brokers.kill(1)
    brokers.start(2)
    topic.until_led_by(2)
    assert topic.write_surely(b"written to 2") == 1
    brokers.start(1)
    topic.until_in_sync(1, 2)
    assert topic.read() == [b"both have it", b"written to 2"]
    brokers.kill(2)
    topic.until_led_by(1)
    assert topic.read() == [b"both have it", b"written to 2"], "1 has cut off what only it had"


def test_the_slow_follower_leaves_the_isr_and_rejoins_it(brokers: LocalCluster, name: str) -> None:
    topic = Topic(brokers, name, [[1, 2, 3]])
    brokers.pause(3)
    topic.asked = [1, 2]
    topic.until_in_sync(1, 2)
    for n in range(20):
        assert topic.write(b"%d" % n) == n
    brokers.resume(3)
    topic.asked = brokers.broker_ids
    topic.until_in_sync(1, 2, 3)
    assert topic.leader() == 1
    assert topic.read() == [b"%d" % n for n in range(20)]


def test_the_preferred_leader_returns(brokers: LocalCluster, name: str) -> None:
    topic = Topic(brokers, name, [[1, 2, 3]])
    brokers.kill(1)
    topic.until_led_by(2, 3)
    topic.write_surely(b"while 1 is away")
    brokers.start(1)
    topic.until_in_sync(1, 2, 3)
    assert topic.leader() != 1, "nothing moves by itself"
    tp = TopicPartition(name, 0)
    with Admin(brokers.bootstrap) as admin:
        assert admin.elect_leaders([tp]) == {tp: None}
        topic.until_led_by(1)
        assert isinstance(admin.elect_leaders([tp])[tp], ElectionNotNeededError)
    assert topic.read() == [b"while 1 is away"]


def test_partitions_only_grow(brokers: LocalCluster, name: str) -> None:
    topic = Topic(brokers, name, [[1, 2, 3], [2, 3, 1]])
    with Admin(brokers.bootstrap) as admin:
        admin.create_partitions(name, 5)
        assert len(admin.describe_topic(name).partitions) == 5
        for total in (2, 5):
            with pytest.raises(InvalidPartitionsError):
                admin.create_partitions(name, total)
        topic.until_told(lambda told: [sorted(one.in_sync_replicas) for one in told] == [[1, 2, 3]] * 5)
        admin.elect_leaders()
    topic.until_told(lambda told: {one.leader for one in told} == {1, 2, 3})


def test_a_reassignment_moves_a_replica_under_load(brokers: LocalCluster, name: str) -> None:
    topic = Topic(brokers, name, [[1, 2], [1, 2]])
    targets = {TopicPartition(name, 0): [3, 2], TopicPartition(name, 1): [2, 3]}
    with load("minikafka", brokers.bootstrap, name) as ledger, Admin(brokers.bootstrap) as admin:
        assert set(admin.alter_partition_reassignments(targets).values()) == {None}
        topic.until(lambda: not admin.list_partition_reassignments())
        ledger.wait_acknowledged(100)
    topic.until_told(lambda told: [one.replicas for one in told] == [(3, 2), (2, 3)])
    topic.until_told(lambda told: [sorted(one.in_sync_replicas) for one in told] == [[2, 3], [2, 3]])
    assert topic.leader(0) in (2, 3)
    assert wrongs(ledger, read_back(brokers.bootstrap, name)) == []
