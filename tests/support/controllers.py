"""Lone controllers on a memory disk, with a simulated clock."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

import trio
import trio.testing

from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.controller.standalone_controller import StandaloneController
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.storage.disks.memory_disk import MemoryDisk

ENDPOINTS = (("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
START_MS = 1_700_000_000_000
Result = TypeVar("Result")


def started(disk: MemoryDisk, *, node_id: int = 1, seed: int = 0, **given: str) -> StandaloneController:
    """A controller on a disk; settings are written with underscores for dots."""
    texts = {name.replace("_", "."): text for name, text in given.items()}
    static = StaticSettings(node_id, {"node.id": str(node_id), "log.dirs": "/data", **texts})
    return StandaloneController(static, disk=disk, now_ms=lambda: START_MS, random=Random(seed))


def make_slow(disk: MemoryDisk, seconds: float) -> None:
    """Make each sync take this long."""
    disk.pause = lambda: trio.sleep(seconds)


def with_controller(
    disk: MemoryDisk, use: Callable[[StandaloneController], Awaitable[Result]], **given: Any
) -> tuple[StandaloneController, Result]:
    """Start, register, use, stop and close a controller."""

    async def main() -> tuple[StandaloneController, Result]:
        controller = started(disk, **given)
        async with trio.open_nursery() as nursery:
            await nursery.start(controller.run)
            await controller.register(ENDPOINTS)
            result = await use(controller)
            nursery.cancel_scope.cancel()
        controller.close()
        return controller, result

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def creation(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    """A request for topics with one replica."""
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics)


async def create(controller: StandaloneController, *names: str, partitions: int = 1) -> list[int]:
    """Create topics; returns the error codes."""
    response = await controller.handle(creation(*names, partitions=partitions), 7)
    return [result.error_code for result in response.topics]
