"""A range of offsets, read: what runs in Spark's executors.

`read` asks the leader for batches from where it stands, finds out from their headers alone where it will stand next,
sends the next request, and only then decodes what it has: the broker works meanwhile. It stands behind what a batch's
header says is the batch's last offset, so that control batches, aborted transactions and offsets that compaction took
away move it on like any other, and it stops where its range ends, be there a record or not.
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
    NetworkError,
    OffsetOutOfRangeError,
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
from minikafka.spark_connector import sockets
from minikafka.spark_connector.data_loss import DataLoss
from minikafka.spark_connector.offset_reader import EARLIEST, LATEST, Cluster, cluster_for
from minikafka.spark_connector.options import SourceOptions
from minikafka.spark_connector.range_planner import Range

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MAX = 20_000
BYTES_MAX = 8 << 20
"""A record batch for Spark: larger ones make it slower, not faster."""
COMPRESSED_BYTES_MAX = 1 << 20
_FETCH_BY_NAME = 12
_EMPTY_ANSWERS_MAX = 2
_logger = logging.getLogger(__name__)


def read(options: SourceOptions, wanted: Range, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The records of a range that are committed (unless it is to be otherwise), in order, columns as asked for.

    Raises DataLoss where offsets of the range are not there any more (a warning, for `failOnDataLoss` false),
    CorruptRecords for damaged batches, KafkaError where no leader can be asked within `kafkaConsumer.pollTimeoutMs`.
    """
    reading = _Reading(options, wanted)
    for visible in reading.answers():
        for records in (one for group in _groups(visible) for one in decoded(group, columns)):
            low, high = np.searchsorted(records.offsets, (reading.floor, wanted.end))
            if high > low:
                batch = record_batch(records, wanted.topic, wanted.partition, columns)
                yield from _slices(batch, int(low), int(high))


def decoded(group: BatchTable, columns: Sequence[str]) -> Iterator[Decoded]:
    """The records of a group: together, or of one half after the other where they are more than expected."""
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
    """Batches that are decoded together: many small ones, or one large."""
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
    """Which batches hold records for the user: no control batches, nothing of transactions that were aborted.

    `aborted` are the transactions that the answer names (none for read_uncommitted); each ends with its marker.
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


class _Reading:
    """Where a range stands.

    Attributes:
        position: the offset that is wanted next.
        floor: the first offset that is wanted at all; a batch may begin with earlier ones.
    """

    def __init__(self, options: SourceOptions, wanted: Range) -> None:
        self.position = self.floor = wanted.start
        self._options = options
        self._wanted = wanted
        self._cluster: Cluster = cluster_for(options.kafka)
        self._patience = _Patience(options.poll_timeout_s)
        self._wire: sockets.Wire | None = None
        self._empty = 0

    def answers(self) -> Iterator[BatchTable]:
        """Answer by answer, the batches that the user may see."""
        try:
            while self.position < self._wanted.end:
                try:
                    data = self._answer()
                    yield from self._take(data)
                except (UnknownTopicOrPartitionError, UnknownTopicIdError) as error:
                    self._gone(error)
                except OffsetOutOfRangeError as error:
                    self._out_of_range(error)
                except KafkaError as error:
                    self._again(error)
        finally:
            if self._wire is not None and self._wire.busy:
                self._wire.close()

    def _answer(self) -> Any:
        if self._wire is None or self._wire.closed or not self._wire.busy:
            self._wire = self._leader()
            self._ask()
        response = self._wire.receive()
        if response.error_code:
            raise error_for(response.error_code)
        for topic in response.responses:
            for data in topic.partitions:
                if data.error_code:
                    raise error_for(data.error_code, f"{self._wanted.tp}: {error_for(data.error_code)}")
                return data
        return None

    def _leader(self) -> sockets.Wire:
        metadata, tp = self._cluster.metadata, self._wanted.tp
        if metadata.leader(*tp) < 0:
            self._cluster.refresh([tp.topic])
            if metadata.topics.get(tp.topic) is None or metadata.leader(*tp) < 0:
                fault = metadata.errors.get(tp.topic)
                raise fault or UnknownTopicOrPartitionError(f"{tp} does not exist, or has no leader")
        known = metadata.topic_id(tp.topic)
        if NIL_UUID not in (known, self._wanted.topic_id) and known != self._wanted.topic_id:
            raise UnknownTopicIdError(f"topic {tp.topic!r} has the id {uuid_text(known)} now")
        return self._cluster.wire_to(metadata.leader(*tp))

    def _ask(self) -> None:
        assert self._wire is not None
        kafka, tp = self._options.kafka, self._wanted.tp
        topic_id = self._wanted.topic_id
        if topic_id == NIL_UUID:
            topic_id = self._cluster.metadata.topic_id(tp.topic)
        partition = FetchPartition(
            partition=tp.partition,
            current_leader_epoch=self._cluster.metadata.leader_epoch(*tp),
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
        self._wire.send(request, highest=_FETCH_BY_NAME if topic_id == NIL_UUID else None)

    def _take(self, data: Any) -> Iterator[BatchTable]:
        whole = read_table(data.records if data is not None and data.records else b"")
        if self._options.kafka.check_crcs:
            whole.check_crcs()
        whole = whole[whole.last_offsets >= self.position]
        if not len(whole):
            self._nothing(data)
            return
        self._empty = 0
        self._patience.renew()
        visible = visible_batches(whole, data.aborted_transactions if self._options.kafka.read_committed else ())
        self.position = int(whole.last_offsets[-1]) + 1
        if self.position < self._wanted.end:
            self._ask()
        yield whole[visible & (whole.base_offsets < self._wanted.end) & (whole.counts != 0)]

    def _nothing(self, data: Any) -> None:
        """An empty answer: compaction may have left nothing up to the end of the log; else more has to come."""
        end = -1
        if data is not None:
            end = data.last_stable_offset if self._options.kafka.read_committed else data.high_watermark
        self._empty += 1
        if end >= self._wanted.end and self._empty >= _EMPTY_ANSWERS_MAX:
            self.position = self._wanted.end
        elif self._patience.is_over:
            self._lose(f"the log ends at offset {max(end, 0)}", self._wanted.end)

    def _again(self, error: KafkaError) -> None:
        if not error.retriable and not isinstance(error, FencedLeaderEpochError):
            raise error
        if self._wire is not None and self._wire.busy:
            self._wire.close()
        if self._patience.is_over:
            raise type(error)(
                f"{self._wanted.tp}: Cannot fetch record for offset {self.position} in"
                f" {self._options.poll_timeout_s * 1000:.0f} milliseconds: {error.message}"
                " (kafkaConsumer.pollTimeoutMs)"
            ) from error
        self._patience.wait()
        try:
            self._cluster.refresh([self._wanted.topic])
        except NetworkError as unreachable:
            _logger.warning("%s: %s", self._wanted.tp, unreachable.message)

    def _gone(self, error: KafkaError) -> None:
        """A topic that is unknown may be one that this broker has not heard of yet; or it was deleted."""
        self._cluster.refresh([self._wanted.topic])
        known = self._cluster.metadata.topic_id(self._wanted.topic)
        if known not in (NIL_UUID, self._wanted.topic_id) and self._wanted.topic_id != NIL_UUID:
            self._lose("the topic was deleted and created again since", self._wanted.end)
        elif self._patience.count >= self._options.retries:
            self._lose(f"the topic or partition is gone: {error.message}", self._wanted.end)
        else:
            self._patience.wait()

    def _out_of_range(self, error: KafkaError) -> None:
        tp, committed = self._wanted.tp, self._options.kafka.read_committed
        start = self._cluster.list_offsets({tp: EARLIEST})[tp]
        end = self._cluster.list_offsets({tp: LATEST}, read_committed=committed)[tp]
        if start > self.position:
            self._lose(f"the log begins at offset {start}", min(start, self._wanted.end))
        elif end < self.position or self._patience.is_over:
            self._lose(f"the log ends at offset {end}", self._wanted.end)
        else:
            self._again(error if error.retriable else NetworkError(error.message))

    def _lose(self, why: str, go_on_at: int) -> None:
        loss = DataLoss(
            f"Could not read records in offset [{self.position}, {self._wanted.end}) for topic partition"
            f" {self._wanted.tp}: {why}."
        )
        if self._options.fail_on_data_loss:
            raise loss
        _logger.warning("%s Going on at offset %d, as failOnDataLoss is false.", loss.reason, go_on_at)
        self.position = self.floor = go_on_at


class _Patience:
    """How long it may go on without success, and growing pauses."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self.renew()

    def renew(self) -> None:
        """Something came."""
        self._deadline = sockets.now_s() + self._timeout_s
        self.count = 0

    @property
    def is_over(self) -> bool:
        return sockets.now_s() >= self._deadline

    def wait(self) -> None:
        """A little longer each time."""
        sockets.pause(min(0.05 * 2**self.count, 1.0))
        self.count += 1

