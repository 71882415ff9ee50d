"""A node on a disk and a network in memory, as `main` runs it."""

from __future__ import annotations

import math
from random import Random

import trio

from minikafka.broker.connections.transport import StreamTransport
from minikafka.broker.node.system import System
from minikafka.broker.settings.listeners import Listener
from minikafka.broker.settings.node_config import NodeConfig, load_config
from minikafka.storage.disks.memory_disk import MemoryDisk


class MemoryListeners:
    """The client listeners of a node: `clients` takes the transports to accept."""

    def __init__(self) -> None:
        self.clients, self._accepted = trio.open_memory_channel[StreamTransport](math.inf)
        self.address = "", 0
        self.closed = False

    def listen(self, listener: Listener) -> MemoryListeners:
        self.address = listener.host, listener.port
        return self

    async def run(self) -> None:
        await trio.sleep_forever()

    async def accept(self) -> StreamTransport | None:
        return await self._accepted.receive()

    def close(self) -> None:
        self.closed = True


def config(node_id: int, **given: str) -> NodeConfig:
    """The settings of a standalone node; underscores in names stand for dots. Raises ConfigError."""
    named = {name.replace("_", "."): text for name, text in given.items()}
    fixed = {"node.id": str(node_id), "listeners": "PLAINTEXT://node:9092", "log.dirs": "/data"}
    return load_config(settings={**fixed, **named})


def system(disk: MemoryDisk, listeners: MemoryListeners) -> System:
    """What the node runs on; its wall clock stands still."""
    return System(disk, lambda: 1_700_000_000_000, Random(1), listen=listeners.listen)
