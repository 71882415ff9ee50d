"""Topics and topic configs through the admin API of each client."""

from __future__ import annotations

import pytest
from support.clients import Client, Outgoing, Refused, eventually

TOPIC_ALREADY_EXISTS = 36
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_CONFIG = 40
INVALID_PARTITIONS = 37
INVALID_TOPIC = 17
OFFSET_OUT_OF_RANGE = 1


def test_a_created_topic_is_listed_with_its_partitions(client: Client, name: str) -> None:
    client.create_topic(name, partitions=7)
    assert eventually(lambda: client.topics().get(name)) == 7


def test_a_topic_is_not_created_twice(client: Client, topic: str) -> None:
    with pytest.raises(Refused) as refusal:
        client.create_topic(topic)
    assert refusal.value.code == TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("bad", ["with space", "a/b", "x" * 250])
def test_an_invalid_topic_name_is_rejected(client: Client, bad: str) -> None:
    with pytest.raises(Refused) as refusal:
        client.create_topic(bad)
    assert refusal.value.code == INVALID_TOPIC


def test_a_topic_is_created_when_first_written_to(client: Client, name: str) -> None:
    assert name not in client.topics()
    client.produce(name, [Outgoing(b"first")])
    assert [record.value for record in client.consume(name, 1)] == [b"first"]
    assert client.topics()[name] == 1


def test_settings_are_described_with_defaults_and_set_values(client: Client, name: str) -> None:
    client.create_topic(name, settings={"retention.ms": "12345000", "segment.bytes": "2097152"})
    described = client.describe_settings(name)
    assert described["retention.ms"] == "12345000"
    assert described["segment.bytes"] == "2097152"
    assert described["cleanup.policy"] == "delete"
    assert described["max.message.bytes"] == "1048588"


def test_settings_can_be_altered(client: Client, topic: str) -> None:
    client.alter_settings(topic, {"retention.ms": "777000"})
    assert eventually(lambda: client.describe_settings(topic)["retention.ms"] == "777000")
    client.alter_settings(topic, {"retention.ms": "888000", "max.message.bytes": "2000000"})
    assert eventually(lambda: client.describe_settings(topic)["retention.ms"] == "888000")
    assert client.describe_settings(topic)["max.message.bytes"] == "2000000"


def test_an_altered_setting_takes_effect(client: Client, topic: str) -> None:
    client.alter_settings(topic, {"max.message.bytes": "5000"})

    def refused() -> bool:
        try:
            client.produce(topic, [Outgoing(bytes(6000))])
        except Refused:
            return True
        return False

    assert eventually(refused)


def test_an_invalid_setting_is_rejected(client: Client, name: str) -> None:
    with pytest.raises(Refused) as refusal:
        client.create_topic(name, settings={"retention.ms": "soon"})
    assert refusal.value.code == INVALID_CONFIG
    with pytest.raises(Refused) as refusal:
        client.create_topic(name, settings={"no.such.setting": "1"})
    assert refusal.value.code == INVALID_CONFIG
    assert name not in client.topics()


def test_partitions_can_be_added_but_not_removed(client: Client, topic: str) -> None:
    client.produce(topic, [Outgoing(b"kept")])
    client.add_partitions(topic, total=3)
    assert eventually(lambda: client.topics()[topic] == 3)
    client.produce(topic, [Outgoing(b"new", partition=2)])
    assert [record.value for record in client.consume(topic, 1, partition=0)] == [b"kept"]
    assert [record.value for record in client.consume(topic, 1, partition=2)] == [b"new"]
    with pytest.raises(Refused) as refusal:
        client.add_partitions(topic, total=2)
    assert refusal.value.code == INVALID_PARTITIONS


def test_a_deleted_topic_is_gone(client: Client, topic: str) -> None:
    client.produce(topic, [Outgoing(b"v")])
    client.delete_topic(topic)
    assert eventually(lambda: topic not in client.topics())
    with pytest.raises(Refused) as refusal:
        client.delete_topic(topic)
    assert refusal.value.code == UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_that_is_created_again_is_empty(client: Client, topic: str) -> None:
    client.produce(topic, [Outgoing(b"old life")] * 5)
    client.delete_topic(topic)
    eventually(lambda: topic not in client.topics())
    client.create_topic(topic, partitions=2)
    assert client.produce(topic, [Outgoing(b"new life", partition=0)]) == [(0, 0)]
    assert [record.value for record in client.consume(topic, 1)] == [b"new life"]
    assert client.topics()[topic] == 2


def test_deleted_records_are_not_read_again(client: Client, topic: str) -> None:
    client.produce(topic, [Outgoing(f"{n}".encode()) for n in range(20)])
    assert client.delete_records(topic, before_offset=15) == 15
    assert client.offsets(topic) == (15, 20)
    assert [record.value for record in client.consume(topic, 5)] == [f"{n}".encode() for n in range(15, 20)]


def test_records_beyond_the_end_cannot_be_deleted(client: Client, topic: str) -> None:
    client.produce(topic, [Outgoing(b"v")] * 3)
    with pytest.raises(Refused) as refusal:
        client.delete_records(topic, before_offset=4)
    assert refusal.value.code == OFFSET_OUT_OF_RANGE
    assert client.offsets(topic) == (0, 3)
