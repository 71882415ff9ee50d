"""Sends record batches to the leaders of their partitions, idempotently. Blocking.

Requests are pipelined: up to five for each leader await their responses, while the next batches are encoded. After an
error, all batches that were not acknowledged are sent again, one after the other; the leader recognizes duplicates by
their sequence numbers. The first batch of a partition is acknowledged before the second is sent: a leader that does not
know the producer yet would accept any sequence number, and refuse the first batch afterwards.

A batch that is larger than the topic's max.message.bytes is cut in halves, and later batches are made smaller.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from minikafka.protocol.counted import counted
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import (
    KafkaError,
    LeaderNotAvailableError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
    error_for,
)
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import encode_batch, parse_header
from minikafka.protocol.records.compression import Buffer
from minikafka.spark_connector.brokers import sockets
from minikafka.spark_connector.brokers.offset_reader import OffsetReader
from minikafka.spark_connector.options.sink_options import SinkOptions
from minikafka.spark_connector.sink.sink_columns import key_in_words

IN_FLIGHT_MAX = 5
"""The number of batches of a producer that a leader remembers."""
SEQUENCES = 1 << 31
"""The number of different sequence numbers; after the last one they begin again with 0."""
_TOPIC_NAMES_VERSION_MAX = 11
"""Later versions add partitions to transactions implicitly, or identify topics by id."""
_NAMED_MAX = 3
"""The number of partitions that an error message names at most."""
_ACKNOWLEDGED = (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class Parts:
    """A large batch as header and records, which are sent without being copied."""

    __slots__ = ("body", "head")

    def __init__(self, head: bytes, body: Buffer) -> None:
        self.head = head
        self.body = body

    def __len__(self) -> int:
        return len(self.head) + len(self.body)


@dataclass(slots=True)
class Outgoing:
    """An encoded batch of `count` records for one partition."""

    tp: TopicPartition
    data: bytes | Parts
    count: int

    @property
    def whole(self) -> bytes:
        """The batch in one piece."""
        return self.data if isinstance(self.data, bytes) else b"".join((self.data.head, self.data.body))


@dataclass(slots=True)
class _Leader:
    connection: sockets.BrokerConnection
    in_flight: deque[list[Outgoing]] = field(default_factory=deque)


class BatchSender:
    """Sends batches; after `flush` all of them are acknowledged.

    Attributes:
        batch_bytes_max: the maximum size for further batches, reduced when a leader refuses a batch as too large.
    """

    def __init__(self, brokers: OffsetReader, options: SinkOptions, transactional_id: str | None) -> None:
        self._brokers = brokers
        self._options = options
        self._transactional_id = transactional_id
        self._leaders: dict[int, _Leader] = {}
        self._known: set[TopicPartition] = set()
        self._first_in_flight: set[TopicPartition] = set()
        self._too_large: Outgoing | None = None
        self.batch_bytes_max = sys.maxsize

    def close(self) -> None:
        """Gives the connections back; outstanding responses are lost."""
        for leader in self._leaders.values():
            self._brokers.give_back(leader.connection)
        self._leaders.clear()

    def send(self, batches: Sequence[Outgoing]) -> None:
        """Sends batches of different partitions. Raises KafkaError if a batch cannot be delivered."""
        partitions = {one.tp for one in batches}
        if not partitions.isdisjoint(self._first_in_flight):
            self.flush()
        self._first_in_flight |= partitions - self._known
        self._known |= partitions
        by_leader: dict[int, list[Outgoing]] = {}
        for one in batches:
            by_leader.setdefault(self._brokers.metadata.leader(*one.tp), []).append(one)
        remaining = list(by_leader.items())
        while remaining:
            node_id, some = remaining[0]
            try:
                leader = self._leader(node_id, some)
                if len(leader.in_flight) >= IN_FLIGHT_MAX:
                    self._receive(leader)
                    continue
                remaining.pop(0)
                leader.in_flight.append(some)
                leader.connection.send(self._request(some), highest=_TOPIC_NAMES_VERSION_MAX)
            except KafkaError as error:
                self._deliver_again(error, [one for _, unsent in remaining for one in unsent])
                return

    def flush(self) -> None:
        """Waits until all batches are acknowledged. Raises KafkaError if a batch cannot be delivered."""
        try:
            for leader in self._leaders.values():
                while leader.in_flight:
                    self._receive(leader)
        except KafkaError as error:
            self._deliver_again(error, [])
        self._first_in_flight.clear()

    def _leader(self, node_id: int, batches: Sequence[Outgoing]) -> _Leader:
        """Returns the connected leader of the batches' partitions. Raises LeaderNotAvailableError, NetworkError."""
        known = self._leaders.get(node_id)
        if known is not None and not known.connection.closed:
            return known
        if node_id < 0:
            raise LeaderNotAvailableError(f"no leader: {', '.join(str(one.tp) for one in batches[:_NAMED_MAX])}"
                                          + (" …" if len(batches) > _NAMED_MAX else ""))  # fmt: skip
        self._leaders[node_id] = _Leader(self._brokers.lend(node_id))
        return self._leaders[node_id]

    def _request(self, batches: Sequence[Outgoing]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for one in batches:
            topics.setdefault(one.tp.topic, []).append(PartitionProduceData(index=one.tp.partition, records=one.data))
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._options.acks,
            timeout_ms=int(self._options.kafka.request_timeout_s * 1000),
            topic_data=[TopicProduceData(name=name, partition_data=some) for name, some in topics.items()],
        )

    def _receive(self, leader: _Leader) -> None:
        """Receives the oldest response, and forgets acknowledged batches. Raises the first error in the response."""
        response = leader.connection.receive()
        refused: KafkaError | None = None
        waiting = {one.tp: one for one in leader.in_flight[0]}
        for topic in response.responses:
            for result in topic.partition_responses:
                tp = TopicPartition(topic.name, result.index)
                if result.error_code in _ACKNOWLEDGED:
                    waiting.pop(tp, None)
                elif tp in waiting and (refused is None or refused.retriable):
                    refused = _refusal(tp, waiting[tp], result)
                    if result.error_code == ErrorCode.MESSAGE_TOO_LARGE and waiting[tp].count > 1:
                        self._too_large = waiting[tp]
        if refused is None and waiting:
            refused = UnknownTopicOrPartitionError(f"no answer about {next(iter(waiting))}")
        if refused is None:
            leader.in_flight.popleft()
            return
        leader.in_flight[0] = list(waiting.values())
        raise refused

    def _deliver_again(self, error: KafkaError, unsent: list[Outgoing]) -> None:
        """Sends everything that was not acknowledged again, in order, one request at a time."""
        queue = [one for leader in self._leaders.values() for some in leader.in_flight for one in some] + unsent
        self.close()
        deadline, pause_s = sockets.now_s() + self._options.delivery_timeout_s, 0.02
        position = 0
        while True:
            if self._too_large is not None:
                self._cut_too_large(queue, position)
            elif not error.retriable:
                raise error
            if error.code != ErrorCode.MESSAGE_TOO_LARGE and sockets.now_s() >= deadline:
                raise RequestTimedOutError(
                    f"Expiring records for {queue[position].tp}: {self._options.delivery_timeout_s:.0f} s have passed"
                    f" since the first attempt (kafka.delivery.timeout.ms): {error}"
                ) from error
            if error.code != ErrorCode.MESSAGE_TOO_LARGE:
                sockets.sleep(pause_s)
                pause_s = min(2 * pause_s, 1.0)
            try:
                self._brokers.refresh(dict.fromkeys(one.tp.topic for one in queue))
                while position < len(queue):
                    one = queue[position]
                    leader = self._leader(self._brokers.metadata.leader(*one.tp), [one])
                    leader.in_flight.append([one])
                    leader.connection.send(self._request([one]), highest=_TOPIC_NAMES_VERSION_MAX)
                    self._receive(leader)
                    position += 1
                return
            except KafkaError as again:
                error = again
                self.close()

    def _cut_too_large(self, queue: list[Outgoing], position: int) -> None:
        """Replaces the refused batch by two halves, in a queue whose batches before `position` are acknowledged."""
        batch, self._too_large = self._too_large, None
        assert batch is not None
        index = next(index for index in range(position, len(queue)) if queue[index] is batch)
        queue[index : index + 1] = _halves(batch, self._options.level)
        self.batch_bytes_max = min(self.batch_bytes_max, len(batch.data) // 2)


def _halves(batch: Outgoing, level: int | None) -> list[Outgoing]:
    """Splits a batch in two, which keep the sequence numbers of its records."""
    whole = parse_header(batch.whole)
    records, middle = whole.records(), batch.count // 2
    return [
        Outgoing(batch.tp, encode_batch(
            some, whole.header._replace(base_sequence=(whole.base_sequence + first) % SEQUENCES), level=level,
        ), len(some))
        for first, some in ((0, records[:middle]), (middle, records[middle:]))
    ]  # fmt: skip


def _key(batch: Outgoing) -> str:
    (record,) = parse_header(batch.whole).records()
    return key_in_words(None if record.key is None else bytes(record.key))


def _refusal(tp: TopicPartition, batch: Outgoing, result: Any) -> KafkaError:
    text = result.error_message or str(error_for(result.error_code))
    where = "".join(
        f"; record {one.batch_index} of the batch: {one.batch_index_error_message or 'refused'}"
        for one in (result.record_errors or ())[:3]
    )
    advice = ""
    if result.error_code == ErrorCode.MESSAGE_TOO_LARGE:
        advice = (
            f": a batch of {counted(batch.count, 'record')} with {counted(len(batch.data), 'byte')};"
            " raise the topic's max.message.bytes"
            + (", or set kafka.batch.size lower" if batch.count > 1 else f". The record is one {_key(batch)}")
        )
    return error_for(result.error_code, tp.said_of(f"{text}{where}{advice}"))
