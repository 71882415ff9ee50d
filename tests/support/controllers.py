"""Controllers of lone nodes on a memory disk, with a simulated clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

import trio
import trio.testing

from minikafka.controller.decisions.decision import Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.quorum.quorum_settings import quorum_settings
from minikafka.controller.quorum_controller import QuorumController
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.storage.disks.memory_disk import MemoryDisk
from support.memory_network import MemoryNetwork
from support.quorum import register

START_MS = 1_700_000_000_000
Result = TypeVar("Result")


def started(disk: MemoryDisk, *, node_id: int = 1, seed: int = 0, **given: str) -> QuorumController:
    """A controller on a disk, which does not run yet; settings are written with underscores for dots."""
    texts = {name.replace("_", "."): text for name, text in given.items()}
    static = StaticSettings(node_id, {"node.id": str(node_id), "log.dirs": "/data", **texts})
    return QuorumController(
        static,
        quorum_settings(static, [], is_controller=True, is_alone=True),
        disk=disk,
        network=MemoryNetwork().of(node_id),
        now_ms=lambda: START_MS,
        random=Random(seed),
    )


async def until_active(controller: QuorumController) -> None:
    """Wait until a controller that runs decides, and its image is that of the log."""
    with trio.fail_after(60):
        while not controller.is_active:
            await trio.sleep(0.001)


def make_slow(disk: MemoryDisk, seconds: float) -> None:
    """Make each sync take this long."""
    disk.pause = lambda: trio.sleep(seconds)


def with_controller(
    disk: MemoryDisk, use: Callable[[QuorumController], Awaitable[Result]], **given: Any
) -> tuple[QuorumController, Result]:
    """Start a controller, register its broker, use, stop and close it."""

    async def registered(controller: QuorumController) -> Result:
        await register(controller, 1, incarnation=controller.leader_epoch)
        return await use(controller)

    return _while_active(disk, registered, **given)


def image_of(disk: MemoryDisk, **given: Any) -> Image:
    """The metadata that a controller has after a start, before its broker is registered."""

    async def read(controller: QuorumController) -> Image:
        return controller.image

    return _while_active(disk, read, **given)[1]


def _while_active(
    disk: MemoryDisk, use: Callable[[QuorumController], Awaitable[Result]], **given: Any
) -> tuple[QuorumController, Result]:
    async def main() -> tuple[QuorumController, Result]:
        controller = started(disk, **given)
        try:
            async with trio.open_nursery() as nursery:
                await nursery.start(controller.run)
                await until_active(controller)
                result = await use(controller)
                nursery.cancel_scope.cancel()
        finally:
            controller.close()
            disk.unlock_all()
        return controller, result

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def submit(controller: QuorumController, decide: Callable[[Image], Decision[Result]]) -> Result:
    """Have the active controller make a decision; returns its reply."""
    assert controller._active is not None, "it is active"
    return (await controller._active.term.submit(decide)).reply


def creation(*names: str, partitions: int = 1) -> CreateTopicsRequest:
    """A request for topics with one replica."""
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics)


async def create(controller: QuorumController, *names: str, partitions: int = 1) -> list[int]:
    """Create topics; returns the error codes."""
    response = await controller.handle(creation(*names, partitions=partitions), 7)
    return [result.error_code for result in response.topics]
