"""`KeyedRecords`: the offsets, key hashes and positions of the records of many batches, for the cleaner.

Each field is a column with a value for each record. Without numpy, and for few records, the plain loops of `record.py`
fill the columns.
"""

from bisect import bisect_left
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

from minikafka.protocol.records.batch import Batch
from minikafka.protocol.records.column_codec import load_numpy_codec
from minikafka.protocol.records.compression import MAX_SIZE_BYTES, Buffer, decompress
from minikafka.protocol.records.record import read_varint
from minikafka.storage.compaction.offset_map import digest_of

_VECTORISED_MIN = 32
"""The number of records from which numpy is faster than the plain loop."""


class KeyedRecords(NamedTuple):
    """The records of some batches, in order.

    Attributes:
        firsts: the index of the first record of each batch, and at the end the number of records.
        offsets, timestamps: the offset and the timestamp (ms) of each record.
        digests: the hashes of the keys, one after the other; a null key has the hash of an empty key. Empty if hashes
            were not requested.
        keyless: the indexes of the records with a null key, ascending.
        tombstones: the indexes of the records without a value, ascending.
        data: the decompressed records; record i is data[starts[i]:ends[i]].
    """

    firsts: list[int]
    offsets: list[int]
    timestamps: list[int]
    digests: bytes
    keyless: list[int]
    tombstones: list[int]
    data: Buffer
    starts: list[int]
    ends: list[int]

    def tombstones_between(self, first: int, last: int) -> set[int]:
        """The indexes of the records without a value, among the records first..last-1."""
        if not self.tombstones:
            return set()
        return set(self.tombstones[bisect_left(self.tombstones, first) : bisect_left(self.tombstones, last)])


def read_digests(batches: Sequence[Batch]) -> tuple[bytes, Sequence[int]]:
    """Returns the hashes of the keys, one after the other, and the offsets of the records that have a key.

    Raises CorruptRecords."""
    numpy_codec = _codec_for(batches)
    if numpy_codec is not None:
        digests, offsets = numpy_codec.digest_keys(batches, MAX_SIZE_BYTES, digest_of)
        return digests, offsets
    keyed = [(record.key, record.offset) for batch in batches for record in batch.records() if record.key is not None]
    return b"".join([digest_of(key) for key, _ in keyed]), [offset for _, offset in keyed]


def read_keyed_records(batches: Sequence[Batch], *, with_digests: bool) -> KeyedRecords:
    """Decompresses and reads the records of batches. Raises CorruptRecords."""
    numpy_codec = _codec_for(batches)
    if numpy_codec is not None:
        return KeyedRecords(*numpy_codec.locate_keys(batches, MAX_SIZE_BYTES, digest_of if with_digests else None))
    return _read_plainly(batches, with_digests=with_digests)


def _codec_for(batches: Sequence[Batch]) -> ModuleType | None:
    return load_numpy_codec() if sum([batch.record_count for batch in batches]) >= _VECTORISED_MIN else None


def _read_plainly(batches: Sequence[Batch], *, with_digests: bool) -> KeyedRecords:
    parts = [bytes(decompress(batch.codec, batch.payload, MAX_SIZE_BYTES)) for batch in batches]
    firsts: list[int] = []
    digests: list[bytes] = []
    found = KeyedRecords(firsts, [], [], b"", [], [], b"".join(parts), [], [])
    begun = 0
    for batch, part in zip(batches, parts, strict=True):
        firsts.append(len(found.offsets))
        records = batch.records()  # Checks all that the positions below rely on.
        position = 0
        for record in records:
            if record.value is None:
                found.tombstones.append(len(found.offsets))
            found.timestamps.append(record.timestamp)
            if record.key is None:
                found.keyless.append(len(found.offsets))
            if with_digests:
                digests.append(digest_of(record.key or b""))
            found.offsets.append(record.offset)
            length, after = read_varint(part, position)
            found.starts.append(begun + position)
            position = after + length
            found.ends.append(begun + position)
        begun += len(part)
    firsts.append(len(found.offsets))
    return found._replace(digests=b"".join(digests))
