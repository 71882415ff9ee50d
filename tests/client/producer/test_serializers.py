"""Serializers of a producer: functions of the object, and objects that are told topic and headers as well."""

from __future__ import annotations

from typing import Any

import anyio
import confluent_kafka
import pytest

from minikafka.client import Admin, Producer, ProducerInterceptor, ProducerRecord, blocking
from minikafka.client.options import InvalidOption
from minikafka.client.producer.serialization import FieldSerializer
from minikafka.protocol.records.record import Headers


class ByHeader:
    """Names topic and headers in what it makes of an object; it could be called as a function as well."""

    def __init__(self, ending: bytes) -> None:
        self.ending = ending

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        named = ",".join(f"{name}={(one or b'').decode()}" for name, one in headers)
        return None if data == "nothing" else f"{topic}|{named}|{data}|".encode() + self.ending

    def __call__(self, data: Any) -> bytes:
        raise AssertionError("the method is what is called")


class Stamp(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(headers=(*record.headers, ("by", b"stamp")))


def read(bootstrap: str, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values as librdkafka receives them."""
    settings = {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    judge = confluent_kafka.Consumer(settings)
    judge.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = judge.consume(count, timeout=60)
    judge.close()
    return [(one.key(), one.value()) for one in found]


@pytest.mark.anyio
async def test_a_serializer_is_told_topic_and_headers(minikafka_bootstrap: str, topic: str) -> None:
    options: Any = {"key_serializer": ByHeader(b"K"), "value_serializer": ByHeader(b"V"), "interceptors": [Stamp()]}
    async with Admin(bootstrap_servers=minikafka_bootstrap) as admin:
        await admin.create_topic(topic)
    async with Producer(bootstrap_servers=minikafka_bootstrap, **options) as producer:
        await producer.send_and_wait(topic, 1, key=2, headers=[("a", b"b"), ("c", None)])
        await producer.send_and_wait(topic, None, key=None)
        await producer.send_and_wait(topic, b"bytes", key=b"key")
        await producer.send_and_wait(topic, "nothing")
        for delivery in await producer.send_many(topic, [3], keys=[4]):
            await delivery

    def in_a_thread() -> list[tuple[bytes | None, bytes | None]]:
        with blocking.Producer(bootstrap_servers=minikafka_bootstrap, **options) as producer:
            producer.send_and_wait(topic, 5, key=6, headers=[("x", b"y")])
        return read(minikafka_bootstrap, topic, 6)

    name = topic.encode()
    assert await anyio.to_thread.run_sync(in_a_thread) == [
        (name + b"|a=b,c=,by=stamp|2|K", name + b"|a=b,c=,by=stamp|1|V"),
        (None, None),
        (b"key", b"bytes"),
        (None, None),
        (name + b"|by=stamp|4|K", name + b"|by=stamp|3|V"),
        (name + b"|x=y,by=stamp|6|K", name + b"|x=y,by=stamp|5|V"),
    ]


def test_what_is_no_serializer_is_refused() -> None:
    with pytest.raises(InvalidOption, match=r"serialize\(topic, headers, data\)"):
        Producer(value_serializer=b"utf-8")  # type: ignore[arg-type]


def test_what_a_serializer_returns_must_be_bytes() -> None:
    with pytest.raises(TypeError, match="key_serializer returned int: it must return bytes or None"):
        FieldSerializer("key", int)("7", "t", ())
    assert FieldSerializer("value", bytearray)(3, "t", ()) == bytes(3)
