"""Encodes and decodes many records at once, column by column, for the client.

A producer holds its records as lists of keys, values and timestamps, never as objects; `encode_columns` packs them
into a batch. A consumer receives a whole fetch response; `decode_columns` locates every record in it and creates
objects only on demand. Above a few hundred records, and if numpy is installed, both use `numpy_codec.py`, which is
faster than the loops of `record.py` and gives the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, cast

from minikafka.protocol.records.batch import PLAIN, Batch, BatchHeader, Span, assemble_parts
from minikafka.protocol.records.columns import Columns
from minikafka.protocol.records.compression import MAX_SIZE_BYTES
from minikafka.protocol.records.record import Headers, Record, encode_records

if TYPE_CHECKING:
    from types import ModuleType

ENCODE_COUNT_MIN = 1_000
DECODE_COUNT_MIN = 160
"""The record counts from which numpy is used: its fixed cost per call is then about the cost of the plain loop, if
other work has used the processor's caches between two calls."""


def decode_columns(batches: Sequence[Batch], *, max_size_bytes: int = MAX_SIZE_BYTES) -> Columns:
    """Decode the records of `batches` as columns; they are the same as of `Batch.records` of each batch in turn.

    Raises CorruptRecords where any of the batches would, TooMuchContent for compressed records of more than
    `max_size_bytes` together. Checksums are not verified."""
    if sum([batch.record_count for batch in batches]) >= DECODE_COUNT_MIN and (numpy_codec := load_numpy_codec()):
        return numpy_codec.decode(batches, max_size_bytes)
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
    header: BatchHeader = PLAIN,
    level: int | None = None,
) -> bytes:
    """Encode columns as the batch that `encode_batch` makes of the same records with consecutive offsets.

    `keys` or `headers` are None if no record has any. Raises ValueError for numbers out of the format's range."""
    count = len(values)
    if count >= ENCODE_COUNT_MIN and (numpy_codec := load_numpy_codec()):
        payload = numpy_codec.encode(keys, values, timestamps, headers)
    else:
        rows = zip(repeat(-1), timestamps, keys or repeat(None), values, headers or repeat(()), strict=False)
        payload = encode_records(cast("list[Record]", list(rows)), range(count), timestamps[0])
    span = Span(count - 1, timestamps[0], max(timestamps))
    return b"".join(assemble_parts(payload, count, header, span, level=level))


def scan_usual(payload: bytes | memoryview, count: int) -> tuple[int, int] | None:
    """Scan the records of a produced batch: see `numpy_scan.scan_usual`. None also if numpy is not installed. The
    first call imports numpy."""
    numpy_scan = _load_numpy_scan()
    return None if numpy_scan is None else numpy_scan.scan_usual(payload, count)


def is_scan_loaded() -> bool:
    """Whether `scan_usual` has been called before. Its first call imports numpy, which takes a tenth of a second, so
    that it should be made in a thread."""
    return _load_numpy_scan.cache_info().currsize > 0


@cache
def _load_numpy_scan() -> ModuleType | None:
    try:
        from minikafka.protocol.records import numpy_scan
    except ImportError:
        return None
    return numpy_scan


@cache
def load_numpy_codec() -> ModuleType | None:
    """The numpy implementation, imported on first use; None if numpy is not installed."""
    try:
        from minikafka.protocol.records import numpy_codec
    except ImportError:
        return None
    return numpy_codec
