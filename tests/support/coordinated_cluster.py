"""`CoordinatedCluster`: a scripted broker whose group has the coordinator of minikafka's nodes, in one process.

The coordinator has metadata of its own: a test chooses when it and when the clients hear of a topic that comes or goes.

    async with coordinated(a=1, b=2) as cluster, cluster.consumer(group_id="g") as consumer:
        await cluster.coordinator_deletes("a")
        cluster.delete("a")
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from minikafka.controller.metadata.records import PartitionRecord, TopicRecord
from minikafka.protocol.apis import APIS
from support.coordinator_node import BROKER_ID, HANDLERS, MemoryNode
from support.fake_network import Later
from support.scripted_cluster import ScriptedCluster

_COORDINATED = (
    "ConsumerGroupHeartbeat", "Heartbeat", "JoinGroup", "LeaveGroup", "OffsetCommit", "OffsetFetch", "SyncGroup",
)  # fmt: skip


class CoordinatedCluster(ScriptedCluster):
    """One broker, and its group coordinator: `node`."""

    def __init__(self, node: MemoryNode, tasks: trio.Nursery) -> None:
        super().__init__()
        self.node = node
        self._tasks = tasks
        self.brokers[0].in_order = True
        for api in APIS.values():
            name = api.request.__name__.removesuffix("Request")
            if name in _COORDINATED:
                assert name in HANDLERS
                self.brokers[0].handlers[api.request] = lambda request, version, name=name: self._asked(
                    name, request, version
                )

    def coordinator_creates(self, name: str, topic_id: bytes, partitions: int = 1) -> None:
        """The coordinator hears of a topic."""
        self.node.image.apply(TopicRecord(topic_id, name))
        for index in range(partitions):
            replicas = (BROKER_ID,)
            self.node.image.apply(PartitionRecord(topic_id, index, replicas, replicas, BROKER_ID))

    async def coordinator_deletes(self, name: str) -> None:
        """The coordinator hears that a topic is gone."""
        await self.node.delete_topic(name)

    def _asked(self, name: str, request: Any, version: int) -> Later:
        later = Later()
        self._tasks.start_soon(self._answer, name, request, version, later)
        return later

    async def _answer(self, name: str, request: Any, version: int, later: Later) -> None:
        later.answer(await self.node.ask(name, version, request))


@asynccontextmanager
async def coordinated(settings: dict[str, str] | None = None, **topics: int) -> AsyncIterator[CoordinatedCluster]:
    """A cluster with these topics, of so many partitions, that all know."""
    node = MemoryNode(settings=settings)
    async with trio.open_nursery() as nursery:
        await node.start(nursery)
        cluster = CoordinatedCluster(node, nursery)
        for name, partitions in topics.items():
            cluster.create(name, partitions)
            cluster.coordinator_creates(name, cluster.ids[name], partitions)
        yield cluster
        nursery.cancel_scope.cancel()
