"""A cluster in threads of the process of the test: the same verbs, and nothing left when it ends."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
import structlog
from confluent_kafka import Producer

from minikafka.testing import KafkaCluster, TestingError


def nodes() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("kafka-node")]


@pytest.mark.parametrize("brokers", [1, 3])
def test_an_embedded_cluster_has_the_same_verbs(brokers: int) -> None:
    with KafkaCluster(brokers, embedded=True) as kafka:
        assert len(nodes()) == brokers
        kafka.create_topic("t")
        fault = kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
        producer = Producer(kafka.client_config("confluent"))
        producer.produce("t", b"x" * 100_000)
        assert producer.flush(20) == 0
        assert fault.wait(2).hits == 2
        with pytest.raises(ValueError, match="Kafka has no API 'X'"):
            kafka.fail("X", "CORRUPT_MESSAGE")
        with pytest.raises(ValueError, match=r"num\.partitions"):
            kafka.reset(settings={"num.partitions": "x"})
        with pytest.raises(TestingError, match="there is no fault 9"):
            kafka._control.get("/faults/9")
        kafka.clock.advance(minutes=1)
        kafka.kill(1)
        kafka.start(1)
        assert [len(record.value or b"") for record in kafka.records("t", wait_for=1)] == [100_000]
        assert {request.client_id for request in kafka.requests("Produce")} == {"rdkafka"}
        before = kafka.bootstrap_servers
        kafka.reset()
        assert not set(before.split(",")) & set(kafka.bootstrap_servers.split(","))
        assert kafka.records("t") == []
        with pytest.raises(TestingError, match="has no control server"):
            print(kafka.control_address)
    assert nodes() == []


def test_two_clusters_at_the_same_time_and_another_size() -> None:
    with KafkaCluster(embedded=True) as one, KafkaCluster(embedded=True) as other:
        one.produce("t", ["1"])
        assert other.records("t") == []
        other.reset(brokers=3)
        assert len(nodes()) == 4
        other.reset()
        assert len(nodes()) == 2
        assert len(one.records("t")) == 1


def test_the_log_of_the_program_stays_as_it_was() -> None:
    assert not structlog.is_configured()
    with KafkaCluster(embedded=True):
        pass
    assert not structlog.is_configured()
    structlog.configure(processors=[structlog.processors.KeyValueRenderer()])
    try:
        with KafkaCluster(embedded=True):
            pass
        assert structlog.is_configured()
    finally:
        structlog.reset_defaults()


def test_one_that_cannot_start_leaves_nothing() -> None:
    wrong = KafkaCluster(embedded=True, settings={"num.partitions": "x"})
    with pytest.raises(TestingError, match=r"num\.partitions"), wrong:
        pass
    assert nodes() == []


def test_a_program_that_never_closes_it_ends() -> None:
    code = "from minikafka.testing import KafkaCluster as K; k = K(embedded=True).__enter__(); k.produce('t', ['a'])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
