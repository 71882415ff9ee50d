"""Reads one range of offsets from the partition leader, in Spark's executors.

`read` fetches batches, takes the next fetch offset from their headers, sends the next fetch request and only then
decodes the batches, so that the broker works meanwhile. The next fetch offset is the last offset in a batch's header
plus one; control batches, aborted transactions and offsets removed by compaction therefore advance it as well. Reading
stops at the end of the range, even if there is no record at that offset.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minikafka.client.consumer.arrow_batches import Decoded, decode_table, record_batch
from minikafka.protocol.errors import (
    FencedLeaderEpochError,
    KafkaError,
    LeaderNotAvailableError,
    NetworkError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    UnknownTopicIdError,
    UnknownTopicOrPartitionError,
    error_for,
)
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.names import uuid_text
from minikafka.protocol.records.batch import Batch
from minikafka.protocol.records.batch_table import BatchTable, read_table
from minikafka.protocol.records.compression import TOGETHER_SIZE_BYTES, TooMuchContent
from minikafka.protocol.records.control import ControlType, parse_end_transaction
from minikafka.protocol.records.numpy_varints import Array
from minikafka.protocol.types import NIL_UUID
from minikafka.spark_connector.brokers import sockets
from minikafka.spark_connector.brokers.offset_reader import OffsetReader, offset_reader_for
from minikafka.spark_connector.brokers.waiting import waiting
from minikafka.spark_connector.options.offsets import EARLIEST, LATEST
from minikafka.spark_connector.options.source_options import SourceOptions
from minikafka.spark_connector.source.data_loss import DataLoss
from minikafka.spark_connector.source.range_planner import Range

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX = 20_000
BYTES_MAX = 8 << 20
"""The maximum rows and bytes of one Arrow record batch: larger ones slow Spark down."""
COMPRESSED_BYTES_MAX = 1 << 20
_TOPIC_NAMES_VERSION_MAX = 12
_EMPTY_RESPONSES_MAX = 2
_EMPTY_PAUSE_S = 0.05
_logger = logging.getLogger(__name__)


def read(options: SourceOptions, wanted: Range, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields the records of a range in order: committed records only, or all records with read_uncommitted.

    Raises DataLoss if offsets of the range no longer exist (with `failOnDataLoss` false: a warning), CorruptRecords for
    damaged batches, KafkaError if no leader responds within `kafkaConsumer.pollTimeoutMs`.
    """
    reader = _RangeReader(options, wanted)
    for visible in reader.batches():
        for records in (one for group in _groups(visible) for one in decoded(group, columns)):
            low, high = np.searchsorted(records.offsets, (reader.floor, wanted.end))
            if high > low:
                batch = record_batch(records, wanted.topic, wanted.partition, columns)
                yield from _slices(batch, int(low), int(high))


def decoded(group: BatchTable, columns: Sequence[str]) -> Iterator[Decoded]:
    """Decodes a group of batches at once, or in halves if the decompressed records exceed the limit."""
    if len(group) == 1:
        yield decode_table(group, columns)
        return
    try:
        records = decode_table(group, columns, max_size_bytes=TOGETHER_SIZE_BYTES)
    except TooMuchContent:
        middle = len(group) // 2
        yield from decoded(group[:middle], columns)
        yield from decoded(group[middle:], columns)
    else:
        yield records


def _slices(batch: pa.RecordBatch, low: int, high: int) -> Iterator[pa.RecordBatch]:
    for start in range(low, high, ROWS_MAX):
        yield batch.slice(start, min(ROWS_MAX, high - start))


def _groups(visible: BatchTable) -> Iterator[BatchTable]:
    """Groups batches that are decoded together: many small batches, or one large batch."""
    first = rows = size = 0
    weights = np.where(visible.is_compressed, BYTES_MAX // COMPRESSED_BYTES_MAX, 1) * visible.sizes_bytes
    for row, (count, weight) in enumerate(zip(visible.counts.tolist(), weights.tolist(), strict=True)):
        if row > first and (rows + count > ROWS_MAX or size + weight > BYTES_MAX):
            yield visible[first:row]
            first, rows, size = row, 0, 0
        rows, size = rows + count, size + weight
    if first < len(visible):
        yield visible[first:]


def visible_batches(whole: BatchTable, aborted: Any) -> Array:
    """Returns a mask of the batches visible to users: no control batches, no batches of aborted transactions.

    Args:
        aborted: the aborted transactions in the fetch response (empty for read_uncommitted); each ends at its marker.
    """
    visible = ~whole.is_control
    coming = deque(sorted(aborted or (), key=lambda one: one.first_offset))
    if not coming:
        return visible
    open_now: set[int] = set()
    producers, ends = whole.column("producer_id").tolist(), whole.last_offsets.tolist()
    for row in np.flatnonzero(whole.is_transactional | whole.is_control).tolist():
        while coming and coming[0].first_offset <= ends[row]:
            open_now.add(coming.popleft().producer_id)
        if not visible[row]:
            if producers[row] in open_now and _is_abort(whole.batch(row)):
                open_now.discard(producers[row])
        elif producers[row] in open_now:
            visible[row] = False
    return visible


def _is_abort(batch: Batch) -> bool:
    marker = parse_end_transaction(batch)
    return marker is not None and marker.type is ControlType.ABORT


class _RangeReader:
    """Fetches the batches of one range.

    Attributes:
        position: the next fetch offset.
        floor: the first offset to return; a batch may begin with earlier offsets.
    """

    def __init__(self, options: SourceOptions, wanted: Range) -> None:
        self.position = self.floor = wanted.start
        self._options = options
        self._wanted = wanted
        self._brokers: OffsetReader = offset_reader_for(options.kafka)
        self._retries = _RetryTimer(options.poll_timeout_s)
        self._connection: sockets.BrokerConnection | None = None
        self._empty_responses = 0
        self._unknown_count = 0
        self._compacts: bool | None = None
        self._waits_for = ""

    def batches(self) -> Iterator[BatchTable]:
        """Yields the visible batches of each fetch response."""
        try:
            while True:
                self._waits_for = "no response yet"
                with waiting(f"fetching {self._wanted.tp} from offset {self.position}", lambda: self._waits_for):
                    visible = self._next_batches()
                if visible is None:
                    return
                yield visible
        finally:
            if self._connection is not None and self._connection.busy:
                self._connection.close()

    def _next_batches(self) -> BatchTable | None:
        """The visible batches of the next fetch response; None at the end of the range.

        The timeout begins with each call, because Spark's work between two calls takes time as well.
        """
        self._retries.reset()
        while self.position < self._wanted.end:
            try:
                visible = self._process(self._receive())
                self._unknown_count = 0
                if visible is not None:
                    return visible
            except (UnknownTopicOrPartitionError, UnknownTopicIdError) as error:
                self._waits_for = error.message
                self._handle_unknown_topic(error)
            except KafkaError as error:
                self._waits_for = error.message
                self._unknown_count = 0
                if isinstance(error, OffsetOutOfRangeError):
                    self._handle_out_of_range(error)
                else:
                    self._retry(error)
        return None

    def _receive(self) -> Any:
        if self._connection is None or self._connection.closed or not self._connection.busy:
            self._connection = self._leader()
            self._send_fetch()
        response = self._connection.receive()
        if response.error_code:
            raise error_for(response.error_code)
        for topic in response.responses:
            for data in topic.partitions:
                if data.error_code:
                    raise error_for(data.error_code, f"{self._wanted.tp}: {error_for(data.error_code)}")
                return data
        raise NetworkError(f"{self._connection.address} returned nothing for {self._wanted.tp}")

    def _leader(self) -> sockets.BrokerConnection:
        metadata, tp = self._brokers.metadata, self._wanted.tp
        if metadata.leader(*tp) < 0:
            self._brokers.refresh([tp.topic])
            if not self._exists():
                raise metadata.errors.get(tp.topic) or UnknownTopicOrPartitionError(f"{tp} does not exist")
            if metadata.leader(*tp) < 0:
                raise LeaderNotAvailableError(f"{tp} has no leader")
        known = metadata.topic_id(tp.topic)
        if NIL_UUID not in (known, self._wanted.topic_id) and known != self._wanted.topic_id:
            raise UnknownTopicIdError(f"topic {tp.topic!r} now has the id {uuid_text(known)}")
        return self._brokers.connection_to(metadata.leader(*tp))

    def _exists(self) -> bool:
        """Whether the metadata has the partition, with or without a leader."""
        topic = self._brokers.metadata.topics.get(self._wanted.topic)
        return topic is not None and self._wanted.partition < len(topic.partitions)

    def _send_fetch(self) -> None:
        assert self._connection is not None
        kafka, tp = self._options.kafka, self._wanted.tp
        topic_id = self._wanted.topic_id
        if topic_id == NIL_UUID:
            topic_id = self._brokers.metadata.topic_id(tp.topic)
        partition = FetchPartition(
            partition=tp.partition,
            current_leader_epoch=self._brokers.metadata.leader_epoch(*tp),
            fetch_offset=self.position,
            partition_max_bytes=kafka.partition_max_bytes,
        )
        request = FetchRequest(
            max_wait_ms=kafka.fetch_max_wait_ms,
            min_bytes=1,
            max_bytes=kafka.fetch_max_bytes,
            isolation_level=int(kafka.read_committed),
            topics=[FetchTopic(topic=tp.topic, topic_id=topic_id, partitions=[partition])],
        )
        self._connection.send(request, highest=_TOPIC_NAMES_VERSION_MAX if topic_id == NIL_UUID else None)

    def _process(self, data: Any) -> BatchTable | None:
        """The table of visible batches of a response, which may be empty; None if the response has no batch at all."""
        whole = read_table(data.records or b"")
        if self._options.kafka.check_crcs:
            whole.check_crcs()
        whole = whole[whole.last_offsets >= self.position]
        if not len(whole):
            self._handle_empty_response(data)
            return None
        self._empty_responses = 0
        visible = visible_batches(whole, data.aborted_transactions if self._options.kafka.read_committed else ())
        self.position = int(whole.last_offsets[-1]) + 1
        if self.position < self._wanted.end:
            self._send_ahead()
        return whole[visible & (whole.base_offsets < self._wanted.end) & (whole.counts != 0)]

    def _send_ahead(self) -> None:
        """Sends the next request, so that the broker works meanwhile; if this fails, `_receive` sends it again."""
        try:
            self._send_fetch()
        except NetworkError as error:
            _logger.info("next fetch not sent: partition %s: %s", self._wanted.tp, error.message)

    def _handle_empty_response(self, data: Any) -> None:
        """Handles a response without records: pauses before the next request, or ends the range.

        A compacted topic may have no more records in the range, which then ends. Other topics have records there, even
        if the leader returns none while it waits for remote storage (KIP-405); after the timeout they count as lost.
        """
        end = data.last_stable_offset if self._options.kafka.read_committed else data.high_watermark
        self._empty_responses += 1
        self._waits_for = f"the log ends at offset {max(end, 0)}"
        is_long_enough = end >= self._wanted.end
        if is_long_enough:
            self._waits_for = "the leader returns no records"
            if self._empty_responses >= _EMPTY_RESPONSES_MAX and self._is_compacted():
                self.position = self._wanted.end
                return
        if not self._retries.timed_out:
            sockets.sleep(_EMPTY_PAUSE_S)
        else:
            self._lose(self._waits_for, self._wanted.end)

    def _is_compacted(self) -> bool:
        """Whether the topic is known to be compacted; False if the reader may not read the topic's configuration."""
        if self._compacts is None:
            try:
                self._compacts = "compact" in self._brokers.topic_config(self._wanted.topic, "cleanup.policy")
            except KafkaError as error:
                if error.retriable:
                    raise
                self._compacts = False
                _logger.info("cleanup policy unknown: topic %s: %s", self._wanted.topic, error.message)
        return self._compacts

    def _retry(self, error: KafkaError) -> None:
        if not error.retriable and not isinstance(error, FencedLeaderEpochError):
            raise error
        if self._connection is not None and self._connection.busy:
            self._connection.close()
        if self._retries.timed_out:
            raise type(error)(
                f"{self._wanted.tp}: Cannot fetch record for offset {self.position} in"
                f" {self._options.poll_timeout_s * 1000:.0f} milliseconds: {error.message}"
                " (kafkaConsumer.pollTimeoutMs)"
            ) from error
        self._retries.wait()
        try:
            self._brokers.refresh([self._wanted.topic])
        except (NetworkError, RequestTimedOutError) as unreachable:
            _logger.warning("metadata refresh failed: partition %s: %s", self._wanted.tp, unreachable.message)

    def _handle_unknown_topic(self, error: KafkaError) -> None:
        """Handles an unknown topic: it was deleted, or a broker's metadata is not up to date yet.

        The range is lost if the topic has another id, or does not exist in `fetchOffset.numRetries` + 1 responses in a
        row; otherwise the fetch is retried.
        """
        self._brokers.refresh([self._wanted.topic])
        known = self._brokers.metadata.topic_id(self._wanted.topic)
        fault = self._brokers.metadata.errors.get(self._wanted.topic, error)
        if known not in (NIL_UUID, self._wanted.topic_id) and self._wanted.topic_id != NIL_UUID:
            self._lose("the topic was deleted and created again", self._wanted.end)
        elif self._exists() or not isinstance(fault, (UnknownTopicOrPartitionError, UnknownTopicIdError)):
            self._unknown_count = 0
            self._retry(fault)
        elif self._unknown_count >= self._options.retries:
            self._lose(f"the topic or partition does not exist: {error.message}", self._wanted.end)
        else:
            self._unknown_count += 1
            sockets.sleep(self._options.retry_interval_s)

    def _handle_out_of_range(self, error: KafkaError) -> None:
        tp, committed = self._wanted.tp, self._options.kafka.read_committed
        start = self._brokers.list_offsets({tp: EARLIEST})[tp]
        end = self._brokers.list_offsets({tp: LATEST}, read_committed=committed)[tp]
        if start > self.position:
            self._lose(f"the log begins at offset {start}", min(start, self._wanted.end))
        elif end < self.position or self._retries.timed_out:
            self._lose(f"the log ends at offset {end}", self._wanted.end)
        else:
            self._retry(error if error.retriable else NetworkError(error.message))

    def _lose(self, reason: str, continue_at: int) -> None:
        loss = DataLoss(
            f"Could not read records in offset [{self.position}, {self._wanted.end}) for topic partition"
            f" {self._wanted.tp}: {reason}."
        )
        if self._options.fail_on_data_loss:
            raise loss
        _logger.warning("%s Continuing at offset %d because failOnDataLoss is false.", loss.reason, continue_at)
        self.position = self.floor = continue_at


class _RetryTimer:
    """The timeout of a wait, and exponential backoff between retries."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self.reset()

    def reset(self) -> None:
        """Starts the timeout and the backoff anew, when a wait begins."""
        self._deadline = sockets.now_s() + self._timeout_s
        self.count = 0

    @property
    def timed_out(self) -> bool:
        return sockets.now_s() >= self._deadline

    def wait(self) -> None:
        """Sleeps, twice as long each time, for at most 1 s."""
        sockets.sleep(min(0.05 * 2**self.count, 1.0))
        self.count += 1

