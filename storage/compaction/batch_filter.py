"""`BatchFilter`: decides which records of each batch the cleaner keeps, and how long tombstones. Pure.

A record stays if no later record has the same key. A tombstone stays until its delete horizon has passed (KIP-534). The
first cleaning that finds a tombstone, or a marker of a transaction without other batches, sets the horizon of the batch
to `delete.retention.ms` from now, so that each consumer has this time to see the tombstone or the marker.

A batch keeps its base offset and its last offset, and so the sequence numbers of its producer. A batch without any
remaining record stays as an empty batch if it is the last batch of its producer, or the last of the cleaned range.

Source: Kafka's `Cleaner.cleanInto`, `MemoryRecords.filterTo`.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import NamedTuple

from minikafka.protocol.records.batch import (
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    Batch,
    Span,
    assemble_parts,
    encode_batch,
    with_codec,
)
from minikafka.protocol.records.compression import Buffer, Codec
from minikafka.protocol.records.record import Record
from minikafka.storage.compaction.cleaned_transactions import CleanedTransactions
from minikafka.storage.compaction.keyed_records import KeyedRecords, read_keyed_records
from minikafka.storage.compaction.offset_map import OffsetMap

_TIMESTAMP_MAX = (1 << 63) - 1
_NEVER = 1 << 63
"""An offset beyond each offset of a log. A record without a key counts as replaced at this offset: it is removed."""


class LastRecord(NamedTuple):
    """The last batch of a producer: the offset of its last record (-1 without a record), and the producer epoch."""

    last_offset: int
    epoch: int


class Kept(NamedTuple):
    """A batch that is written to the cleaned segment."""

    data: Buffer
    last_offset: int
    max_timestamp: int


@dataclass(frozen=True, slots=True)
class FilterRules:
    """The rules of one cleaning.

    Attributes:
        upper_bound: the offset at which the cleaned range ends.
        producers: the last record of each producer of the log, by producer id.
        now_ms: the time of the cleaning.
        delete_retention_ms: `delete.retention.ms`.
    """

    upper_bound: int
    producers: Mapping[int, LastRecord]
    now_ms: int
    delete_retention_ms: int


class BatchFilter:
    """Filters the batches of a log, in order. All methods raise CorruptRecords.

    Args:
        offsets: the last offset of each key of the dirty part; finished (`OffsetMap.finish`).
        first_dirty_offset: the offset at which the dirty part begins.
        transactions: tells which transactional data and markers may be removed.
    """

    def __init__(
        self, rules: FilterRules, offsets: OffsetMap, first_dirty_offset: int, transactions: CleanedTransactions
    ) -> None:
        self._rules = rules
        self._offsets = offsets
        self._first_dirty = first_dirty_offset
        self._transactions = transactions

    def filter(self, batches: Sequence[Batch]) -> Iterator[Kept]:
        """Yields the batches to write. Their checksums must have been checked: changed batches get new checksums."""
        dirty = bisect_left(batches, self._first_dirty, key=lambda batch: batch.base_offset)
        for part in (batches[:dirty], batches[dirty:]):
            if part:
                yield from self._filter(part, dirty=part[0].base_offset >= self._first_dirty)

    def _filter(self, batches: Sequence[Batch], *, dirty: bool) -> Iterator[Kept]:
        discarded = [self._transactions.may_discard(batch) for batch in batches]
        read = [
            not (batch.is_control or discard) and self._may_keep(batch, dirty=dirty)
            for batch, discard in zip(batches, discarded, strict=True)
        ]
        examined = list(compress(batches, read))
        records = read_keyed_records(examined, with_digests=not dirty) if examined else None
        keep = self._not_replaced(examined, records, dirty=dirty) if records is not None else []
        number = 0
        for batch, discard, is_read in zip(batches, discarded, read, strict=True):
            kept: Kept | None = None
            if batch.is_control:
                kept = self._control(batch, can_discard=discard)
            elif is_read and records is not None:
                kept = self._data(batch, records, keep[number], records.firsts[number], records.firsts[number + 1])
                number += 1
            if kept is None and self._stays_empty(batch):
                kept = _kept(batch, _empty(batch))
            if kept is not None:
                yield kept

    def _may_keep(self, batch: Batch, *, dirty: bool) -> bool:
        """Whether a batch of data may have a record that stays, judged by its header only."""
        if not dirty or batch.last_offset > self._offsets.latest_offset:
            return batch.record_count > 0
        return len(self._offsets.offsets_between(batch.base_offset, batch.last_offset)) > 0

    def _not_replaced(self, batches: Sequence[Batch], records: KeyedRecords, *, dirty: bool) -> list[list[int]]:
        """The indexes of the records of each batch without a later record of the same key."""
        offsets, known_offset = records.offsets, self._offsets.latest_offset
        if dirty:
            latest: set[int] = set()
            for batch in batches:
                latest.update(self._offsets.offsets_between(batch.base_offset, batch.last_offset))
            return [
                [index for index in range(first, last) if offsets[index] in latest or offsets[index] > known_offset]
                for first, last in pairwise(records.firsts)
            ]
        replaced_from = self._offsets.latest(records.digests)
        for index in records.keyless:
            replaced_from[index] = _NEVER
        return [
            [
                index
                for index in range(first, last)
                if offsets[index] >= replaced_from[index] or offsets[index] > known_offset
            ]
            for first, last in pairwise(records.firsts)
        ]

    def _control(self, batch: Batch, *, can_discard: bool) -> Kept | None:
        """The batch to write for a transaction marker; None if the marker is removed.

        When no other batch of its transaction is left, a marker gets a delete horizon, and stays until the horizon.
        """
        if not batch.record_count or (can_discard and self._horizon_has_passed(batch)):
            return None
        horizon_ms = self._new_horizon_ms
        if can_discard and not batch.has_delete_horizon and horizon_ms is not None:
            return self._with_horizon(batch, batch.records(), horizon_ms)
        return _kept(batch, batch.data)

    def _data(self, batch: Batch, records: KeyedRecords, keep: list[int], first: int, last: int) -> Kept | None:
        """The batch to write for a batch of data; None if no record is kept.

        The records of the batch are first..last-1, of which the records `keep` are not replaced.
        """
        offsets, known_offset, count = records.offsets, self._offsets.latest_offset, last - first
        null = records.tombstones_between(first, last)
        if null and self._horizon_has_passed(batch):
            keep = [index for index in keep if index not in null or offsets[index] > known_offset]
        tombstones = bool(null) and not null.isdisjoint(keep)
        if not keep:
            return None
        horizon_ms = self._new_horizon_ms
        if tombstones and not batch.has_delete_horizon and horizon_ms is not None:
            left = {offsets[index] for index in keep}
            return self._with_horizon(batch, [one for one in batch.records() if one.offset in left], horizon_ms)
        return _kept(batch, batch.data) if len(keep) == count else _with_records(batch, records, keep)

    def _stays_empty(self, batch: Batch) -> bool:
        if batch.next_offset == self._rules.upper_bound:
            return True
        last = self._rules.producers.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return batch.last_offset == last.last_offset
        return batch.is_control and batch.producer_epoch == last.epoch

    def _horizon_has_passed(self, batch: Batch) -> bool:
        return batch.has_delete_horizon and batch.base_timestamp <= self._rules.now_ms

    @property
    def _new_horizon_ms(self) -> int | None:
        """The delete horizon for batches of this cleaning; None if it exceeds the largest timestamp."""
        horizon_ms = self._rules.now_ms + self._rules.delete_retention_ms
        return horizon_ms if horizon_ms <= _TIMESTAMP_MAX else None

    def _with_horizon(self, batch: Batch, records: Sequence[Record], horizon_ms: int) -> Kept:
        max_timestamp = max([record.timestamp for record in records])
        header = batch.header._replace(attributes=batch.attributes | DELETE_HORIZON)
        deltas = [record.offset - batch.base_offset for record in records]
        span = Span(batch.last_offset_delta, horizon_ms, max_timestamp)
        return Kept(encode_batch(records, header, deltas=deltas, span=span), batch.last_offset, max_timestamp)


def _kept(batch: Batch, data: Buffer) -> Kept:
    return Kept(data, batch.last_offset, batch.max_timestamp)


def _with_records(batch: Batch, records: KeyedRecords, keep: Sequence[int]) -> Kept:
    """The batch with the records `keep` only. They are copied unchanged: base offset and base timestamp stay."""
    data, starts, ends = memoryview(records.data), records.starts, records.ends
    runs: list[memoryview] = []
    start = starts[keep[0]]
    for before, after in pairwise(keep):
        if after != before + 1:
            runs.append(data[start : ends[before]])
            start = starts[after]
    runs.append(data[start : ends[keep[-1]]])
    max_timestamp = batch.max_timestamp
    if not batch.attributes & LOG_APPEND_TIME:
        max_timestamp = max([records.timestamps[index] for index in keep])
    payload = b"".join(runs)
    return Kept(_rebuilt(batch, payload, len(keep), max_timestamp), batch.last_offset, max_timestamp)


def _rebuilt(batch: Batch, payload: bytes, count: int, max_timestamp: int) -> bytes:
    span = Span(batch.last_offset_delta, batch.base_timestamp, max_timestamp)
    return b"".join(assemble_parts(payload, count, batch.header, span))


def _empty(batch: Batch) -> bytes:
    attributes = with_codec(batch.attributes & ~DELETE_HORIZON, Codec.NONE)
    span = Span(batch.last_offset_delta, -1, batch.max_timestamp)
    return encode_batch((), batch.header._replace(attributes=attributes), deltas=(), span=span)
