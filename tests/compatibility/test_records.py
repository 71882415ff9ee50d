"""Records that a client writes and reads back: every codec, shape of record and start position."""

from __future__ import annotations

import random

import pytest
from support.clients import (
    CODECS,
    LATEST,
    WAIT_S,
    Client,
    Outgoing,
    Refused,
    Start,
    closing,
    eventually,
    read,
)

MESSAGE_TOO_LARGE = 10
HOUR_MS = 3_600_000
NOON_MS = 1_700_000_000_000


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_each_codec_come_back(client: Client, topic: str, codec: str) -> None:
    if codec not in client.codecs:
        pytest.skip(f"this {client.name} was built without {codec}")
    sent = [Outgoing(f"value {n} ".encode() * 20, key=f"key {n}".encode(), partition=0) for n in range(300)]
    assert client.produce(topic, sent, codec=codec) == [(0, n) for n in range(300)]
    got = client.consume(topic, 300)
    assert [(record.key, record.value) for record in got] == [(record.key, record.value) for record in sent]
    assert [record.offset for record in got] == list(range(300))


def test_a_key_may_be_missing_or_empty(client: Client, topic: str) -> None:
    keys = [None, b"", b"k", bytes(range(256))]
    client.produce(topic, [Outgoing(b"v", key=key) for key in keys])
    assert [record.key for record in client.consume(topic, len(keys))] == keys


def test_a_value_may_be_null_or_empty(client: Client, topic: str) -> None:
    values = [None, b"", b"v", bytes(range(256))]
    client.produce(topic, [Outgoing(value, key=b"k") for value in values])
    assert [record.value for record in client.consume(topic, len(values))] == values


def test_headers_may_be_empty_null_or_repeated(client: Client, topic: str) -> None:
    headers = (("a", b"1"), ("a", b"2"), ("empty", b""), ("schlüssel", "wért".encode()))
    if client.writes_null_headers:
        headers = (*headers, ("null", None))
    client.produce(topic, [Outgoing(b"with", headers=headers), Outgoing(b"without")])
    assert [record.headers for record in client.consume(topic, 2)] == [headers, ()]


def test_records_of_one_key_go_to_one_partition_in_order(client: Client, name: str) -> None:
    client.create_topic(name, partitions=4)
    places = client.produce(name, [Outgoing(f"{n}".encode(), key=f"{n % 10}".encode()) for n in range(100)])
    for key in range(10):
        mine = places[key::10]
        assert len({partition for partition, _ in mine}) == 1
        assert mine == sorted(mine)


def test_timestamps_of_the_producer_are_kept(client: Client, topic: str) -> None:
    times = [NOON_MS, NOON_MS + HOUR_MS, NOON_MS - HOUR_MS]
    client.produce(topic, [Outgoing(b"v", timestamp_ms=time) for time in times])
    assert [record.timestamp_ms for record in client.consume(topic, 3)] == times


def test_log_append_time_replaces_the_timestamps(client: Client, name: str) -> None:
    client.create_topic(name, settings={"message.timestamp.type": "LogAppendTime"})
    client.produce(name, [Outgoing(b"v", timestamp_ms=NOON_MS)])
    assert client.consume(name, 1)[0].timestamp_ms > NOON_MS


def test_records_of_one_megabyte_come_back(client: Client, topic: str) -> None:
    values = [random.Random(n).randbytes(1_000_000) for n in range(3)]
    client.produce(topic, [Outgoing(value) for value in values])
    assert [record.value for record in client.consume(topic, 3)] == values


def test_a_record_that_is_too_large_is_rejected_with_the_error_of_the_client(client: Client, name: str) -> None:
    client.create_topic(name, settings={"max.message.bytes": "10000"})
    with pytest.raises(Refused) as refusal:
        client.produce(name, [Outgoing(bytes(20_000))])
    assert refusal.value.code == MESSAGE_TOO_LARGE
    client.produce(name, [Outgoing(b"small")])
    assert [record.value for record in client.consume(name, 1)] == [b"small"]


def test_reading_from_an_offset_starts_at_that_offset(client: Client, topic: str) -> None:
    client.produce(topic, [Outgoing(f"{n}".encode()) for n in range(50)])
    got = client.consume(topic, 8, start=Start(offset=42))
    assert [record.offset for record in got] == list(range(42, 50))


def test_reading_from_a_timestamp_starts_at_the_first_record_that_is_not_older(client: Client, topic: str) -> None:
    for hour in range(4):
        client.produce(topic, [Outgoing(b"v", timestamp_ms=NOON_MS + hour * HOUR_MS + n) for n in range(10)])
    exact, between = NOON_MS + 2 * HOUR_MS + 5, NOON_MS + HOUR_MS + 11
    assert client.consume(topic, 1, start=Start(timestamp_ms=exact))[0].offset == 25
    assert client.consume(topic, 1, start=Start(timestamp_ms=between))[0].offset == 20
    assert client.offset_for_time(topic, NOON_MS) == 0
    assert client.offset_for_time(topic, NOON_MS + 9 * HOUR_MS) is None


def test_reading_from_the_latest_offset_returns_only_later_records(client: Client, topic: str) -> None:
    client.produce(topic, [Outgoing(b"old")] * 10)
    with closing(client.reader(topic, start=LATEST)) as reader:
        reader.poll(0.5)

        def write_until_seen() -> list[bytes | None]:
            client.produce(topic, [Outgoing(b"new")])
            return [record.value for record in reader.poll(0.5)]

        assert set(eventually(write_until_seen)) == {b"new"}


def test_a_waiting_consumer_gets_a_record_when_it_is_written(client: Client, topic: str) -> None:
    with closing(client.reader(topic)) as reader:
        assert reader.poll(0.3) == []
        client.produce(topic, [Outgoing(b"at last")])
        assert [record.value for record in read(reader, 1, timeout_s=WAIT_S)] == [b"at last"]


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_records_are_written_with_every_acks(client: Client, topic: str, acks: int) -> None:
    client.produce(topic, [Outgoing(f"{n}".encode()) for n in range(20)], acks=acks)
    assert [record.value for record in client.consume(topic, 20)] == [f"{n}".encode() for n in range(20)]


@pytest.mark.slow
def test_an_idempotent_producer_writes_each_record_once_and_in_order(client: Client, name: str) -> None:
    client.create_topic(name, partitions=3)
    sent = [Outgoing(f"{n}".encode(), partition=n % 3) for n in range(3000)]
    assert client.produce(name, sent, idempotent=True) == [(n % 3, n // 3) for n in range(3000)]
    for partition in range(3):
        values = [record.value for record in client.consume(name, 1000, partition=partition)]
        assert values == [record.value for record in sent[partition::3]]


def test_many_partitions_are_written_and_read(client: Client, name: str) -> None:
    client.create_topic(name, partitions=50)
    sent = [Outgoing(f"{n}".encode(), partition=n % 50) for n in range(500)]
    places = client.produce(name, sent, idempotent=True)
    assert places == [(n % 50, n // 50) for n in range(500)]
    for partition in (0, 17, 49):
        values = [record.value for record in client.consume(name, 10, partition=partition)]
        assert values == [f"{n}".encode() for n in range(partition, 500, 50)]
