"""Clients and tools of others see that they are throttled."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka as ck
import pytest
from support.node import NodeProcess, ServerProcess
from support.oracle import needs_oracle, tool
from support.quota_client import make_topic, set_quota

RATE = 100_000
WAIT_S = 30


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with NodeProcess(tmp_path_factory.mktemp("quotas") / "data", settings={"quota.window.num": 3}) as running:
        yield running


def config(node: ServerProcess, name: str, throttled: list[Any], **others: Any) -> dict[str, Any]:
    named = {key.replace("_", "."): value for key, value in others.items()}
    return {"bootstrap.servers": node.bootstrap, "client.id": name, "throttle_cb": throttled.append, **named}


def test_librdkafka_is_told_that_its_producer_is_throttled(node: ServerProcess, name: str) -> None:
    make_topic(node, name)
    set_quota(node, {"client-id": name}, "producer_byte_rate", RATE)
    throttled: list[Any] = []
    producer = ck.Producer(config(node, name, throttled, linger_ms=0))
    for _ in range(9):
        producer.produce(name, bytes(100_000))
    end = time.monotonic() + WAIT_S
    while not throttled and time.monotonic() < end:
        producer.poll(0.1)
    assert throttled
    assert all(0 < event.throttle_time <= 10 for event in throttled)
    producer.purge()


def test_librdkafka_is_told_that_its_consumer_is_throttled(node: ServerProcess, name: str) -> None:
    make_topic(node, name, sizes=(50_000,) * 9)
    set_quota(node, {"client-id": name}, "consumer_byte_rate", RATE)
    throttled: list[Any] = []
    consumer = ck.Consumer(config(node, name, throttled, group_id=name, auto_offset_reset="earliest"))
    consumer.assign([ck.TopicPartition(name, 0, 0)])
    read: list[ck.Message] = []
    while len(read) < 10:
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        read.append(message)
    consumer.close()
    assert throttled


@pytest.mark.oracle
@needs_oracle
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_java_producer_is_slowed_down_to_its_quota(node: ServerProcess, name: str) -> None:
    make_topic(node, name)
    place, entity = ("--bootstrap-server", node.bootstrap), ("--entity-type", "clients", "--entity-name", name)
    tool("configs", *place, "--alter", "--add-config", f"producer_byte_rate={10 * RATE}", *entity)
    assert f"producer_byte_rate={10 * RATE}.0" in tool("configs", *place, "--describe", *entity)
    printed = tool(
        *("producer-perf-test", "--topic", name, "--num-records", 8000, "--record-size", 1000, "--print-metrics"),
        *("--throughput", -1, "--producer-props", f"bootstrap.servers={node.bootstrap}", f"client.id={name}"),
    )
    rate = float(re.findall(r"([\d.]+) records/sec", printed)[-1]) * 1000
    assert rate < 2.5 * 10 * RATE
    throttle_ms = re.findall(r"produce-throttle-time-max:.*?: ([\d.]+)", printed)
    assert float(throttle_ms[0]) > 100
    tool("configs", *place, "--alter", "--delete-config", "producer_byte_rate", *entity)
    assert "producer_byte_rate" not in tool("configs", *place, "--describe", *entity)
