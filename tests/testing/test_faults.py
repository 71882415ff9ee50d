"""What clients of other projects see of the faults of requests."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiokafka
import kafka as kafka_python
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from minikafka.testing import KafkaCluster


def delivered(kafka: KafkaCluster, *values: bytes, **settings: Any) -> list[str | None]:
    """Produce with confluent-kafka to the partitions 0, 1, …; the names of the errors, by partition."""
    found: dict[int, str | None] = {}
    producer = Producer({**kafka.client_config("confluent"), "linger.ms": 20, **settings})
    for partition, value in enumerate(values):
        producer.produce(
            "t", value, partition=partition, on_delivery=lambda e, m: found.update({m.partition(): e and e.name()})
        )
    assert producer.flush(20) == 0
    return [found[partition] for partition in sorted(found)]


def test_a_retriable_error_is_retried(kafka: KafkaCluster) -> None:
    kafka.create_topic("t")
    fault = kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=3)
    assert delivered(kafka, b"x") == [None]
    assert fault.hits == 3
    assert len(kafka.requests("Produce")) == 4
    assert [record.value for record in kafka.records("t")] == [b"x"]


def delivered_together(kafka: KafkaCluster, *values: bytes) -> list[str | None]:
    """As `delivered`, by kafka-python, which sends all partitions of a broker in one request."""
    producer = kafka_python.KafkaProducer(
        linger_ms=100, enable_idempotence=False, **kafka.client_config("kafka-python")
    )
    assert producer.partitions_for("t")
    sent = [producer.send("t", value, partition=partition) for partition, value in enumerate(values)]
    producer.flush(20)
    found = [None if one.succeeded() else type(one.exception).__name__ for one in sent]
    producer.close()
    return found


@pytest.mark.parametrize("applied", [False, True])
def test_an_error_of_one_partition_is_for_it_alone(kafka: KafkaCluster, applied: bool) -> None:
    kafka.create_topic("t", partitions=3)
    with kafka.fail("Produce", "INVALID_RECORD", topic="t", partition=1, applied=applied) as fault:
        assert delivered_together(kafka, b"a", b"b", b"c") == [None, "InvalidRecordError", None]
    assert fault.hits == len(kafka.requests("Produce")) == 1
    assert [record.value for record in kafka.records("t")] == ([b"a", b"b", b"c"] if applied else [b"a", b"c"])


def test_librdkafka_sees_the_error_of_one_partition(kafka: KafkaCluster) -> None:
    kafka.create_topic("t", partitions=3)
    with kafka.fail("Produce", "INVALID_RECORD", topic="t", partition=1):
        assert delivered(kafka, b"a", b"b", b"c") == [None, "INVALID_RECORD", None]
    assert [record.value for record in kafka.records("t")] == [b"a", b"c"]


@pytest.mark.parametrize(("idempotent", "values"), [(False, [b"x", b"x"]), (True, [b"x"])])
def test_a_lost_acknowledgement_makes_duplicates_but_of_idempotent_producers(
    kafka: KafkaCluster, idempotent: bool, values: list[bytes]
) -> None:
    kafka.create_topic("t")
    kafka.fail("Produce", "REQUEST_TIMED_OUT", applied=True, times=1)
    assert delivered(kafka, b"x", **{"enable.idempotence": idempotent}) == [None]
    assert [record.value for record in kafka.records("t")] == values


@pytest.mark.parametrize("how", ["before", "halfway", "after"])
def test_a_disconnected_producer_sends_again(kafka: KafkaCluster, how: str) -> None:
    kafka.create_topic("t")
    with kafka.disconnect("Produce", times=1, **{how: True}) as fault:
        assert delivered(kafka, b"x") == [None]
    assert fault.hits == 1
    assert len(kafka.records("t")) == (1 if how == "before" else 2)


@pytest.mark.parametrize("applied", [False, True])
def test_a_dropped_request_times_out(kafka: KafkaCluster, applied: bool) -> None:
    kafka.create_topic("t")
    with kafka.drop("Produce", times=1, applied=applied) as fault:
        assert delivered(kafka, b"x", **{"request.timeout.ms": 300, "socket.timeout.ms": 1000}) == [None]
    assert fault.hits == 1
    assert len(kafka.records("t")) == 1 + applied


def test_delays_and_throttles_add_up(kafka: KafkaCluster) -> None:
    kafka.create_topic("t")
    delay, throttle = kafka.delay("Produce", 0.05, times=1), kafka.throttle(50, "Produce", times=1)
    seen = []
    producer = Producer({**kafka.client_config("confluent"), "throttle_cb": lambda event: seen.append(event)})
    producer.produce("t", b"x")
    assert producer.flush(10) == 0
    producer.poll(1)
    assert (delay.hits, throttle.hits) == (1, 1)
    assert [event.throttle_time for event in seen if event.throttle_time] == [0.05]


def test_a_fetch_fails_for_its_partitions(kafka: KafkaCluster) -> None:
    kafka.produce("t", ["a", "b"])
    consumer = Consumer({**kafka.client_config("confluent"), "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    fault = kafka.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", topic="t", times=1)
    read = consumer.poll(10)
    assert read is not None
    assert read.error().name() == "TOPIC_AUTHORIZATION_FAILED"
    assert [consumer.poll(10).value() for _ in range(2)] == [b"a", b"b"]
    assert fault.hits == 1
    consumer.close()


def test_topics_fail_in_metadata_that_does_not_name_them(kafka: KafkaCluster) -> None:
    kafka.create_topic("t")
    fault = kafka.fail("Metadata", "LEADER_NOT_AVAILABLE", times=2)
    assert delivered(kafka, b"x") == [None]
    assert fault.hits == 2


def test_a_group_fails_by_its_name(kafka: KafkaCluster) -> None:
    kafka.produce("t", ["a"])
    other = kafka.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", group="other")
    fault = kafka.fail("OffsetCommit", "REBALANCE_IN_PROGRESS", group="g", times=1)
    consumer = kafka_python.KafkaConsumer(
        "t", group_id="g", auto_offset_reset="earliest", enable_auto_commit=False, **kafka.client_config("kafka-python")
    )
    assert next(consumer).value == b"a"
    with pytest.raises(kafka_python.errors.CommitFailedError):
        consumer.commit()
    consumer.close(autocommit=False)
    assert (fault.hits, other.hits) == (1, 0)


def test_aiokafka_raises_what_it_cannot_retry(kafka: KafkaCluster) -> None:
    async def main() -> None:
        kafka.create_topic("t")
        async with aiokafka.AIOKafkaProducer(**kafka.client_config("aiokafka")) as producer:
            kafka.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
            with pytest.raises(aiokafka.errors.TopicAuthorizationFailedError):
                await producer.send_and_wait("t", b"x")

    asyncio.run(main())


def test_after_every_times_and_probability(kafka: KafkaCluster) -> None:
    kafka.create_topic("t")
    fifth = kafka.fail("Produce", "INVALID_RECORD", after=2, every=3, times=1)
    never = kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", probability=0.0)
    producer = Producer(kafka.client_config("confluent"))
    for number in range(1, 10):
        producer.produce("t", str(number))
        assert producer.flush(10) == 0
    assert (fifth.hits, never.hits) == (1, 0)
    assert [record.value for record in kafka.records("t")] == [b"1", b"2", b"3", b"4", b"6", b"7", b"8", b"9"]


def test_requests_tell_what_clients_have_sent(kafka: KafkaCluster) -> None:
    kafka.create_topic("t")
    delivered(kafka, b"abc", **{"client.id": "me", "enable.idempotence": True})
    [sent] = kafka.requests("Produce")
    assert (sent.api, sent.client_id, sent.node) == ("Produce", "me", 1)
    [topic] = sent.request["topic_data"]
    [batch] = topic["partition_data"][0]["records"]
    assert (batch["record_count"], batch["base_sequence"]) == (1, 0)
    assert batch["producer_id"] >= 0
    assert kafka.requests("Produce", client_id="other") == []
    with kafka.assert_no_produce_while():
        kafka.produce("t", ["by the library itself"])
    expected = "1 Produce requests, the first of client 'rdkafka'"
    with pytest.raises(AssertionError, match=expected), kafka.assert_no_produce_while():
        delivered(kafka, b"x")


def test_a_fault_that_is_waited_for_in_vain_says_what_it_has_hit(kafka: KafkaCluster) -> None:
    fault = kafka.fail("Produce", "CORRUPT_MESSAGE", topic="t")
    with pytest.raises(TimeoutError, match=r"fail\(api='Produce', topic='t'\) has hit 0 requests after 0.01 s, not 2"):
        fault.wait(2, timeout=0.01)


def test_a_wait_for_a_fault_keeps_no_other_thread_waiting(kafka: KafkaCluster) -> None:
    kafka.create_topic("t")
    fault = kafka.fail("Produce", "NOT_LEADER_OR_FOLLOWER", times=1)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(fault.wait, 1, timeout=3600)
        assert kafka.requests("Produce") == []
        assert delivered(kafka, b"x") == [None]
        assert waiting.result(60) is fault


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"api": "Prodce", "error": "CORRUPT_MESSAGE"}, "Kafka has no API 'Prodce': did you mean Produce"),
    ({"api": "Produce", "error": "CORRUPT_MESAGE"}, "no error 'CORRUPT_MESAGE': did you mean CORRUPT_MESSAGE"),
    ({"api": "Produce", "error": "NONE"}, "Kafka has no error 'NONE'"),
    ({"api": "Produce", "error": 3}, "Kafka has no error 3"),
    ({"api": None, "error": "CORRUPT_MESSAGE"}, "fail needs the name of an API"),
    ({"api": "Heartbeat", "error": "REBALANCE_IN_PROGRESS", "topic": "t"}, "Heartbeat requests name no topic"),
    ({"api": "Produce", "error": "CORRUPT_MESSAGE", "group": "g"}, "Produce requests name no group"),
    ({"api": "Produce", "error": "CORRUPT_MESSAGE", "times": 0}, "times must be a whole number from 1"),
    ({"api": "Produce", "error": "CORRUPT_MESSAGE", "times": True}, "times must be a whole number from 1"),
    ({"api": "Produce", "error": "CORRUPT_MESSAGE", "time": 1}, "no argument 'time': did you mean times"),
    ({"api": "Produce", "error": "CORRUPT_MESSAGE", "probability": 2}, "probability must be a number from 0 to 1"),
    ({"api": "Produce", "error": "CORRUPT_MESSAGE", "topic": 1}, "topic must be a text"),
    ({"api": "Produce", "error": "CORRUPT_MESSAGE", "applied": 1}, "applied must be true or false"),
]


@pytest.mark.parametrize(("given", "expected"), WRONG, ids=lambda value: "")
def test_a_fault_that_cannot_be_is_refused(kafka: KafkaCluster, given: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        kafka.fail(**given)


def test_other_verbs_check_their_arguments_as_well(kafka: KafkaCluster) -> None:
    with pytest.raises(ValueError, match="seconds must be a number from 0"):
        kafka.delay("Produce", -1)
    with pytest.raises(ValueError, match="ms must be a whole number from 1"):
        kafka.throttle(0)
    with pytest.raises(ValueError, match="disconnect happens once: before or halfway"):
        kafka.disconnect("Produce", before=True, halfway=True)
    with pytest.raises(ValueError, match="there are settings for confluent, aiokafka"):
        kafka.client_config("nobody")
