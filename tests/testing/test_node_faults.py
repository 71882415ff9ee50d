"""Faults of nodes: their links, disks, clocks and logs."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from support.clients import eventually

from minikafka.testing import KafkaCluster


def produce(kafka: KafkaCluster, *values: bytes, timeout: float = 30) -> int:
    """How many records are not delivered."""
    producer = Producer({**kafka.client_config("confluent"), "enable.idempotence": True, "request.timeout.ms": 2000})
    for value in values:
        producer.produce("t", value)
    return producer.flush(timeout)


def leader(kafka: KafkaCluster) -> int:
    return kafka._contents.leader("t", 0)


def in_sync(kafka: KafkaCluster) -> list[int]:
    return list(kafka._contents.admin.describe_topic("t").partitions[0].in_sync_replicas)


def test_an_isolated_leader_is_replaced(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")
    before = leader(kafka_cluster)
    with kafka_cluster.isolate(before):
        assert produce(kafka_cluster, b"1") == 0
        eventually(lambda: leader(kafka_cluster) != before)
    assert produce(kafka_cluster, b"2") == 0
    assert [record.value for record in kafka_cluster.records("t", wait_for=2)] == [b"1", b"2"]


def test_one_link_of_several_can_be_cut(kafka_cluster: KafkaCluster) -> None:
    """The leader's to a follower; both reach the active controller."""
    kafka_cluster.create_topic("t")
    led_by, follower = {1, 2, 3} - {kafka_cluster._contents.admin.describe_quorum().leader_id}
    kafka_cluster.elect("t", 0, led_by)
    fault = kafka_cluster.isolate(led_by, from_=follower)
    assert set(kafka_cluster.nodes.values()) == {"running"}
    assert produce(kafka_cluster, b"1") == 0
    eventually(lambda: follower not in in_sync(kafka_cluster))
    fault.remove()
    eventually(lambda: follower in in_sync(kafka_cluster))
    with kafka_cluster.isolate(led_by, follower, one_way=True):
        assert produce(kafka_cluster, b"2") == 0
        assert follower in in_sync(kafka_cluster)
    assert len(kafka_cluster.records("t", wait_for=2)) == 2
    with kafka_cluster.isolate(3, "nodes"):
        assert Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers.split(",")[2]}).list_topics(timeout=10)
    for wrong in (7, "clients", 0):
        with pytest.raises(ValueError, match=r"there is no node 7|from_ must be a whole number"):
            kafka_cluster.isolate(1, wrong)


def test_a_full_disk_takes_records_again_once_there_is_room(kafka: KafkaCluster) -> None:
    kafka.create_topic("t")
    with kafka.fill_disk(1):
        assert produce(kafka, b"x", timeout=0.5) == 1
    assert produce(kafka, b"y") == 0
    assert b"y" in [record.value for record in kafka.records("t")]


def test_a_broker_whose_disk_fails_ends(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")
    failed = leader(kafka_cluster)
    fault = kafka_cluster.fail_disk(failed)
    assert produce(kafka_cluster, b"x") == 0
    eventually(lambda: kafka_cluster.nodes[failed] == "down")
    fault.remove()
    kafka_cluster.start(failed)
    assert [record.value for record in kafka_cluster.records("t")] == [b"x"]


def test_a_node_whose_clock_is_wrong_gives_wrong_times(kafka: KafkaCluster) -> None:
    kafka.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
    kafka.produce("t", ["1"])
    with kafka.skew_clock(1, -3600):
        kafka.produce("t", ["2"])
    kafka.produce("t", ["3"])
    first, second, third = (record.timestamp for record in kafka.records("t"))
    assert second < first - 3_500_000
    assert third >= first


def test_a_leader_is_elected(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t", replication_factor=2)
    replicas = kafka_cluster._contents.admin.describe_topic("t").partitions[0].replicas
    other = next(one for one in replicas if one != leader(kafka_cluster))
    kafka_cluster.elect("t", 0, other)
    assert leader(kafka_cluster) == other
    without = next(one for one in (1, 2, 3) if one not in replicas)
    with pytest.raises(ValueError, match=f"node {without} has no replica of t-0"):
        kafka_cluster.elect("t", 0, without)


def test_a_coordinator_moves_under_a_consumer(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.produce("t", ["a"])
    consumer = Consumer(
        {**kafka_cluster.client_config("confluent"), "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    assert consumer.poll(20).value() == b"a"
    kafka_cluster.wait_for_members("g", 1)
    moved_to = kafka_cluster.move_coordinator("g")
    assert kafka_cluster._contents.admin.describe_group("g").coordinator == moved_to
    consumer.commit(asynchronous=False)
    assert kafka_cluster.offsets("g") == {("t", 0): 1}
    consumer.close()


def test_a_fenced_producer_is_told_so(kafka: KafkaCluster) -> None:
    kafka.create_topic("t")
    producer = Producer({**kafka.client_config("confluent"), "transactional.id": "x"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("t", b"1")
    producer.flush(20)
    kafka.fence("x")
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(20)
    assert fenced.value.args[0].fatal()
    assert kafka.records("t") == []


def test_retention_and_segments_on_demand(kafka: KafkaCluster) -> None:
    kafka.create_topic("t", config={"retention.bytes": "140", "retention.ms": "-1"})
    kafka.produce("t", ["1"])
    kafka.produce("t", ["2"])
    kafka.apply_retention()
    assert [record.value for record in kafka.records("t")] == [b"1", b"2"]
    kafka.roll_segment("t")
    kafka.produce("t", ["3", "4"])
    kafka.produce("t", ["5" * 100])
    kafka.apply_retention()
    assert [record.value for record in kafka.records("t")] == [b"3", b"4", b"5" * 100]


def test_a_damaged_batch_is_noticed_by_its_reader(kafka: KafkaCluster) -> None:
    kafka.produce("t", ["good"])
    kafka.produce("t", ["bad" * 20])
    kafka.corrupt("t", 0, 1)
    consumer = Consumer({**kafka.client_config("confluent"), "group.id": "g", "check.crcs": True})
    consumer.assign([TopicPartition("t", 0, 0)])
    assert consumer.poll(20).value() == b"good"
    assert consumer.poll(20).error().name() == "_BAD_MSG"
    consumer.close()
    with pytest.raises(ValueError, match="no running node leads t-0 and has a record at offset 5"):
        kafka.corrupt("t", 0, 5)
