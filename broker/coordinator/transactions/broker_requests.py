"""Sends requests from one broker to other brokers, over one connection to each, with many items in a request.

`Batcher` collects the items that wait for a node while a request to that node is under way, and sends them in the next
request. It runs a trio task for each node for which items wait. Source: Kafka's `InterBrokerSendThread`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import trio

from minikafka.broker.connections.large_messages import ELEMENTS_MAX
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.client.connections.connection import Connection, open_connection
from minikafka.client.connections.seams import Seams
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import KafkaError, NetworkError, again, without_frames
from minikafka.protocol.names import TopicPartition
from minikafka.storage.waits import in_task

CONNECTION_TIMEOUT_MS = 3_000
BATCH_MAX = 500
"""The largest number of items in one request."""
PARTITIONS_MAX = (ELEMENTS_MAX - 1) // 2
"""The largest number of partitions in one item. Even with as many topics, no node refuses the item as too large."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class BrokerConnections:
    """One connection to each other broker, opened when it is needed.

    Args:
        config: The settings of the node: the inter-broker listener and `request.timeout.ms`.
        image: The endpoints of the brokers.
        seams: Clock, randomness and network of the connections.
        purpose: Part of the client id.
    """

    def __init__(self, config: NodeConfig, image: Image, seams: Seams, purpose: str) -> None:
        self._client_id = f"broker-{config.node_id}-{purpose}"
        self._listener = config.listeners.inter_broker
        self._timeout_ms = config.number("request.timeout.ms")
        self._image = image
        self._seams = seams
        self._connections: dict[int, Connection] = {}
        self.nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled; the connections are then closed."""
        try:
            async with trio.open_nursery() as nursery:
                self.nursery = nursery
                task_status.started()
                await trio.sleep_forever()
        finally:
            self.nursery = None
            for connection in self._connections.values():
                connection.close()

    async def request(self, node_id: int, message: Any) -> Any:
        """Send a request to a broker, and return its response. The caller sends one request at a time to each broker.

        Raises:
            NetworkError: The broker cannot be reached, or does not answer in time; it may have carried out the request.
        """
        host, port = self._endpoint(node_id)
        connection = self._connections.get(node_id)
        if connection is None or connection.closed or connection.address != f"{host}:{port}":
            if connection is not None:
                connection.close()
            connection = await open_connection(
                host,
                port,
                client_id=self._client_id,
                seams=self._seams,
                task_group=self.nursery,
                timeout_ms=min(CONNECTION_TIMEOUT_MS, self._timeout_ms),
                security=self._seams.security,
            )
            self._connections[node_id] = connection
        return await connection.request(message, timeout_ms=self._timeout_ms)

    def _endpoint(self, node_id: int) -> tuple[str, int]:
        broker = self._image.brokers.get(node_id)
        for name, host, port, _ in broker.endpoints if broker is not None else ():
            if name == self._listener:
                return host, port
        raise NetworkError(f"broker {node_id} has no listener {self._listener}")


class _Waiting(Generic[Item, Answer]):
    """An item that waits for its answer."""

    __slots__ = ("answer", "error", "event", "item")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.event = trio.Event()
        self.answer: Answer | None = None
        self.error: KafkaError | None = None


class Batcher(Generic[Item, Answer]):
    """Sends items to nodes, one request at a time to each node, with as many waiting items as a request may have.

    Args:
        connections: The connections, whose nursery runs the tasks.
        send: Sends items to a node, and returns an answer for each item. Raises KafkaError.
        partitions: Returns the partitions of an item, `PARTITIONS_MAX` at most.
        key: Returns the key of an item. Items with the same key never share a request; by default all items may.
    """

    def __init__(
        self,
        connections: BrokerConnections,
        send: Callable[[int, Sequence[Item]], Awaitable[Sequence[Answer]]],
        partitions: Callable[[Item], Collection[TopicPartition]],
        key: Callable[[Item], Hashable] = id,
    ) -> None:
        self._connections = connections
        self._send = send
        self._partitions = partitions
        self._key = key
        self._waiting: dict[int, deque[_Waiting[Item, Answer]]] = {}

    async def ask(self, node_id: int, item: Item) -> Answer:
        """Send an item to a node, and return the answer. After cancellation the item may still be sent.

        Raises:
            NetworkError: This node is stopping; or as `BrokerConnections.request`.
            KafkaError: `send` has raised the error.
        """
        nursery = self._connections.nursery
        if nursery is None:
            raise NetworkError("this broker is stopping")
        waiting = _Waiting[Item, Answer](item)
        queue = self._waiting.get(node_id)
        if queue is None:
            self._waiting[node_id] = deque([waiting])
            nursery.start_soon(self._drain, node_id)
        else:
            queue.append(waiting)
        await in_task()
        await waiting.event.wait()
        if waiting.error is not None:
            raise again(waiting.error)
        assert waiting.answer is not None
        return waiting.answer

    async def _drain(self, node_id: int) -> None:
        queue = self._waiting[node_id]
        try:
            while queue:
                batch = self._batch(queue)
                try:
                    answers = await self._send(node_id, [one.item for one in batch])
                except KafkaError as error:
                    for one in batch:
                        one.error = without_frames(error)
                else:
                    for one, answer in zip(batch, answers, strict=True):
                        one.answer = answer
                for one in batch:
                    one.event.set()
        finally:
            del self._waiting[node_id]

    def _batch(self, queue: deque[_Waiting[Item, Answer]]) -> list[_Waiting[Item, Answer]]:
        """Take the first waiting items, up to an item with a key that was taken, or with too many elements."""
        batch: dict[Hashable, _Waiting[Item, Answer]] = {}
        elements = 0
        while queue and len(batch) < BATCH_MAX and (key := self._key(queue[0].item)) not in batch:
            elements += 1 + 2 * len(self._partitions(queue[0].item))
            if batch and elements > ELEMENTS_MAX:
                break
            batch[key] = queue.popleft()
        return list(batch.values())


def items_of(partitions: Collection[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    """Divide partitions into parts of up to `PARTITIONS_MAX`, one part for each item."""
    names = list(partitions) if len(partitions) <= PARTITIONS_MAX else sorted(partitions)
    for first in range(0, len(names), PARTITIONS_MAX):
        yield names[first : first + PARTITIONS_MAX]
