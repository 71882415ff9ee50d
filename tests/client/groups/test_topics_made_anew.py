"""A group reads a topic that is deleted and made anew under it: with a broker, under both protocols."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from minikafka.client import Admin, Consumer, NewTopic, Producer

pytestmark = pytest.mark.anyio

PROTOCOLS: dict[str, dict[str, Any]] = {
    "eager": {"partition_assignment_strategy": ["range"], "heartbeat_interval_ms": 200},
    "cooperative": {"partition_assignment_strategy": ["cooperative-sticky"], "heartbeat_interval_ms": 200},
    "consumer": {"group_protocol": "consumer"},
}


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("count", [5, 40])
async def test_each_record_of_the_new_topic_is_read_once(bootstrap: str, topic: str, protocol: str, count: int) -> None:
    """Whether the new log is shorter or longer than what was read of the old one."""
    options = {"metadata_max_age_ms": 500, "auto_commit_interval_ms": 200, **PROTOCOLS[protocol]}
    async with Admin(bootstrap_servers=bootstrap) as admin, Producer(bootstrap_servers=bootstrap) as producer:
        await admin.create_topics([NewTopic(topic, 2)])
        async with Consumer(
            topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", **options
        ) as consumer:
            await write(producer, topic, 20)
            assert await read(consumer, 20) == wanted(20)
            await admin.delete_topics([topic])
            await made(admin, topic)
            await write(producer, topic, count)
            assert await read(consumer, count) == wanted(count)
            await consumer.poll(0)
            await consumer.commit()
            committed = await consumer.committed(*consumer.assignment())
            assert sum(one.offset for one in committed.values()) == count


async def made(admin: Admin, topic: str) -> None:
    """Deletion is finished later in Apache Kafka; until then the name is in use."""
    with anyio.fail_after(20):
        while (await admin.create_topics([NewTopic(topic, 2)]))[topic] is not None:
            await anyio.sleep(0.1)


async def write(producer: Producer, topic: str, count: int) -> None:
    for number in range(count):
        await producer.send_and_wait(topic, b"%d" % number, partition=number % 2)


async def read(consumer: Consumer, count: int) -> list[bytes]:
    """So many records, and those that come within a second more."""
    found: list[bytes] = []
    with anyio.move_on_after(20) as time:
        while records := await consumer.poll(20_000 if len(found) < count else 1_000):
            found += [record.value or b"" for record in records]
    assert not time.cancelled_caught, found
    return sorted(found)


def wanted(count: int) -> list[bytes]:
    return sorted(b"%d" % number for number in range(count))
