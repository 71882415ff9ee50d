"""The consumer's background: it asks leaders for what is wanted, one fetch per broker at a time, and finds places.

Fetches go over connections of their own, as a broker may hold each back for `fetch_max_wait_ms`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
from anyio.abc import TaskGroup

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.connection import Connection
from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.fetch_state import READ_COMMITTED, Fetcher, Plan, Problem, Reading
from minikafka.client.offset_queries import EARLIEST, LATEST, committed_offsets, list_offsets
from minikafka.client.options import ConsumerOptions
from minikafka.protocol.errors import KafkaError, OffsetOutOfRangeError, error_for
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest
from minikafka.protocol.names import TopicPartition

_PURPOSE = "fetch"
_VERSION_WITH_IDS = 13
_TIMES = {"earliest": EARLIEST, "latest": LATEST}


class FetchLoop:
    """Keeps a fetcher supplied."""

    def __init__(
        self,
        cluster: Cluster,
        fetcher: Fetcher,
        options: ConsumerOptions,
        tasks: TaskGroup,
        fail: Callable[[KafkaError], None],
        seams: Seams,
    ) -> None:
        self._cluster = cluster
        self._fetcher = fetcher
        self._options = options
        self._tasks = tasks
        self._fail = fail
        self._backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, seams.random)
        self._wake = anyio.Event()
        self._arrival = anyio.Event()
        self._in_flight: dict[int, None] = {}
        self._connecting: dict[int, None] = {}
        self._placing = False

    def wake(self) -> None:
        """Something may be wanted now."""
        self._wake.set()

    def arrived(self) -> None:
        """There is news for whoever waits in `arrival`."""
        self._arrival.set()

    async def arrival(self) -> None:
        """Until there is news."""
        if self._arrival.is_set():
            self._arrival = anyio.Event()
        await self._arrival.wait()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._wake = anyio.Event()
            if self._fetcher.lost() and not self._placing:
                self._placing = True
                self._tasks.start_soon(self._place)
            now = anyio.current_time()
            metadata = self._cluster.metadata
            for node_id, asks in self._fetcher.plan(now, self._leader, metadata.leader_epoch).items():
                self._fetch(node_id, asks)
            waiting = [one.not_before for one in self._fetcher.readings.values() if one.not_before > now]
            with anyio.move_on_at(min(waiting, default=float("inf"))):
                await self._wake.wait()

    def _leader(self, topic: str, partition: int) -> int:
        leader = self._cluster.metadata.leader(topic, partition)
        if leader < 0:
            if self._cluster.topics is not None:
                self._cluster.topics[topic] = None
            self._cluster.refresh_soon()
        return leader

    def _fetch(self, node_id: int, asks: list[tuple[Reading, FetchPartition]]) -> None:
        if node_id in self._in_flight:
            return
        connection = self._cluster.connected(node_id, _PURPOSE)
        if connection is None:
            if self._cluster.is_unreachable(node_id):
                self._cluster.refresh_soon()
            if node_id not in self._connecting:
                self._connecting[node_id] = None
                self._tasks.start_soon(self._connect, node_id)
            return
        try:
            self._post(node_id, connection, asks)
        except KafkaError as error:
            self._fail(error)

    def _post(self, node_id: int, connection: Connection, asks: list[tuple[Reading, FetchPartition]]) -> None:
        version = connection.version_for(FetchRequest)
        by_id = version >= _VERSION_WITH_IDS
        plan = self._fetcher.request(asks, self._cluster.metadata.topic_id if by_id else None)
        deadline = anyio.current_time() + self._options.request_timeout_ms / 1000
        self._in_flight[node_id] = None
        try:
            connection.post(
                plan.request, lambda reply: self._answered(node_id, plan, reply), deadline=deadline, highest=version
            )
        except BaseException:
            self._in_flight.pop(node_id, None)
            self._fetcher.landed(plan)
            raise

    async def _connect(self, node_id: int) -> None:
        try:
            await self._cluster.connection(node_id, _PURPOSE)
        except KafkaError:
            self._cluster.refresh_soon()
        finally:
            del self._connecting[node_id]
        self.wake()

    def _answered(self, node_id: int, plan: Plan, reply: Any) -> None:
        self._in_flight.pop(node_id, None)
        self._fetcher.landed(plan)
        if not isinstance(reply, KafkaError) and reply.error_code:
            reply = error_for(reply.error_code, "fetching failed")
        if isinstance(reply, KafkaError):
            for reading, _ in plan.asked.values():
                self._solve(Problem(reading, reply))
        else:
            self._accept(plan, reply)
        self.arrived()
        self.wake()

    def _accept(self, plan: Plan, reply: Any) -> None:
        names = {self._cluster.metadata.topic_id(tp.topic): tp.topic for tp in plan.asked}
        for topic in reply.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for data in topic.partitions:
                problem = self._fetcher.accept(plan, TopicPartition(name, data.partition_index), data)
                if problem is not None:
                    endpoints = reply.node_endpoints
                    learn = self._cluster.metadata.learn
                    moved = learn(name, data.partition_index, data.current_leader, endpoints)
                    self._solve(problem, pause=not moved)

    def _solve(self, problem: Problem, *, pause: bool = True) -> None:
        reading, error = problem
        reading.not_before = anyio.current_time() + (self._backoff.delay_ms(0) / 1000 if pause else 0)
        if isinstance(error, OffsetOutOfRangeError):
            if self._options.auto_offset_reset == "none":
                self._fail(_out_of_range(reading))
            reading.move(None)
            reading.reset = self._options.auto_offset_reset
        elif error.retriable:
            self._cluster.refresh_soon()
        else:
            reading.not_before += 1
            self._fail(error)

    async def _place(self) -> None:
        """Find out where to read what has no place yet."""
        try:
            while lost := [(one, one.era) for one in self._fetcher.lost() if one.reset != "none"]:
                what = "finding out where to read " + ", ".join(str(one.tp) for one, _ in lost)
                found = await self._cluster.retry(partial(self._find, lost), what)
                for reading, era in lost:
                    if reading.era == era and reading.tp in found:
                        reading.move(found[reading.tp])
        except KafkaError as error:
            self._fail(error)
            await anyio.sleep(self._backoff.delay_ms(5) / 1000)
        finally:
            self._placing = False
        self.arrived()
        self.wake()

    async def _find(self, lost: list[tuple[Reading, int]]) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        asked = [reading.tp for reading, _ in lost if reading.reset is None]
        stable = self._options.isolation_level == READ_COMMITTED
        if asked and self._options.group_id is not None:
            committed = await committed_offsets(
                self._cluster, self._options.group_id, asked, require_stable=stable
            )
            found = {tp: place.offset for tp, place in committed.items()}
        times: dict[TopicPartition, int] = {}
        for reading, _ in lost:
            if reading.tp not in found:
                reset = reading.reset or self._options.auto_offset_reset
                if reset == "none":
                    reading.reset = "none"
                    raise _no_place(reading)
                times[reading.tp] = _TIMES[reset]
        if times:
            listed = await list_offsets(
                self._cluster,
                times,
                isolation_level=int(stable),
                timeout_ms=self._options.request_timeout_ms,
            )
            found |= {tp: place.offset for tp, place in listed.items()}
        return found


def _no_place(reading: Reading) -> KafkaError:
    return OffsetOutOfRangeError(
        f"nobody says where to read {reading.tp}: its group has committed no offset and auto_offset_reset is 'none';"
        " seek to a place, or set auto_offset_reset"
    )


def _out_of_range(reading: Reading) -> KafkaError:
    return OffsetOutOfRangeError(
        f"{reading.tp} has no offset {reading.fetch_offset}, and auto_offset_reset is 'none';"
        " seek to a place that exists (beginning_offsets, end_offsets), or set auto_offset_reset"
    )
