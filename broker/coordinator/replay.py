"""Replays the log of a coordinator's partition into the state of its shard, in steps. Pure.

A log may have very many batches of one record, or batches of very many records. The cost of batches and of records is
counted together to decide when to pause, and large batches are decoded in slices. If only the last record of a key
counts, as after compaction, a record that is replaced by a later record of the same read is neither decoded nor
applied.

A record that cannot be read is skipped, and what the log said before of its key still counts: whoever may write to an
internal topic could otherwise stop the coordinator of a partition with one record (DECISIONS.md, 78).
"""

from __future__ import annotations

from collections.abc import Generator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol

from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.records.batch import Batch, batches
from minikafka.protocol.records.control import ControlType, parse_end_transaction
from minikafka.protocol.records.large_batch import record_slices
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

LastRecords = dict[bytes, Record]
"""The last record of each key, in the order of the offsets."""


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


@dataclass(slots=True)
class SkippedRecords:
    """The records of a log that were skipped, since they cannot be read.

    Attributes:
        count: Their number. Of those that a later record of their key replaces, only some are counted.
        offset: The offset of the first one that was met; -1 if there is none.
        reason: Why that one cannot be read.
    """

    count: int = 0
    offset: int = -1
    reason: str = ""

    def add(self, offset: int, reason: str) -> None:
        """Count a record."""
        if not self.count:
            self.offset, self.reason = offset, reason
        self.count += 1


def replay(
    state: ReplayedState, data: bytes | memoryview, from_offset: int, skipped: SkippedRecords
) -> Generator[None, None, int]:
    """Apply the records of the whole batches in `data`, from `from_offset` on. Yields where other tasks should run.

    Args:
        skipped: Gets the records that cannot be read.

    Returns:
        The offset after the last batch; `from_offset` if there is none.

    Raises:
        CorruptRecords: The log is damaged, such as a batch whose checksum is wrong.
    """
    read_to = from_offset
    replayed = _Replay(state, from_offset, skipped)
    for batch in batches(data):
        if batch.next_offset <= read_to:
            continue
        batch.check_crc()  # A wrong offset in a record can be decoded as well as the right one.
        read_to = batch.next_offset
        if batch.is_control or batch.is_transactional or not state.last_record_counts:
            yield from replayed.apply_last()
            yield from replayed.apply(batch)
        else:
            yield from replayed.read(batch)
        if replayed.pauses.is_due(items=BATCH_WORK):
            yield
    yield from replayed.apply_last()
    return read_to


class _Replay:
    """The replay of one read of the log.

    Attributes:
        last: The last record of each key that is read and not applied yet.
        batches: The batches in which these records are, and those that they replace.
    """

    def __init__(self, state: ReplayedState, from_offset: int, skipped: SkippedRecords) -> None:
        self.state = state
        self.from_offset = from_offset
        self.skipped = skipped
        self.pauses = Pauses(WORK_AT_ONCE)
        self.last: LastRecords = {}
        self.batches: list[Batch] = []

    def read(self, batch: Batch) -> Generator[None, None, None]:
        """Read a batch of which the last record of each key counts."""
        self.batches.append(batch)
        for records in record_slices(batch, SLICE_RECORDS):
            for record in records:
                if record.key is not None and record.offset >= self.from_offset:
                    self.last.pop(record.key, None)
                    self.last[record.key] = record
            if self.pauses.is_due(items=len(records)):
                yield

    def apply_last(self) -> Generator[None, None, None]:
        """Apply what was read. A record that cannot be read replaces none: the last readable one of its key counts."""
        unreadable: set[bytes] = set()
        for key, record in self.last.items():
            if not self._apply(record, NO_PRODUCER):
                unreadable.add(key)
            if self.pauses.is_due(items=_apply_work(record.value)):
                yield
        if unreadable:
            for record in (yield from self._last_readable(unreadable)).values():
                self._apply(record, NO_PRODUCER)
                if self.pauses.is_due(items=_apply_work(record.value)):
                    yield
        self.last.clear()
        self.batches.clear()

    def apply(self, batch: Batch) -> Generator[None, None, None]:
        """Apply a batch of which every record counts, or a transaction marker."""
        if batch.is_control:
            marker = parse_end_transaction(batch)
            if marker is not None:
                committed = marker.type is ControlType.COMMIT
                yield from self.state.end_transaction(batch.producer_id, committed=committed)
            return
        producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER
        for records in record_slices(batch, SLICE_RECORDS):
            for record in records:
                if record.offset >= self.from_offset:
                    self._apply(record, producer_id)
                if self.pauses.is_due(items=1 + _apply_work(record.value)):
                    yield

    def _apply(self, record: Record, producer_id: int) -> bool:
        """Apply a record; False if it was skipped, since it cannot be read."""
        if record.key is None:
            return True
        try:
            known = self.state.decode(record.key, record.value)
        except MalformedMessage as error:
            self.skipped.add(record.offset, str(error))
            return False
        if known is not None:
            self.state.apply(*known, record.offset, producer_id)
        return True

    def _last_readable(self, keys: AbstractSet[bytes]) -> Generator[None, None, LastRecords]:
        """Read the batches again, for the last readable record of each key, in the order of the offsets."""
        readable: LastRecords = {}
        for records in (records for batch in self.batches for records in record_slices(batch, SLICE_RECORDS)):
            for record in records:
                if record.key is None or record.key not in keys or record.offset < self.from_offset:
                    continue
                if self._is_readable(record):
                    readable.pop(record.key, None)
                    readable[record.key] = record
                if self.pauses.is_due(items=_apply_work(record.value)):
                    yield
            if self.pauses.is_due(items=len(records)):
                yield
        return readable

    def _is_readable(self, record: Record) -> bool:
        try:
            self.state.decode(record.key or b"", record.value)
        except MalformedMessage:
            return False
        return True


def _apply_work(value: bytes | None) -> int:
    return APPLY_WORK + len(value or b"") // VALUE_BYTES
