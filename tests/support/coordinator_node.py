"""An in-memory node for the group coordinator: topics, logs of internal topics, a clock.

Crash it and start it again over the same logs, hold back commits, let appends fail; all on trio's clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from random import Random
from typing import Any, Protocol

import trio
import trio.testing

from minikafka.broker.apis import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from minikafka.broker.apis.services import ClusterView, Coordinators, CoordinatorService, GroupService
from minikafka.broker.connections.request_context import ConnectionInfo, RequestContext
from minikafka.broker.coordinator.groups.group_coordinator import GroupCoordinator
from minikafka.broker.coordinator.groups.group_settings import ConsumerGroupTimes, GroupSettings
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import BrokerRecord, PartitionRecord, TopicRecord
from minikafka.controller.settings.effective_settings import ResourceType
from minikafka.protocol.errors import KafkaError, NotLeaderOrFollowerError
from minikafka.protocol.message import decode, encode
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import assign, batches, parse_header
from minikafka.protocol.settings.registry import GROUP_SETTINGS, NODE_SETTINGS
from minikafka.protocol.types import NIL_UUID

CLOCK_MS = 1_700_000_000_000
BROKER_ID = 1
ENDPOINT = ("PLAINTEXT", "localhost", 9092, "PLAINTEXT")
HANDLERS: dict[str, Any] = {
    module.REQUEST.__name__.removesuffix("Request"): module
    for module in (
        consumer_group_describe, consumer_group_heartbeat, delete_groups, describe_groups, find_coordinator, heartbeat,
        join_group, leave_group, list_groups, offset_commit, offset_delete, offset_fetch, sync_group,
    )
}  # fmt: skip


class MemoryLogs:
    """Partitions as lists of batches; an `environment.Environment`.

    Attributes:
        refusal: What the next append raises, once.
        held: While set, nothing is committed.
        led: Whether this node is the leader.
    """

    def __init__(self, partition_count: int = 3) -> None:
        self.batches: dict[TopicPartition, list[bytearray]] = {}
        self.count: int | None = partition_count
        self.refusal: KafkaError | None = None
        self.held: trio.Event | None = None
        self.led = True
        self.epoch = 0

    def now_ms(self) -> int:
        return CLOCK_MS + int(trio.current_time() * 1000)

    def partition_count(self, topic: str) -> int | None:
        return self.count

    def start_offset(self, partition: TopicPartition) -> int:
        return 0

    def end_offset(self, partition: TopicPartition) -> int:
        held = self.batches.get(partition)
        return parse_header(held[-1]).next_offset if held else 0

    async def read(self, partition: TopicPartition, offset: int, max_bytes: int) -> bytes:
        await trio.lowlevel.checkpoint()
        data = bytearray()
        for batch in self.batches.get(partition, []):
            if parse_header(batch).next_offset > offset and len(data) <= max_bytes:
                data += batch
        return bytes(data)

    def append_marker(self, partition: TopicPartition, batch: bytearray, transaction_version: int) -> int:
        return self.append(partition, batch)

    def append(self, partition: TopicPartition, batch: bytearray, verification: object | None = None) -> int:
        if not self.led:
            raise NotLeaderOrFollowerError("not the leader")
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            raise refusal
        assign(batch, 0, self.end_offset(partition), self.epoch)
        self.batches.setdefault(partition, []).append(batch)
        return parse_header(batch).last_offset

    def is_committed(self, partition: TopicPartition, offset: int) -> bool:
        if not self.led:
            raise NotLeaderOrFollowerError("not the leader any more")
        return self.held is None

    async def committed(self, partition: TopicPartition, offset: int) -> None:
        if self.held is not None:
            await self.held.wait()
        if not self.led:
            raise NotLeaderOrFollowerError("not the leader any more")

    def records(self) -> list[tuple[bytes, bytes | None]]:
        """All records of all partitions, keys and values."""
        found: list[tuple[bytes, bytes | None]] = []
        for _, held in sorted(self.batches.items()):
            for data in held:
                for batch in batches(data):
                    found += [(record.key or b"", record.value) for record in batch.records()]
        return found


class GroupApiServices(ClusterView, CoordinatorService, GroupService, Protocol):
    """What the handlers of group APIs use of a node."""


class OneBroker:
    """Every group is coordinated by broker 1."""

    async def coordinator_of(self, key_type: int, key: str) -> int:
        return BROKER_ID


class MemoryNode:
    """What handlers see as `context.services`.

    Args:
        logs: Those of a node before, to go on from.
        settings: Texts by Kafka's names; others have Kafka's defaults, but the first rebalance does not wait.
    """

    def __init__(
        self, logs: MemoryLogs | None = None, settings: dict[str, str] | None = None, seed: int | str = 0
    ) -> None:
        self.logs = logs or MemoryLogs()
        self.image = Image(brokers={BROKER_ID: BrokerRecord(BROKER_ID, 0, bytes(16), (ENDPOINT,), None, fenced=False)})
        self.image.features["group.version"] = 1
        self.coordinators: Coordinators = OneBroker()
        self.random = Random(seed)
        given = {"group.initial.rebalance.delay.ms": "0"} | (settings or {})
        values = {name: known.default for name, known in NODE_SETTINGS.items()}
        values |= {name: NODE_SETTINGS[name].parse(text) for name, text in given.items()}
        self._values = values
        of_node = GroupSettings.of(values)
        self.has_lease = True
        self.groups = GroupCoordinator(
            self.logs, of_node, self.random, self.image, self._consumer_times, lambda: self.has_lease
        )

    def now_ms(self) -> int:
        return self.logs.now_ms()

    def _consumer_times(self, group_id: str) -> ConsumerGroupTimes:
        given = self.image.config(ResourceType.GROUP, group_id)
        own = {name: GROUP_SETTINGS[name].parse(text) for name, text in given.items()}
        names = (name for name in GROUP_SETTINGS if name.startswith("consumer."))
        return ConsumerGroupTimes.of_group({name: self._values[f"group.{name}"] for name in names} | own)

    def topic_id(self, name: str) -> bytes:
        topic = self.image.topics.get(name)
        return NIL_UUID if topic is None else topic.id

    def create_topic(self, name: str, partition_count: int = 1) -> bytes:
        """Create a topic; returns its id."""
        topic_id = uuid.UUID(int=self.random.getrandbits(128), version=4).bytes
        self.image.apply(TopicRecord(topic_id, name))
        for partition in range(partition_count):
            self.image.apply(PartitionRecord(topic_id, partition, (BROKER_ID,), (BROKER_ID,), BROKER_ID))
        return topic_id

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its offsets."""
        topic = self.image.topics.pop(name)
        del self.image.topics_by_id[topic.id]
        self.groups.partitions_deleted([TopicPartition(name, i) for i in range(len(topic.partitions))])
        await trio.testing.wait_all_tasks_blocked()

    async def ask(self, api: str, version: int, request: Any, client_id: str = "conversation") -> Any:
        """Send a request through codec and handler; returns the response, also through the codec."""
        module = HANDLERS[api]
        services: GroupApiServices = self
        context = RequestContext(services, version, client_id, ConnectionInfo("PLAINTEXT", "127.0.0.1"))
        request = decode(type(request), version, encode(request, version))
        response = await module.handle(request, context)
        return decode(type(response), version, encode(response, version))

    async def start(self, nursery: trio.Nursery) -> None:
        """Coordinate all partitions, and return when they are loaded."""
        await nursery.start(self.groups.run)
        for partition in range(self.logs.count or 0):
            self.groups.elected(partition, self.logs.epoch)
        await trio.testing.wait_all_tasks_blocked()


def run_with_node(
    body: Callable[[MemoryNode], Any],
    logs: MemoryLogs | None = None,
    settings: dict[str, str] | None = None,
    seed: int | str = 0,
) -> Any:
    """Run `await body(node)` on a clock that jumps ahead when all tasks are blocked."""

    async def main() -> Any:
        node = MemoryNode(logs, settings, seed)
        async with trio.open_nursery() as nursery:
            await node.start(nursery)
            result = await body(node)
            nursery.cancel_scope.cancel()
        return result

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
