"""Python and Java members share a group, with a leader of either kind."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

import anyio
import pytest
from support.oracle import kafka, needs_oracle

from minikafka.client import Admin, Consumer, KafkaError

pytestmark = [pytest.mark.anyio, pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(300), needs_oracle]
JAVA = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextlib.contextmanager
def java_member(bootstrap: str, topic: str, strategy: str) -> Iterator[None]:
    """Kafka's console consumer as a member, until the end of the block."""
    command = kafka(
        *("tool", "console-consumer", "--bootstrap-server", bootstrap),
        *("--topic", topic, "--group", topic),
        *("--command-property", f"partition.assignment.strategy={JAVA[strategy]}"),
        *("--command-property", "heartbeat.interval.ms=200"),
    )
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


async def shares(bootstrap: str, group_id: str, members: int) -> list[int]:
    """Wait until the group is stable and each of this many members has partitions; return their counts."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        with anyio.fail_after(120):
            while True:
                with contextlib.suppress(KafkaError):
                    group = await admin.describe_group(group_id)
                    sizes = sorted(len(one.assignment) for one in group.members)
                    if group.state == "Stable" and len(sizes) == members and sum(sizes) == 4 and sizes[0]:
                        return sizes
                await anyio.sleep(0.1)


async def both_have_two(bootstrap: str, group_id: str, consumer: Consumer) -> None:
    """Wait until the consumer has as many partitions as the broker reports, which may arrive later."""
    assert await shares(bootstrap, group_id, 2) == [2, 2]
    with anyio.fail_after(60):
        while len(consumer.assignment()) != 2:
            await anyio.sleep(0.02)


@pytest.mark.parametrize("strategy", JAVA)
@pytest.mark.parametrize("first", ["python", "java"])
async def test_python_and_java_share_partitions(kafka_bootstrap: str, topic: str, strategy: str, first: str) -> None:
    async with Admin(bootstrap_servers=kafka_bootstrap) as admin:
        await admin.create_topic(topic, partitions=4)
    python = Consumer(
        topic,
        bootstrap_servers=kafka_bootstrap,
        group_id=topic,
        partition_assignment_strategy=[strategy],
        heartbeat_interval_ms=200,
    )
    if first == "python":
        async with python as consumer:
            await shares(kafka_bootstrap, topic, 1)
            with java_member(kafka_bootstrap, topic, strategy):
                await both_have_two(kafka_bootstrap, topic, consumer)
    else:
        with java_member(kafka_bootstrap, topic, strategy):
            await shares(kafka_bootstrap, topic, 1)
            async with python as consumer:
                await both_have_two(kafka_bootstrap, topic, consumer)
