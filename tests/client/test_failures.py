"""Brokers that fail and restart: acknowledged records remain, none is duplicated, and clients recover."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from support.node import NodeProcess

from minikafka.client import Admin, Consumer, Producer
from minikafka.protocol.errors import KafkaError, RequestTimedOutError

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(300)]


async def test_clients_survive_a_killed_broker(tmp_path: Path, anyio_backend: str) -> None:
    with NodeProcess(tmp_path / "data") as node:
        seen: list[bytes] = []
        acknowledged: list[bytes] = []
        under_way = anyio.Event()

        async def produce() -> None:
            async with Producer(bootstrap_servers=node.bootstrap, linger_ms=1) as producer:
                deliveries = []
                for n in range(3000):
                    deliveries.append((b"%d" % n, await producer.send("t", b"%d" % n)))
                    if n % 10 == 0:
                        await anyio.sleep(0.001)
                for value, delivery in deliveries:
                    await delivery
                    acknowledged.append(value)

        async def consume() -> None:
            options = {"auto_offset_reset": "earliest", "group_id": "g", "heartbeat_interval_ms": 100}
            async with Consumer("t", bootstrap_servers=node.bootstrap, **options) as consumer:  # type: ignore[arg-type]
                async for record in consumer:
                    seen.append(record.value)
                    under_way.set()
                    if len(seen) == 3000:
                        return

        with anyio.fail_after(240):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(produce)
                tasks.start_soon(consume)
                await under_way.wait()
                for _ in range(2):
                    await anyio.sleep(0.1)
                    node.kill()
                    await anyio.to_thread.run_sync(node.start)
        assert acknowledged == [b"%d" % n for n in range(3000)]
        assert seen == acknowledged


async def test_a_broker_lost_permanently_causes_an_error(tmp_path: Path, anyio_backend: str) -> None:
    with NodeProcess(tmp_path / "data") as node:
        options = {"delivery_timeout_ms": 1500, "request_timeout_ms": 500, "linger_ms": 0}
        async with Producer(bootstrap_servers=node.bootstrap, **options) as producer:
            with anyio.fail_after(60):
                await until_it_succeeds(lambda: producer.send_and_wait("t", b"x"))
            node.kill()
            with pytest.raises(RequestTimedOutError, match="within 1500 ms"):
                await producer.send_and_wait("t", b"y")


async def test_a_hanging_broker_causes_a_timeout(tmp_path: Path, anyio_backend: str) -> None:
    with NodeProcess(tmp_path / "data") as node:
        async with Admin(bootstrap_servers=node.bootstrap) as patient:
            await patient.create_topic("t")
        options = {"request_timeout_ms": 300, "default_api_timeout_ms": 1500}
        async with Admin(bootstrap_servers=node.bootstrap, **options) as admin:
            node.pause()
            with pytest.raises(Exception, match=r"did not succeed within 1500 ms"):
                await admin.list_topics()
            node.resume()
            with anyio.fail_after(60):
                assert await until_it_succeeds(admin.list_topics) == ["t"]


async def until_it_succeeds(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Call a client with a short timeout until it succeeds, as the machine may be slower than the timeout."""
    while True:
        with contextlib.suppress(KafkaError):
            return await ask()
