"""The producer's background task: sends batches to leaders in Produce requests, and hands the responses to the
accumulator, which decides about retries.

`pump` does one round without waiting: it fails expired batches, collects the batches that can be sent now, encodes and
sends them. It is called when a batch is full, a deadline has passed, a response has arrived or metadata has changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.connection import Connection, api_versions_request
from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.connections.waits import Awaited
from minikafka.client.escaped_log import escaped
from minikafka.client.metrics import Distribution, Readings
from minikafka.client.options import ProducerOptions
from minikafka.client.producer.producer_batch import PendingBatch, not_encoded
from minikafka.client.producer.record_accumulator import Accumulator, Lane, ProducerIdentity
from minikafka.client.producer.transactions import PRODUCE_VERSION_MAX, Transactions
from minikafka.protocol.counted import counted
from minikafka.protocol.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    LeaderNotAvailableError,
    UnknownTopicIdError,
    error_for,
)
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.compression import Codec
from minikafka.protocol.types import NIL_UUID

_logger = escaped(logging.getLogger("minikafka.client.producer"))
_VERSION_WITH_IDS = 13
_NEEDED = ": it needs WRITE on a topic or IDEMPOTENT_WRITE on the cluster; enable_idempotence=False needs neither"


class TopicSends:
    """Counts for one topic: records sent, records sent again, records that failed, and the bytes of batches."""

    __slots__ = ("failed", "records", "retried", "size_bytes")

    def __init__(self) -> None:
        self.records = self.retried = self.failed = self.size_bytes = 0


class Sender:
    """Sends the batches of an `Accumulator` to a `Cluster`.

    Attributes:
        transactions: the requests of a transactional producer; None if the producer has no `transactional_id`.
    """

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        options: ProducerOptions,
        tasks: TaskGroup,
        backoff: Backoff,
    ) -> None:
        self.transactions: Transactions | None = None
        if options.transactional_id is not None:
            self.transactions = Transactions(cluster, accumulator, options, tasks, backoff, self)
        self.on_update: Callable[[], None] = lambda: None
        self.on_end: Callable[[], None] = lambda: None
        self._cluster = cluster
        self._accumulator = accumulator
        self._options = options
        self._tasks = tasks
        accumulator.why = self._why_undelivered
        accumulator.check_home = cluster.home.check
        self._delivered_at = float("-inf")
        self._used_at: dict[str, float] = {}
        """By topic, when its last batch was opened, on the event loop's clock."""
        self.sends: dict[str, TopicSends] = {}
        self.requests_sent = 0
        self.batch_sizes, self.queue_times_ms, self.latencies_ms = Distribution(), Distribution(), Distribution()
        """The sizes of encoded batches, in bytes; the times from a batch's first record to its first request; the
        latencies of answered requests."""
        self._codec = Codec[options.compression_type.upper()]
        self._in_flight: dict[int, int] = {}
        self._unanswered: dict[int, None] = {}
        self._connecting: dict[int, None] = {}
        self._wake = anyio.Event()
        self._sleeps_until = 0.0
        self._memory_freed = anyio.Event()
        self._flushes = 0
        self._initializing = False

    async def start(self) -> None:
        """Get a producer id (with enable_idempotence), and start the background task. Raises KafkaError.

        With `start="lazy"` the id is requested in the background, once there is metadata.
        """
        if self.transactions is not None:
            await self.transactions.initialize()
        elif self._options.enable_idempotence and self._options.start == "eager":
            await self._cluster.retry(self._init_producer_id, "getting a producer id")
        self._cluster.on_update = self._updated
        self._cluster.is_wanted = lambda name: any(one.topic == name for one in self._accumulator.unfinished())
        self._tasks.start_soon(self._run)

    def open_batch(self, lane: Lane, size_bytes: int) -> PendingBatch:
        """Open a new batch with room for one record of `size_bytes`, and send the previous batch if possible."""
        now = anyio.current_time()
        self._cluster.home.check()
        was_open = lane.open is not None
        self._used_at[lane.topic] = now
        self._cluster.waits.begin(self.undelivered)
        batch = self._accumulator.batch_for(lane, size_bytes, now)
        if self.transactions is not None:
            self.transactions.state.use(lane.topic, lane.partition)
        if was_open:
            self.pump()
        elif now + self._options.linger_ms / 1000 < self._sleeps_until:
            self._wake.set()
        return batch

    @contextmanager
    def flushing(self) -> Iterator[None]:
        """A block within which batches are sent without lingering."""
        self._flushes += 1
        self._accumulator.flushing = True
        try:
            self.pump()
            yield
        finally:
            self._flushes -= 1
            self._accumulator.flushing = self._flushes > 0

    async def memory_freed(self) -> None:
        """Wait until a batch is done."""
        if self._memory_freed.is_set():
            self._memory_freed = anyio.Event()
        await self._memory_freed.wait()

    def memory_was_freed(self) -> None:
        """Wake up the tasks in `memory_freed`."""
        self._memory_freed.set()

    def forget_idle(self, topics: Mapping[str, Sequence[Lane]]) -> list[str]:
        """Stop requesting metadata of topics that were not used for `metadata_max_idle_ms`; return them (KIP-526)."""
        now, forgotten = anyio.current_time(), list[str]()
        for name, lanes in topics.items():
            idle_ms = (now - self._used_at.setdefault(name, now)) * 1000
            if idle_ms > self._options.metadata_max_idle_ms and all(lane.is_empty for lane in lanes):
                del self._used_at[name]
                self._cluster.forget(name)
                forgotten.append(name)
        return forgotten

    async def confirm_unanswered(self) -> None:
        """Wait until brokers have read all requests with acks=0.

        A broker handles requests in order, so the response to an ApiVersions request confirms them.
        """
        for node_id in list(self._unanswered):
            del self._unanswered[node_id]
            connection = self._cluster.connected(node_id)
            if connection is not None:
                what = f"confirmation of records by {connection.address}"
                with suppress(KafkaError), self._cluster.waiting(what):
                    await connection.request(api_versions_request(), timeout_ms=self._options.request_timeout_ms)

    def pump(self) -> None:
        """Send all batches that can be sent now, and make the background task wake up for the next deadline."""
        now = anyio.current_time()
        self._count_failed(self._accumulator.expire(now))
        if self.transactions is not None:
            self.transactions.pump()
        elif self._options.enable_idempotence and self._accumulator.identity is None and self._cluster.metadata.brokers:
            self._init_producer_id_soon()
        while requests := self._accumulator.collect(now, self._leader, self._can_send):
            for node_id, batches in requests.items():
                connection = self._cluster.connected(node_id)
                assert connection is not None, "checked by _can_send"
                self._post(connection, node_id, batches)
        self._memory_freed.set()
        if self._accumulator.next_time(now) < self._sleeps_until:
            self._wake.set()

    async def _run(self) -> None:
        try:
            await self._send_when_due()
        finally:
            self.on_end()

    async def _send_when_due(self) -> None:
        while True:
            self._wake = anyio.Event()
            self._sleeps_until = 0.0
            if self.transactions is not None:
                await checkpoint()  # Tasks that send records fill the open batches meanwhile; see `Accumulator`.
            now = anyio.current_time()  # Before `pump`, so that batches that become due meanwhile are not missed.
            self.pump()
            self._sleeps_until = self._accumulator.next_time(now)
            with anyio.move_on_at(self._sleeps_until):
                await self._wake.wait()

    def _updated(self) -> None:
        self.on_update()
        self.pump()

    def _leader(self, topic: str, partition: int) -> int:
        leader = self._cluster.metadata.leader(topic, partition)
        if leader < 0:
            if self._cluster.topics is not None:
                self._cluster.topics[topic] = None  # a topic that was deleted may have been forgotten
            self._cluster.refresh_soon()
        return leader

    def _can_send(self, node_id: int) -> bool:
        limit = self._options.max_in_flight_requests_per_connection
        if self._cluster.connected(node_id) is None:
            if self._cluster.is_unreachable(node_id):
                self._cluster.refresh_soon()
            if node_id not in self._connecting:
                self._connecting[node_id] = None
                self._tasks.start_soon(self._connect, node_id)
            return False
        return self._in_flight.get(node_id, 0) < limit

    async def _connect(self, node_id: int) -> None:
        try:
            await self._cluster.connection(node_id)
        except KafkaError as error:
            _logger.info("broker unreachable: broker %d: %s", node_id, error)
        finally:
            del self._connecting[node_id]
        if self._cluster.connected(node_id):
            self.pump()
        else:  # The connection failed or was closed again.
            self._cluster.refresh_soon()

    def _post(self, connection: Connection, node_id: int, batches: list[PendingBatch]) -> None:
        try:
            version = connection.version_for(ProduceRequest, self._highest_version())
            batches, request = self._request(batches, with_ids=version >= _VERSION_WITH_IDS)
            if not batches:
                return
            now = anyio.current_time()
            deadline = now + self._options.request_timeout_ms / 1000
            is_answered = self._options.required_acks != 0
            if not is_answered:
                self._unanswered[node_id] = None
            self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
            try:
                connection.post(
                    request,
                    lambda reply: self._on_response(node_id, batches, reply, now),
                    deadline=deadline,
                    highest=version,
                    is_answered=is_answered,
                )
            except BaseException:
                self._in_flight[node_id] -= 1
                raise
        except KafkaError as error:
            self._fail(batches, error)

    def _highest_version(self) -> int | None:
        """The highest version of Produce requests, which version 1 of transactions limits; None: no limit."""
        return None if self.transactions is None or self.transactions.state.version2 else PRODUCE_VERSION_MAX

    def _request(
        self, batches: list[PendingBatch], *, with_ids: bool
    ) -> tuple[list[PendingBatch], ProduceRequest]:
        """Create a request, and return the batches in it; a batch that cannot be encoded fails without the others."""
        sent: list[PendingBatch] = []
        topics: dict[str, TopicProduceData] = {}
        now = anyio.current_time()
        for batch in batches:
            try:
                records = batch.encode(self._codec, self._options.compression_level)
            except Exception as error:  # noqa: BLE001 (`send` should have refused it: only these records fail)
                self._fail([batch], not_encoded(batch, error))
                continue
            sent.append(batch)
            data = topics.get(batch.topic)
            if data is None:
                topic_id = self._cluster.metadata.topic_id(batch.topic) if with_ids else NIL_UUID
                data = topics[batch.topic] = TopicProduceData(
                    name="" if with_ids else batch.topic, topic_id=topic_id, partition_data=[]
                )
            sends = self._sends_of(batch.topic)
            sends.records += len(batch.values)
            sends.retried += len(batch.values) if batch.attempts > 1 else 0
            sends.size_bytes += len(records)
            self.batch_sizes.add(len(records))
            if batch.attempts == 1:
                self.queue_times_ms.add((now - batch.deadline) * 1000 + self._options.delivery_timeout_ms)
            data.partition_data.append(PartitionProduceData(index=batch.partition, records=records))
        self.requests_sent += 1
        return sent, ProduceRequest(
            transactional_id=self._options.transactional_id,
            acks=self._options.required_acks,
            timeout_ms=self._options.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    def _on_response(self, node_id: int, batches: list[PendingBatch], reply: Any, sent_s: float) -> None:
        self._in_flight[node_id] -= 1
        if reply is None:  # acks=0; perhaps within `pump`
            self._delivered_at = anyio.current_time()
            for batch in batches:
                self._accumulator.succeeded(batch, -1)
            self._wake.set()
            return
        self.latencies_ms.add((anyio.current_time() - sent_s) * 1000)
        if isinstance(reply, KafkaError):
            self._cluster.refresh_soon()
            self._fail(batches, reply)
        else:
            self._handle_response(batches, reply)
        self._accumulator.fills_open = self.transactions is not None
        self.pump()
        if self._accumulator.fills_open and not self._accumulator.flushing:
            self._wake.set()
        self._accumulator.fills_open = False

    def _handle_response(self, batches: list[PendingBatch], reply: Any) -> None:
        results: dict[tuple[str, int], Any] = {}
        for topic in reply.responses:
            name = topic.name or self._name_of(topic.topic_id, batches)
            results |= {(name, one.index): one for one in topic.partition_responses}
        for batch in batches:
            result = results.get((batch.topic, batch.partition))
            if result is None:
                text = f"the Produce response lacks {batch.topic}-{batch.partition}"
                self._fail([batch], UnknownTopicIdError(text))
            elif result.error_code:
                error = error_for(result.error_code, self._error_text(batch, result))
                moved = self._cluster.metadata.learn(
                    batch.topic, batch.partition, result.current_leader, reply.node_endpoints
                )
                self._fail([batch], error, pause=not moved)
            else:
                self._delivered_at = anyio.current_time()
                self._accumulator.succeeded(batch, result.base_offset, result.log_append_time_ms)

    def _name_of(self, topic_id: bytes, batches: list[PendingBatch]) -> str:
        metadata = self._cluster.metadata
        names = {metadata.topic_id(batch.topic): batch.topic for batch in batches}
        return names.get(topic_id) or metadata.name_of(topic_id) or ""

    @staticmethod
    def _error_text(batch: PendingBatch, result: Any) -> str:
        message = result.error_message or error_for(result.error_code).message
        record_errors = [one.batch_index_error_message for one in result.record_errors if one.batch_index_error_message]
        text = TopicPartition(batch.topic, batch.partition).said_of(message)
        return text + (f" ({record_errors[0]})" if record_errors else "")

    def undelivered(self) -> Awaited | None:
        """The wait for records to be delivered, for `Waits`, even if no task awaits a delivery; None without records.

        Records queued behind other records do not count as waiting, as long as brokers accept the others.
        """
        batches = list(self._accumulator.unfinished())
        if not batches:
            self._cluster.waits.end(self.undelivered)
            return None
        oldest = min(batches, key=lambda one: one.opened_at)
        since = oldest.opened_at + self._options.linger_ms / 1000
        if oldest.last_error is None and self._cluster.connected(self._cluster.metadata.leader(*oldest.place)):
            since = max(since, self._delivered_at)
        count = sum(len(one.values) for one in batches)
        return Awaited(f"delivering {counted(count, 'record')}", self._why_undelivered(oldest), since)

    def _why_undelivered(self, batch: PendingBatch) -> str:
        metadata = self._cluster.metadata
        last = batch.last_error or metadata.errors.get(batch.topic)
        if last is None and metadata.leader(*batch.place) < 0:
            last = LeaderNotAvailableError(f"{batch.topic}-{batch.partition} has no leader")
        return self._cluster.why(last)

    def _fail(self, batches: list[PendingBatch], error: KafkaError, *, pause: bool = True) -> None:
        now = anyio.current_time()
        if error.retriable:
            self._cluster.refresh_soon()
        for batch in batches:
            self._accumulator.failed(batch, error, now, pause=pause)
        self._count_failed([batch for batch in batches if batch.done and batch.error is not None])
        self._wake.set()

    @property
    def in_flight(self) -> int:
        """The number of Produce requests without a response; with acks=0, that the sockets have not accepted."""
        return sum(self._in_flight.values())

    def _sends_of(self, topic: str) -> TopicSends:
        if topic not in self.sends:
            self.sends[topic] = TopicSends()
        return self.sends[topic]

    def _count_failed(self, failed: list[PendingBatch]) -> None:
        """Count the records of failed batches; to be called once for each batch."""
        for batch in failed:
            self._sends_of(batch.topic).failed += batch.count

    def _init_producer_id_soon(self) -> None:
        if not self._initializing:
            self._initializing = True
            self._tasks.start_soon(self._init_producer_id_again)

    async def _init_producer_id_again(self) -> None:
        try:
            await self._cluster.retry(self._init_producer_id, "getting a new producer id", timeout_ms=float("inf"))
        except KafkaError as error:
            self._accumulator.fail_all(error)
            self._memory_freed.set()
        else:
            self.pump()
        finally:
            self._initializing = False

    async def _init_producer_id(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=(1 << 31) - 1)
        response = await self._cluster.request(request)
        if response.error_code:
            error = error_for(response.error_code)
            needed = _NEEDED if isinstance(error, ClusterAuthorizationFailedError) else ""
            raise error_for(response.error_code, f"getting a producer id failed: {error.message}{needed}")
        self._accumulator.identity = ProducerIdentity(response.producer_id, response.producer_epoch)


def measure_producer(readings: Readings, sender: Sender, buffer_memory: int, used_bytes: int) -> None:
    """Add the producer's metrics to `readings`. Source: Kafka's `SenderMetricsRegistry`."""
    every = sender.sends.values()
    records = sum(one.records for one in every)
    readings.total("record-send", records)
    readings.total("record-retry", sum(one.retried for one in every))
    readings.total("record-error", sum(one.failed for one in every))
    readings.distribution("batch-size", sender.batch_sizes)
    readings.distribution("record-queue-time", sender.queue_times_ms)
    readings.distribution("request-latency", sender.latencies_ms)
    readings.average("records-per-request", records, sender.requests_sent)
    readings.gauge("requests-in-flight", sender.in_flight)
    readings.gauge("buffer-total-bytes", buffer_memory)
    readings.gauge("buffer-available-bytes", max(buffer_memory - used_bytes, 0))
    for topic, one in sender.sends.items():
        group = "topic-metrics"
        readings.total("record-send", one.records, group, topic=topic)
        readings.total("record-retry", one.retried, group, topic=topic)
        readings.total("record-error", one.failed, group, topic=topic)
        readings.total("byte", one.size_bytes, group, topic=topic)
