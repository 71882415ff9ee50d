"""`ProducerStates`: the producers of a partition: sequence numbers to detect duplicates, open transactions (KIP-98).

Kafka's `ProducerStateManager` and `ProducerAppendInfo`, without files: `check` validates a batch before it is appended,
`apply` updates the state after an append (also in recovery and on followers), and `encode_snapshot` and `load_snapshot`
convert to and from the content of a `.snapshot` file::

    version: int16 = 1   crc: uint32 (CRC-32C of what follows)   count: int32   then for each producer
    producer id: int64   epoch: int16   last sequence: int32   last offset: int64   offset delta: int32
    timestamp: int64     coordinator epoch: int32   first offset of the open transaction: int64 (-1: none)

A snapshot has the last batch of each producer; in memory there are up to five. So after a restart, before a batch is
rejected as out of order, older batches are read from the log before the snapshot's offset (`histories`).
"""

import struct
from collections.abc import Callable, Generator, Iterator
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

from crc32c import crc32c

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import error_for
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import CONTROL, TRANSACTIONAL, Batch
from minikafka.protocol.records.control import ControlType, parse_end_transaction
from minikafka.storage.segments.batch_scan import Header

PRODUCERS_AT_ONCE = 10_000
"""The number of producers that are looked at before other tasks run; about 3 ms."""
BATCHES_KEPT = 5
"""Batches per producer whose retries are detected. The maximum of max.in.flight.requests.per.connection."""
_SEQUENCE_MAX = (1 << 31) - 1
_SNAPSHOT_VERSION = 1
_HEAD = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")


class CorruptSnapshot(ValueError):
    """The content of a producer snapshot is invalid. The caller falls back to an older snapshot."""


class Origin(IntEnum):
    """The origin of an append, which determines the checks of its batches (Kafka's `AppendOrigin`)."""

    REPLICATION = 0
    COORDINATOR = 1
    CLIENT = 2


class BatchMetadata(NamedTuple):
    """One appended batch of a producer; `timestamp` is the largest timestamp of its records (ms)."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MAX

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


Histories = dict[tuple[int, int], list[BatchMetadata]]
"""The last batches of producers, by id and epoch, oldest first."""


class Duplicate(NamedTuple):
    """An earlier append of the same batch, with its offsets."""

    first_offset: int
    last_offset: int
    timestamp: int


class CompletedTransaction(NamedTuple):
    """A completed transaction, from its first record at `first_offset` to its marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class Producer:
    """The state of one producer.

    Attributes:
        transaction_first_offset: the first offset of the open transaction; -1 without an open transaction.
        batches: up to five last batches of the current epoch, oldest first.
        restored: whether the producer was loaded from a snapshot, so that the log may have earlier batches.
    """

    __slots__ = (
        "batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "restored",
        "transaction_first_offset",
    )  # fmt: skip

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = -1
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_first_offset = -1
        self.batches: list[BatchMetadata] = []
        self.restored = False

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else -1

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def find(self, first_sequence: int, last_sequence: int) -> Duplicate | None:
        """Returns the known batch with exactly these sequence numbers."""
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return Duplicate(batch.first_offset, batch.last_offset, batch.timestamp)
        return None

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.restored = False


class FrozenProducers:
    """The producers of a log at one offset, for a thread that encodes them while appends continue.

    Listing 100,000 producers takes half a millisecond, encoding them 60 ms. Before a producer changes, its encoded
    entry is kept. The thread reads a producer, then looks for a kept entry, which it prefers to what it has read.

    Attributes:
        states: the state to which the producers belong.
        end_offset: the offset before which all batches are included.
    """

    def __init__(self, states: "ProducerStates", end_offset: int) -> None:
        self.states = states
        self.end_offset = end_offset
        self._producers = list(states)
        self._kept: dict[Producer, bytes] = {}

    def keep(self, producer: Producer) -> None:
        """Keeps the present entry of a producer. Called before the producer changes."""
        if producer not in self._kept:
            self._kept[producer] = _entry(producer)

    def encode(self) -> bytes:
        """Returns the content of a `.snapshot` file, sorted by producer id."""
        parts = [len(self._producers).to_bytes(4, "big")]
        for producer in sorted(self._producers, key=_id_of):
            entry = _entry(producer)
            parts.append(self._kept.get(producer, entry))
        body = b"".join(parts)
        return struct.pack(">hI", _SNAPSHOT_VERSION, crc32c(body)) + body


class ProducerStates:
    """All producers of one log.

    Attributes:
        end_offset: the offset before which all batches are included in the state.
        histories: returns the batches before an offset in the log, by producer id and epoch, oldest first.
    """

    def __init__(self, topic_partition: TopicPartition) -> None:
        self._topic_partition = topic_partition
        self._producers: dict[int, Producer] = {}
        self._ongoing: dict[int, int] = {}  # First offset → producer id, ascending.
        self._unreplicated: dict[int, int] = {}  # First offset → offset of the marker.
        self._frozen: FrozenProducers | None = None
        self.end_offset = 0
        self.histories: Callable[[int], Histories] | None = None
        self._restored: Histories | None = None
        self._restored_offset = 0

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def check(
        self,
        batch: Batch,
        origin: Origin = Origin.CLIENT,
        *,
        offset: int = -1,
        transaction_version: int = 0,
    ) -> Duplicate | None:
        """Validates a batch before it is appended. `offset` is used in error messages only.

        Returns None if the batch may be appended, or the earlier batch if this is a retry of one of the last five.

        Raises KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE or, for a marker,
        TRANSACTION_COORDINATOR_FENCED.
        """
        producer = self._producers.get(batch.producer_id)
        if batch.attributes & CONTROL:
            known = producer or Producer(batch.producer_id)
            self._check_marker(known, batch, origin, offset, transaction_version)
            return None
        if producer is None:
            return None  # An unknown or expired producer may start at any sequence (KIP-360).
        if origin == Origin.CLIENT:
            if batch.producer_epoch == producer.epoch:
                if not _follows(producer.last_sequence, batch.base_sequence):
                    return self._duplicate(producer, batch, offset)
            else:
                self._check_epoch(producer, batch, offset)
                if batch.base_sequence != 0 and producer.epoch != -1:
                    raise self._out_of_order_epoch(producer, batch, offset)
        elif batch.producer_epoch < producer.epoch and origin != Origin.REPLICATION:
            self._check_epoch(producer, batch, offset)
        if producer.transaction_first_offset >= 0 and not batch.attributes & TRANSACTIONAL:
            text = f"Expected transactional write from producer {producer.producer_id} at offset {offset}"
            raise error_for(ErrorCode.INVALID_TXN_STATE, f"{text} in partition {self._name}")
        return None

    def find_duplicate(self, batch: Batch) -> Duplicate | None:
        """Returns the earlier batch if this is a retry of one of the last five. Makes no other check of `check`."""
        producer = self._producers.get(batch.producer_id)
        if producer is None or producer.epoch != batch.producer_epoch:
            return None
        return producer.find(batch.base_sequence, batch.last_sequence)

    def _duplicate(self, producer: Producer, batch: Batch, offset: int) -> Duplicate | None:
        first, last = batch.base_sequence, batch.last_sequence
        found = producer.find(first, last)
        if found is None and producer.restored and self.histories is not None:
            if self._restored is None:  # Read once for all producers: that takes a few ms.
                self._restored = self._needed(self.histories(self._restored_offset))
            before = producer.batches[0].last_offset if producer.batches else -1
            producer.restored = False
            known = self._restored.pop((producer.producer_id, producer.epoch), [])
            older = [one for one in known if one.last_offset < before]
            producer.batches[:0] = older[max(0, len(older) + len(producer.batches) - BATCHES_KEPT) :]
            found = producer.find(first, last)
        if found is None and producer.epoch != -1:
            text = f"Out of order sequence number for producer {producer.producer_id} at offset {offset} in"
            text += f" partition {self._name}: {first} (incoming seq. number), {producer.last_sequence}"
            raise error_for(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"{text} (current end sequence number)")
        return found

    def _check_epoch(self, producer: Producer, batch: Batch, offset: int) -> None:
        if batch.producer_epoch < producer.epoch:
            raise self._bad_epoch(producer, batch.producer_epoch, offset, "smaller than")

    def _bad_epoch(self, producer: Producer, epoch: int, offset: int, relation: str) -> Exception:
        text = f"Epoch of producer {producer.producer_id} at offset {offset} in {self._name} is {epoch},"
        text += f" which is {relation} the last seen epoch {producer.epoch}"
        return error_for(ErrorCode.INVALID_PRODUCER_EPOCH, text)

    def _out_of_order_epoch(self, producer: Producer, batch: Batch, offset: int) -> Exception:
        text = f"Invalid sequence number for new epoch of producer {producer.producer_id} at offset {offset}"
        text += f" in partition {self._name}: {batch.producer_epoch} (request epoch), {batch.base_sequence}"
        text += f" (seq. number), {producer.epoch} (current producer epoch)"
        return error_for(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, text)

    def _check_marker(
        self, producer: Producer, batch: Batch, origin: Origin, offset: int, transaction_version: int
    ) -> None:
        if origin == Origin.REPLICATION:
            return
        epoch = batch.producer_epoch
        if epoch < producer.epoch:
            raise self._bad_epoch(producer, epoch, offset, "smaller than")
        if transaction_version >= 2 and epoch == producer.epoch and producer.transaction_first_offset >= 0:
            raise self._bad_epoch(producer, epoch, offset, "not above")
        marker = parse_end_transaction(batch)
        if marker is not None and marker.coordinator_epoch < producer.coordinator_epoch:
            text = f"Invalid coordinator epoch for producerId {producer.producer_id} at offset {offset}"
            text += f" in partition {self._name}: {marker.coordinator_epoch} (zombie)"
            raise error_for(ErrorCode.TRANSACTION_COORDINATOR_FENCED, f"{text}, {producer.coordinator_epoch} (current)")

    @property
    def _name(self) -> str:
        return f"{self._topic_partition.topic}-{self._topic_partition.partition}"

    def apply(self, batch: Batch | Header, first_offset: int | None = None) -> CompletedTransaction | None:
        """Updates the state with an appended batch that has a producer id. For a control batch, a header is not enough.

        Returns the transaction that the batch ends, if any; the caller adds it to the transaction index and then calls
        `complete`. `first_offset` is by default the base offset of the batch.
        """
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            producer = Producer(batch.producer_id)
        if self._frozen is not None:
            self._frozen.keep(producer)
        first_offset = batch.base_offset if first_offset is None else first_offset
        if batch.attributes & CONTROL:
            assert isinstance(batch, Batch), "a control batch is needed, not only its header"
            return self._apply_marker(producer, batch, first_offset)
        self._producers[batch.producer_id] = producer
        producer.set_epoch(batch.producer_epoch)
        delta = batch.last_offset_delta
        sequence = batch.base_sequence
        last_sequence = (sequence + delta) & _SEQUENCE_MAX if sequence >= 0 else -1
        batches = producer.batches
        batches.append(BatchMetadata(last_sequence, first_offset + delta, delta, batch.max_timestamp))
        if len(batches) > BATCHES_KEPT:
            del batches[0]
            producer.restored = False
        producer.last_timestamp = batch.max_timestamp
        if batch.attributes & TRANSACTIONAL and producer.transaction_first_offset < 0:
            producer.transaction_first_offset = first_offset
            self._ongoing[first_offset] = batch.producer_id
        return None

    def _apply_marker(self, producer: Producer, batch: Batch, first_offset: int) -> CompletedTransaction | None:
        marker = parse_end_transaction(batch)
        if marker is None:  # The cleaner removed the marker after the whole transaction.
            return None
        self._producers[batch.producer_id] = producer
        producer.set_epoch(batch.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = batch.max_timestamp
        began, producer.transaction_first_offset = producer.transaction_first_offset, -1
        if began < 0:
            return None
        aborted = marker.type is ControlType.ABORT
        return CompletedTransaction(batch.producer_id, began, first_offset, aborted)

    def last_stable_offset(self, completed: CompletedTransaction) -> int:
        """Returns the last stable offset after this transaction, ignoring the high watermark."""
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        """Ends a transaction, which remains unstable until its marker is below the high watermark."""
        self._ongoing.pop(completed.first_offset, None)
        self._unreplicated[completed.first_offset] = completed.last_offset

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the first transaction that is open or whose marker is not yet replicated."""
        if not self._ongoing and not self._unreplicated:
            return None
        return min([*self._unreplicated, *islice(self._ongoing, 1)])

    @property
    def first_undecided_offset(self) -> int | None:
        """The first offset of the first open transaction."""
        return next(iter(self._ongoing), None)

    def high_watermark_advanced(self, high_watermark: int) -> None:
        """Called when the high watermark advanced: markers below it are replicated."""
        if self._unreplicated:
            kept = {first: last for first, last in self._unreplicated.items() if last >= high_watermark}
            self._unreplicated = kept

    def start_offset_advanced(self, start_offset: int) -> None:
        """Called when the log start offset advanced. Producers of deleted records remain until they expire."""
        self.high_watermark_advanced(start_offset)
        self.end_offset = max(self.end_offset, start_offset)

    def expire(self, expired_ms: int) -> Generator[None, None, None]:
        """Removes the producers without appends since `expired_ms` and without an open transaction.

        Other tasks may run at each `yield`, and append, truncate or replace the state.
        """
        for number, producer_id in enumerate(list(self._producers), 1):
            producer = self._producers.get(producer_id)
            if producer is not None and _is_expired(producer, expired_ms):
                del self._producers[producer_id]
            if number % PRODUCERS_AT_ONCE == 0:
                yield
        if self._restored:
            self._restored = self._needed(self._restored)

    def _needed(self, histories: Histories) -> Histories:
        """The histories of the producers that may still retry a batch from before their snapshot."""
        known = self._producers
        restored = {(key, known[key].epoch) for key, _ in histories if key in known and known[key].restored}
        return {key: batches for key, batches in histories.items() if key in restored}

    def clear(self, end_offset: int) -> None:
        """Removes all producers and sets `end_offset`."""
        self._producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.end_offset = end_offset

    def freeze(self) -> FrozenProducers:
        """Returns the present state. The state that an earlier call returned must not be used any more."""
        self._frozen = FrozenProducers(self, self.end_offset)
        return self._frozen

    def thaw(self) -> None:
        """Ends the use of the state that `freeze` has returned."""
        self._frozen = None

    def encode_snapshot(self) -> bytes:
        """Returns the content of a `.snapshot` file, sorted by producer id."""
        return FrozenProducers(self, self.end_offset).encode()

    def load_snapshot(self, data: bytes, end_offset: int, expired_ms: int) -> None:
        """Replaces the state by a snapshot taken at `end_offset`, without expired producers.

        Raises CorruptSnapshot, and leaves the state unchanged then.
        """
        producers = [producer for producer in _decode(data) if not _is_expired(producer, expired_ms)]
        self.clear(end_offset)
        self._producers = {producer.producer_id: producer for producer in producers}
        open_ones = [(one.transaction_first_offset, one.producer_id) for one in producers]
        self._ongoing = dict(sorted(one for one in open_ones if one[0] >= 0))
        self._restored, self._restored_offset = None, end_offset


def _is_expired(producer: Producer, expired_ms: int) -> bool:
    return producer.transaction_first_offset < 0 and producer.last_timestamp <= expired_ms


def _id_of(producer: Producer) -> int:
    return producer.producer_id


def _entry(producer: Producer) -> bytes:
    """Encodes a producer. Reads `batches` only once, since the event loop may change the list meanwhile."""
    last = (producer.batches[-1:] or [BatchMetadata(-1, -1, 0, -1)])[0]
    return _ENTRY.pack(
        producer.producer_id, producer.epoch, last.last_sequence, last.last_offset, last.offset_delta,
        producer.last_timestamp, producer.coordinator_epoch, producer.transaction_first_offset,
    )  # fmt: skip


def _follows(last_sequence: int, sequence: int) -> bool:
    return sequence == last_sequence + 1 or (sequence == 0 and last_sequence == _SEQUENCE_MAX)


def _decode(data: bytes) -> list[Producer]:
    if len(data) < _HEAD.size:
        raise CorruptSnapshot(f"producer snapshot too short: {len(data)} bytes")
    version, crc, count = _HEAD.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"unsupported producer snapshot version {version}")
    if crc32c(memoryview(data)[6:]) != crc:
        raise CorruptSnapshot("invalid checksum of a producer snapshot")
    if count < 0 or len(data) < _HEAD.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"producer snapshot too short for {count} producers: {len(data)} bytes")
    at = memoryview(data)[_HEAD.size : _HEAD.size + count * _ENTRY.size]
    return [_producer(*fields) for fields in _ENTRY.iter_unpack(at)]


def _producer(
    producer_id: int, epoch: int, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int,
    coordinator_epoch: int, transaction_first_offset: int,
) -> Producer:  # fmt: skip
    producer = Producer(producer_id)
    producer.epoch = epoch
    producer.coordinator_epoch = coordinator_epoch
    producer.last_timestamp = timestamp
    producer.transaction_first_offset = max(transaction_first_offset, -1)
    producer.restored = True
    if last_offset >= 0:
        producer.batches.append(BatchMetadata(last_sequence, last_offset, offset_delta, timestamp))
    return producer
