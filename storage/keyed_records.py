"""`KeyedRecords`: what the cleaner needs to know of the records of many batches, column by column.

Without numpy, and for a few batches, the columns are filled by the plain loops of `record.py`.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from minikafka.protocol.records.batch import Batch
from minikafka.protocol.records.column_codec import load_numpy_codec
from minikafka.protocol.records.compression import MAX_SIZE_BYTES, Buffer, decompress
from minikafka.protocol.records.record import read_varint
from minikafka.storage.offset_map import digest_of

_VECTORISED_MIN = 32
"""The number of records from which numpy is faster than the plain loop."""


class KeyedRecords(NamedTuple):
    """The records of some batches, in order.

    Attributes:
        firsts: the index of the first record of each batch, and at the end the number of records.
        offsets, timestamps: of each record.
        digests: the hash of each key; empty for a null key.
        tombstones: the indexes of the records without a value, ascending.
        data: the decompressed records; record i is data[starts[i]:ends[i]].
    """

    firsts: list[int]
    offsets: list[int]
    timestamps: list[int]
    digests: list[bytes]
    tombstones: list[int]
    data: Buffer
    starts: list[int]
    ends: list[int]

    def tombstones_between(self, first: int, last: int) -> set[int]:
        """The indexes first..last-1 of records without a value."""
        if not self.tombstones:
            return set()
        return set(self.tombstones[bisect_left(self.tombstones, first) : bisect_left(self.tombstones, last)])


def read_keyed_records(batches: Sequence[Batch]) -> KeyedRecords:
    """Decompresses and reads the records of batches. Raises CorruptRecords."""
    numpy_codec = load_numpy_codec()
    if numpy_codec is not None and sum([batch.record_count for batch in batches]) >= _VECTORISED_MIN:
        return KeyedRecords(*numpy_codec.locate_keys(batches, MAX_SIZE_BYTES, digest_of))
    return _read_plainly(batches)


def _read_plainly(batches: Sequence[Batch]) -> KeyedRecords:
    parts = [bytes(decompress(batch.codec, batch.payload, MAX_SIZE_BYTES)) for batch in batches]
    found = KeyedRecords([], [], [], [], [], b"".join(parts), [], [])
    begun = 0
    for batch, part in zip(batches, parts, strict=True):
        found.firsts.append(len(found.offsets))
        records = batch.records()  # Checks all that the positions below rely on.
        position = 0
        for record in records:
            if record.value is None:
                found.tombstones.append(len(found.offsets))
            found.offsets.append(record.offset)
            found.timestamps.append(record.timestamp)
            found.digests.append(b"" if record.key is None else digest_of(record.key))
            length, after = read_varint(part, position)
            found.starts.append(begun + position)
            position = after + length
            found.ends.append(begun + position)
        begun += len(part)
    found.firsts.append(len(found.offsets))
    return found
