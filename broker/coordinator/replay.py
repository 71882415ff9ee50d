"""Replays the log of a coordinator's partition into the state of its shard, in steps. Pure.

A log may have very many batches of one record, or batches of very many records. The cost of batches and of records is
counted together to decide when to pause, and large batches are decoded in slices. If only the last record of a key
counts, as after compaction, a record that is replaced by a later record of the same read is neither decoded nor
applied.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, Protocol

from minikafka.protocol.records.batch import Batch, batches
from minikafka.protocol.records.compression import MAX_SIZE_BYTES
from minikafka.protocol.records.control import ControlType, parse_end_transaction
from minikafka.protocol.records.large_batch import LargeBatch
from minikafka.protocol.records.record import Record
from minikafka.storage.steps import Pauses

NO_PRODUCER = -1
WORK_AT_ONCE = 2048
"""Units of work between two pauses, about 5 ms. Each record that is read counts as one unit."""
BATCH_WORK = APPLY_WORK = 4
"""Units of work for each batch, and for each record that is applied."""
VALUE_BYTES = 16
"""Bytes of an applied value that count as one more unit of work: a value may list the partitions of a transaction."""
SLICE_RECORDS = 512
"""The largest number of records of a batch that are decoded at a time."""

LastRecords = dict[bytes, tuple[bytes | None, int]]
"""The last value of each key, and the record's offset, in the order of the offsets."""


class ReplayedState(Protocol):
    """The operations of a shard's state that replay needs. `runtime.CoordinatorState` has all operations."""

    @property
    def last_record_counts(self) -> bool:
        """Whether a record outside transactions replaces all earlier ones of its key."""
        ...

    def decode(self, key: bytes, value: bytes | None) -> tuple[Any, Any | None] | None:
        """Decode a record; None for an unknown type, which is skipped. Raises MalformedMessage."""
        ...

    def apply(self, key: Any, value: Any | None, record_offset: int, producer_id: int) -> None:
        """Apply a record of the log; `producer_id` is -1 outside transactions."""
        ...

    def end_transaction(self, producer_id: int, *, committed: bool) -> Generator[None, None, None]:
        """Apply a transaction marker of the log in steps. Other records may be applied between two steps."""
        ...


def replay(state: ReplayedState, data: bytes | memoryview, from_offset: int) -> Generator[None, None, int]:
    """Apply the records of the whole batches in `data`, from `from_offset` on. Yields where other tasks should run.

    Returns:
        The offset after the last batch; `from_offset` if there is none.

    Raises:
        CorruptRecords, MalformedMessage: The log is damaged.
    """
    read_to = from_offset
    last: LastRecords = {}
    pauses = Pauses(WORK_AT_ONCE)
    for batch in batches(data):
        if batch.next_offset <= read_to:
            continue
        read_to = batch.next_offset
        if batch.is_control or batch.is_transactional or not state.last_record_counts:
            yield from _apply_last(state, last, pauses)
            yield from _apply(state, batch, from_offset, pauses)
        else:
            yield from _read(batch, from_offset, last, pauses)
        if pauses.is_due(items=BATCH_WORK):
            yield
    yield from _apply_last(state, last, pauses)
    return read_to


def _slices(batch: Batch) -> Iterator[list[Record]]:
    """The records, up to `SLICE_RECORDS` at a time."""
    if batch.record_count <= SLICE_RECORDS:
        yield batch.records()
        return
    large = LargeBatch(batch, MAX_SIZE_BYTES, SLICE_RECORDS)
    while large.has_records:
        yield large.cut().records()


def _read(batch: Batch, from_offset: int, last: LastRecords, pauses: Pauses) -> Generator[None, None, None]:
    for records in _slices(batch):
        for record in records:
            if record.key is not None and record.offset >= from_offset:
                last.pop(record.key, None)
                last[record.key] = record.value, record.offset
        if pauses.is_due(items=len(records)):
            yield


def _apply_last(state: ReplayedState, last: LastRecords, pauses: Pauses) -> Generator[None, None, None]:
    for key, (value, offset) in last.items():
        known = state.decode(key, value)
        if known is not None:
            state.apply(*known, offset, NO_PRODUCER)
        if pauses.is_due(items=_apply_work(value)):
            yield
    last.clear()


def _apply(state: ReplayedState, batch: Batch, from_offset: int, pauses: Pauses) -> Generator[None, None, None]:
    if batch.is_control:
        marker = parse_end_transaction(batch)
        if marker is not None:
            yield from state.end_transaction(batch.producer_id, committed=marker.type is ControlType.COMMIT)
        return
    producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER
    for records in _slices(batch):
        for record in records:
            known = None if record.key is None else state.decode(record.key, record.value)
            if known is not None and record.offset >= from_offset:
                state.apply(*known, record.offset, producer_id)
            if pauses.is_due(items=1 + _apply_work(record.value)):
                yield


def _apply_work(value: bytes | None) -> int:
    return APPLY_WORK + len(value or b"") // VALUE_BYTES
