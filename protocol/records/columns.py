"""Hundreds of records at once, by column: what the client packs and unpacks.

A producer holds its records as lists of keys, values and times, never as objects; `encode_columns` makes a
batch of them. A consumer gets a whole fetch answer; `decode_columns` finds every record in it and turns
them into objects only when they are asked for. From some hundreds of records on numpy does both where it is
installed (`vectors.py`), faster than the loops of `record.py` and in agreement with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, cast

from minikafka.protocol.records.batch import Batch, assemble
from minikafka.protocol.records.compression import MAX_SIZE_BYTES, Codec
from minikafka.protocol.records.record import Headers, Record, encode_records

if TYPE_CHECKING:
    from types import ModuleType

ENCODE_COUNT_MIN = 500
DECODE_COUNT_MIN = 160
"""Numpy's fixed cost per call is that of about this many records in the loop."""

Blobs = list[bytes | None]


class Columns:
    """The records of some batches of one partition, in order, column by column.

    `offsets`, `timestamps` (ms), `timestamp_types` (0 CreateTime, 1 LogAppendTime; None: 0 for all) and `headers`
    (None: no record has any) are there at once; `keys()` and `values()` cut theirs out of the batches' bytes
    when called.
    """

    __slots__ = ("headers", "keys", "offsets", "timestamp_types", "timestamps", "values")

    def __init__(
        self,
        offsets: list[int],
        timestamps: list[int],
        keys: Callable[[], Blobs],
        values: Callable[[], Blobs],
        headers: list[Headers] | None,
        timestamp_types: list[int] | None = None,
    ) -> None:
        self.offsets = offsets
        self.timestamps = timestamps
        self.keys = keys
        self.values = values
        self.headers = headers
        self.timestamp_types = timestamp_types

    def __len__(self) -> int:
        return len(self.offsets)

    def records(self) -> list[Record]:
        """All of them as objects."""
        headers = repeat(()) if self.headers is None else self.headers
        rows = zip(self.offsets, self.timestamps, self.keys(), self.values(), headers, strict=False)
        return list(map(tuple.__new__, repeat(Record), rows))


def decode_columns(batches: Sequence[Batch], *, max_size_bytes: int = MAX_SIZE_BYTES) -> Columns:
    """The records of `batches`, as `Batch.records` would give them one batch after the other.

    Raises CorruptRecords where any of the batches would, TooMuchContent for compressed records of more than
    `max_size_bytes` together. Checksums are not looked at."""
    if sum([batch.record_count for batch in batches]) >= DECODE_COUNT_MIN and (vectors := load_vectors()):
        return vectors.decode(batches, max_size_bytes)
    records = [record for batch in batches for record in batch.records(max_size_bytes=max_size_bytes)]
    columns = map(list, zip(*records, strict=True)) if records else ([], [], [], [], [])
    offsets, timestamps, keys, values, headers = columns
    types = [batch.timestamp_type for batch in batches for _ in range(batch.record_count)]
    return Columns(
        offsets,
        timestamps,
        lambda: keys,
        lambda: values,
        headers if any(headers) else None,
        types if any(types) else None,
    )


def encode_columns(
    keys: Sequence[bytes | None] | None,
    values: Sequence[bytes | None],
    timestamps: Sequence[int],
    headers: Sequence[Headers] | None = None,
    *,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> bytes:
    """The batch that `encode_batch` would make of the same records with consecutive offsets.

    `keys` or `headers` of None stand for records that all have none. Raises ValueError for numbers that the
    format has no room for."""
    count = len(values)
    if count >= ENCODE_COUNT_MIN and (vectors := load_vectors()):
        payload = vectors.encode(keys, values, timestamps, headers)
    else:
        rows = zip(repeat(-1), timestamps, keys or repeat(None), values, headers or repeat(()), strict=False)
        payload = encode_records(cast("list[Record]", list(rows)), range(count), timestamps[0])
    return assemble(
        payload, codec=codec, level=level, base_offset=base_offset, leader_epoch=-1,
        attributes=codec | transactional << 4, last_offset_delta=count - 1, base_timestamp=timestamps[0],
        max_timestamp=max(timestamps), producer_id=producer_id, producer_epoch=producer_epoch,
        base_sequence=base_sequence, count=count,
    )  # fmt: skip


@cache
def load_vectors() -> ModuleType | None:
    """The numpy half, imported when first needed; None where numpy is not installed."""
    try:
        from minikafka.protocol.records import vectors
    except ImportError:
        return None
    return vectors
