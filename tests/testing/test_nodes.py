"""Nodes that are killed, stopped and paused, and their time."""

from __future__ import annotations

import threading

import pytest
import trio
from confluent_kafka import Consumer, Producer
from support.clients import eventually

from minikafka.broker.node.node import Node
from minikafka.testing import KafkaCluster, TestingError
from minikafka.testing.host.nodes import Nodes


def produce(kafka: KafkaCluster, value: bytes) -> None:
    producer = Producer(kafka.client_config("confluent"))
    producer.produce("t", value)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_others_take_over_from_a_node_that_ends(kafka_cluster: KafkaCluster, end: str) -> None:
    kafka_cluster.create_topic("t")
    produce(kafka_cluster, b"before")
    for node in (1, 2):
        getattr(kafka_cluster, end)(node)
        assert kafka_cluster.nodes[node] == "down"
        produce(kafka_cluster, b"without %d" % node)
        kafka_cluster.start(node)
        assert kafka_cluster.nodes[node] == "running"
    values = [record.value for record in kafka_cluster.records("t", wait_for=3)]
    assert values == [b"before", b"without 1", b"without 2"]


def test_a_killed_node_has_its_data_again(kafka: KafkaCluster) -> None:
    kafka.produce("t", ["a" * 100_000, "b"])
    kafka.kill(1)
    with pytest.raises(ValueError, match="node 1 does not run"):
        kafka.pause(1)
    kafka.start(1)
    assert [len(record.value or b"") for record in kafka.records("t")] == [100_000, 1]
    with pytest.raises(ValueError, match="node 1 runs already"):
        kafka.start(1)
    kafka.restart(1)
    assert len(kafka.records("t")) == 2


def test_a_paused_node_answers_later(kafka: KafkaCluster) -> None:
    kafka.create_topic("t")
    producer = Producer(kafka.client_config("confluent"))
    producer.produce("t", b"1")
    assert producer.flush(10) == 0
    kafka.pause(1)
    assert kafka.nodes == {1: "paused"}
    producer.produce("t", b"2")
    assert producer.flush(0.3) == 1
    kafka.resume(1)
    assert producer.flush(10) == 0
    assert len(kafka.records("t")) == 2


def test_a_paused_node_can_be_reset(kafka: KafkaCluster) -> None:
    kafka.pause(1)
    kafka.reset()
    assert kafka.nodes == {1: "running"}


def test_there_is_no_other_node(kafka: KafkaCluster) -> None:
    with pytest.raises(ValueError, match="there is no node 2: the cluster has 1"):
        kafka.kill(2)


def test_records_are_deleted_when_their_time_has_come(kafka: KafkaCluster) -> None:
    kafka.create_topic("t", config={"retention.ms": "3600000"})
    kafka.produce("t", ["old"])
    kafka.clock.advance(minutes=30)
    assert len(kafka.records("t")) == 1
    kafka.clock.advance(hours=25)
    eventually(lambda: kafka.records("t") == [])


def test_a_silent_member_leaves_its_group(kafka: KafkaCluster) -> None:
    kafka.produce("t", ["a"])
    consumer = Consumer({**kafka.client_config("confluent"), "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    assert consumer.poll(20) is not None
    kafka.wait_for_members("g", 1)
    kafka.fail("Heartbeat", "COORDINATOR_NOT_AVAILABLE")
    joins = len(kafka.requests("JoinGroup"))
    kafka.fail("JoinGroup", "COORDINATOR_NOT_AVAILABLE")
    kafka.clock.advance(hours=1)
    kafka.wait_for_members("g", 0)
    assert len(kafka.requests("JoinGroup")) >= joins
    consumer.close()


def test_a_transaction_that_takes_a_day_is_aborted(kafka: KafkaCluster) -> None:
    kafka.create_topic("t")
    producer = Producer({**kafka.client_config("confluent"), "transactional.id": "x"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("t", b"never")
    producer.flush(20)
    kafka.clock.advance(hours=24)
    eventually(lambda: bool(kafka._contents.admin.list_transactions(states=["CompleteAbort"])))
    assert kafka.records("t") == []


def test_a_cluster_serves_after_a_day(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")
    produce(kafka_cluster, b"1")
    kafka_cluster.clock.advance(hours=24)
    produce(kafka_cluster, b"2")
    kafka_cluster.clock.advance(hours=24)
    assert len(kafka_cluster.records("t", wait_for=2)) == 2


def test_time_stands_still_and_runs_fast(kafka: KafkaCluster) -> None:
    kafka.create_topic("t")
    kafka.clock.freeze()
    kafka.produce("t", [{"value": "1"}])
    first = kafka._control.post("/clock/run", speed=0)["now_ms"]
    assert kafka._control.post("/clock/run", speed=0)["now_ms"] == first
    kafka.clock.run(speed=100_000)
    eventually(lambda: kafka._control.post("/clock/run", speed=100_000)["now_ms"] > first + 60_000)
    with pytest.raises(ValueError, match="speed must be a number"):
        kafka.clock.run(speed=-1)
    with pytest.raises(ValueError, match="only be advanced by a positive time"):
        kafka.clock.advance()


def test_a_node_that_sleeps_wakes_up_when_its_time_comes() -> None:
    nodes = Nodes(1, {})
    nodes.start()
    nodes.run_clock(0)  # without a change of the clock, a sleep has no end

    async def sleep(node: Node) -> None:
        await trio.sleep(3600)

    sleeper = threading.Thread(target=nodes.thread(1).in_node, args=(sleep,), daemon=True)
    sleeper.start()
    sleeper.join(0.2)
    assert sleeper.is_alive()
    nodes.advance(7200)
    sleeper.join(20)
    assert not sleeper.is_alive()
    nodes.close()


def test_settings_that_are_wrong_change_nothing(kafka: KafkaCluster) -> None:
    kafka.produce("t", ["a"])
    with pytest.raises(ValueError, match=r"log\.retention\.ms"):
        kafka.reset(settings={"log.retention.ms": "long"})
    assert len(kafka.records("t")) == 1


def test_a_cluster_that_does_not_run_says_so() -> None:
    with pytest.raises(TestingError, match="with KafkaCluster"):
        KafkaCluster().create_topic("t")
    with pytest.raises(ValueError, match="brokers must be 1 to 9, not 0"):
        KafkaCluster(brokers=0)
    wrong = KafkaCluster(settings={"num.partitions": "x"})
    with pytest.raises(TestingError, match=r"has not started:\n.*num\.partitions"), wrong:
        pass


async def in_an_event_loop() -> list[bytes | None]:
    async with KafkaCluster() as kafka:
        kafka.produce("t", ["a"])
        return [record.value for record in kafka.records("t")]


def test_a_cluster_in_an_event_loop() -> None:
    import asyncio

    assert asyncio.run(in_an_event_loop()) == [b"a"]
    assert trio.run(in_an_event_loop) == [b"a"]
