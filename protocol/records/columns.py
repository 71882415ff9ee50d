"""`Columns` holds the records of batches as one list per field, instead of one object per record."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat

from minikafka.protocol.records.record import Headers, Record

Blobs = list[bytes | None]


class Columns:
    """The records of some batches of one partition, in order, column by column.

    `offsets`, `timestamps` (ms), `timestamp_types` (0 CreateTime, 1 LogAppendTime; None: 0 for all) and `headers`
    (None: no record has any) are lists; `keys()` and `values()` slice the batches' bytes when called.
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
        """All records as objects."""
        headers = repeat(()) if self.headers is None else self.headers
        rows = zip(self.offsets, self.timestamps, self.keys(), self.values(), headers, strict=False)
        return list(map(tuple.__new__, repeat(Record), rows))
