"""Replays the log of a coordinator's partition into the state of its shard, in steps. Pure.

Where only the last record of a key counts, as after compaction, a record that a later one of the same read replaces is
neither decoded nor applied.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from minikafka.protocol.records.batch import Batch, batches
from minikafka.protocol.records.control import ControlType, parse_end_transaction

NO_PRODUCER = -1
RECORDS_AT_ONCE = 512
"""Records that are decoded and applied between two pauses: 5 ms."""
READ_AT_ONCE = 4096
"""Records that are read between two pauses."""

LastRecords = dict[bytes, tuple[bytes | None, int]]
"""The last value of each key, and the record's offset, in the order of the offsets."""


class ReplayedState(Protocol):
    """The state of a shard; see `runtime.CoordinatorState`."""

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

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply a transaction marker of the log."""
        ...


def replay(state: ReplayedState, data: bytes | memoryview, from_offset: int) -> Generator[None, None, int]:
    """Apply the records of whole batches from an offset on. Yields where other tasks should run.

    Returns:
        The offset after the last batch; `from_offset` if there is none.

    Raises:
        CorruptRecords, MalformedMessage: The log is damaged.
    """
    read_to = from_offset
    last: LastRecords = {}
    read = 0
    for batch in batches(data):
        if batch.next_offset <= read_to:
            continue
        read_to = batch.next_offset
        read += max(batch.record_count, 1)
        if batch.is_control or batch.is_transactional or not state.last_record_counts:
            yield from _apply_last(state, last)
            yield from _apply(state, batch, from_offset)
        else:
            _read(batch, from_offset, last)
        if read > READ_AT_ONCE:
            read = 0
            yield
    yield from _apply_last(state, last)
    return read_to


def _read(batch: Batch, from_offset: int, last: LastRecords) -> None:
    for record in batch.records():
        if record.key is not None and record.offset >= from_offset:
            last.pop(record.key, None)
            last[record.key] = record.value, record.offset


def _apply_last(state: ReplayedState, last: LastRecords) -> Generator[None, None, None]:
    for number, (key, (value, offset)) in enumerate(last.items(), 1):
        known = state.decode(key, value)
        if known is not None:
            state.apply(*known, offset, NO_PRODUCER)
        if number % RECORDS_AT_ONCE == 0:
            yield
    last.clear()


def _apply(state: ReplayedState, batch: Batch, from_offset: int) -> Generator[None, None, None]:
    if batch.is_control:
        marker = parse_end_transaction(batch)
        if marker is not None:
            state.end_transaction(batch.producer_id, committed=marker.type is ControlType.COMMIT)
        return
    producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER
    for number, record in enumerate(batch.records(), 1):
        known = None if record.key is None else state.decode(record.key, record.value)
        if known is not None and record.offset >= from_offset:
            state.apply(*known, record.offset, producer_id)
        if number % RECORDS_AT_ONCE == 0:
            yield
