"""A node as `main` runs it, on a system in memory: it answers a client, stops at a signal, and refuses other data."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing
from support.memory_node import MemoryListeners, config, system

from minikafka import __version__
from minikafka.broker.connections.transport import StreamTransport
from minikafka.broker.node.main import CannotStart, cause_of, make_node, serve
from minikafka.broker.node.system import System
from minikafka.broker.settings.listeners import Listener
from minikafka.broker.settings.node_config import load_config
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataResponse
from minikafka.storage.directories.directory_identity import WrongDirectory
from minikafka.storage.disks.memory_disk import MemoryDisk

VERSION = 12


async def first_signal(number: int) -> AsyncIterator[int]:
    yield number


def test_a_node_in_memory_answers_and_stops_at_the_first_signal() -> None:
    async def main() -> None:
        listeners = MemoryListeners()
        send, signals = trio.open_memory_channel[int](1)
        async with trio.open_nursery() as nursery:

            async def run(task_status: trio.TaskStatus[str]) -> None:
                await serve(make_node(config(1), system(MemoryDisk(), listeners)), signals, task_status=task_status)

            assert await nursery.start(run) == "node:9092"
            ours, theirs = trio.testing.memory_stream_pair()
            listeners.clients.send_nowait(StreamTransport(theirs, "client", "node", 9092))
            brokers = (await metadata(ours)).brokers
            assert [(broker.node_id, broker.host, broker.port) for broker in brokers] == [(1, "node", 9092)]
            send.send_nowait(signal.SIGTERM)
        assert listeners.closed

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def metadata(stream: trio.abc.Stream) -> MetadataResponse:
    await stream.send_all(encode_request(MetadataRequest(topics=[]), VERSION, 7, "test"))
    reader = FrameReader(1 << 20)
    while not (frames := reader.feed(memoryview(await stream.receive_some()))):
        pass
    return decode_response(MetadataResponse, VERSION, frames[0])[1]


def test_a_start_that_is_refused_is_told_from_a_crash() -> None:
    disk = MemoryDisk()

    async def main(node_id: int) -> None:
        send, signals = trio.open_memory_channel[int](1)
        async with trio.open_nursery() as nursery:

            async def run(task_status: trio.TaskStatus[str]) -> None:
                await serve(
                    make_node(config(node_id), system(disk, MemoryListeners())), signals, task_status=task_status
                )

            await nursery.start(run)
            send.send_nowait(signal.SIGTERM)

    trio.run(main, 1)
    with pytest.raises((WrongDirectory, ExceptionGroup)) as refused:
        trio.run(main, 2)
    cause = cause_of(refused.value)
    assert isinstance(cause, CannotStart)
    assert "node.id" in str(cause)


def test_the_cause_of_a_crash_is_the_first_exception() -> None:
    crash = ZeroDivisionError()
    assert cause_of(BaseExceptionGroup("", [ExceptionGroup("", [crash]), KeyboardInterrupt()])) is crash
    assert cause_of(crash) is crash


def test_a_listener_that_cannot_be_bound_ends_the_node() -> None:
    def refuse(listener: Listener) -> MemoryListeners:
        raise OSError(f"cannot listen on {listener.host}:{listener.port}: in use")

    async def main() -> None:
        own = System(MemoryDisk(), lambda: 0, Random(1), listen=refuse)
        _, never = trio.open_memory_channel[int](0)
        await serve(make_node(config(1), own), never)

    with pytest.raises(ExceptionGroup) as failed:
        trio.run(main)
    assert "cannot listen on node:9092" in str(cause_of(failed.value))


def test_listeners_are_closed_if_another_cannot_be_bound() -> None:
    async def main() -> None:
        first = MemoryListeners()

        def listen(listener: Listener) -> MemoryListeners:
            if listener.port == 9093:
                raise OSError("the port is taken")
            return first.listen(listener)

        settings = {
            "node.id": "1",
            "log.dirs": "/data",
            "listeners": "ONE://node:9092,TWO://node:9093",
            "listener.security.protocol.map": "ONE:PLAINTEXT,TWO:PLAINTEXT",
            "inter.broker.listener.name": "ONE",
        }
        made = System(MemoryDisk(), lambda: 1_700_000_000_000, Random(1), listen=listen)
        with pytest.raises(BaseExceptionGroup) as raised:
            await serve(make_node(load_config(settings=settings), made), no_signals())
        assert str(cause_of(raised.value)) == "the port is taken"
        assert first.closed

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def no_signals() -> AsyncIterator[int]:
    await trio.sleep_forever()
    yield 0


def test_a_node_says_what_it_is_where_it_serves_and_how_it_ended() -> None:
    disk = MemoryDisk()

    async def main() -> None:
        listeners = MemoryListeners()
        send, signals = trio.open_memory_channel[int](1)
        async with trio.open_nursery() as nursery:

            async def run(task_status: trio.TaskStatus[str]) -> None:
                await serve(make_node(config(1), system(disk, listeners)), signals, task_status=task_status)

            await nursery.start(run)
            send.send_nowait(signal.SIGTERM)

    def start() -> list[dict[str, Any]]:
        with structlog.testing.capture_logs() as lines:
            trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
        return [dict(line) for line in lines if line["log_level"] != "debug"]

    first = start()
    assert [line["event"] for line in first] == [
        "node starting",
        "every client that reaches this node is let in, without authentication",
        "elected leader of the quorum",
        "cluster created",
        "logs loaded",
        "broker registered",
        "node ready",
        "stopping",
        "node stopped",
    ]
    starting, created, ready, stopped = first[0], first[3], first[6], first[8]
    assert (starting["version"], starting["node"]) == (__version__, 1)
    assert (starting["roles"], starting["directories"]) == (("broker", "controller"), ("/data",))
    assert (ready["listeners"], ready["cluster"]) == (["PLAINTEXT://node:9092"], created["cluster_id"])
    assert stopped["clean"]
    again = start()
    assert [line["event"] for line in again if line["event"] == "cluster created"] == []
    assert next(line for line in again if line["event"] == "logs loaded")["clean_shutdown"]


def test_a_lone_node_stops_at_once() -> None:
    """It hands nothing over, and waits for nobody."""
    stopped_after: list[float] = []

    async def main() -> None:
        send, signals = trio.open_memory_channel[int](1)
        async with trio.open_nursery() as nursery:

            async def run(task_status: trio.TaskStatus[str]) -> None:
                made = make_node(config(1), system(MemoryDisk(), MemoryListeners()))
                await serve(made, signals, task_status=task_status)

            await nursery.start(run)
            await trio.sleep(30)
            began = trio.current_time()
            send.send_nowait(signal.SIGTERM)
        stopped_after.append(trio.current_time() - began)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert stopped_after == [0]
