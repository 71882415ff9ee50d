"""`Batch`: a record batch of format v2 (KIP-98) as a view over bytes, the unit that is sent, stored and replicated.

On its hot path the broker reads only the 61 bytes of the header. The checksum does not cover the fields up to itself,
so the broker can set base offset and leader epoch in place::

    0 base offset: int64      21 attributes: int16         43 producer id: int64
    8 length: int32           23 last offset delta: int32  51 producer epoch: int16
    12 leader epoch: int32    27 base timestamp: int64     53 base sequence: int32
    16 magic: int8 = 2        35 max timestamp: int64      57 record count: int32
    17 crc: uint32 (CRC-32C of everything from byte 21)    61 records

Attributes: bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 the base timestamp is the delete horizon
(KIP-534).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from crc32c import crc32c

from minikafka.protocol.records.compression import MAX_SIZE_BYTES, Buffer, Codec, compress, decompress
from minikafka.protocol.records.record import CorruptRecords, Record, decode_records, encode_records

HEADER_SIZE = 61
LENGTH_MIN = HEADER_SIZE - 12
"""The minimum of the length field, which counts the bytes after itself."""
MAGIC = 2
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CHECKED = struct.Struct(">hiqqqhii")
_UNCHECKED = struct.Struct(">qiibI")
_CODEC_MASK = 0x07
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
"""Bits of the attributes; those of the codec are its number."""
_CODECS = dict(enumerate(Codec))
_SEQUENCE_COUNT = 1 << 31


class UnsupportedMagic(CorruptRecords):
    """A batch with magic 0 or 1, from Kafka 0.10 or older; Kafka 4 does not support them either."""


class BatchHeader(NamedTuple):
    """The fields of a header that say nothing about the records.

    Attributes:
        attributes: the number of the codec, and bits such as `TRANSACTIONAL`.
    """

    attributes: int = 0
    base_offset: int = 0
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1


class Span(NamedTuple):
    """The fields of a header that say which offsets and timestamps (ms) the batch covers.

    A compacted batch keeps the offsets that it had. With `DELETE_HORIZON`, `base_timestamp` is the delete horizon.
    """

    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int


PLAIN = BatchHeader()


def codec_of(attributes: int) -> Codec:
    """The codec in the attributes of a batch. Raises CorruptRecords if it is unknown."""
    codec = _CODECS.get(attributes & _CODEC_MASK)
    if codec is None:
        raise CorruptRecords(f"batch has the unknown compression codec {attributes & _CODEC_MASK}")
    return codec


def with_codec(attributes: int, codec: Codec) -> int:
    """The attributes of a batch that is compressed with `codec` instead."""
    return attributes & ~_CODEC_MASK | codec


class Batch:
    """A record batch: the fields of its header, and all its bytes in `data`.

    Setting an attribute changes only this object; `assign` and `stamp_log_append_time` change the bytes.
    """

    __slots__ = (
        "attributes", "base_offset", "base_sequence", "base_timestamp", "crc", "data", "last_offset_delta",
        "leader_epoch", "magic", "max_timestamp", "producer_epoch", "producer_id", "record_count",
    )  # fmt: skip
    data: memoryview
    base_offset: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The size of header and records."""
        return len(self.data)

    @property
    def codec(self) -> Codec:
        """The compression codec. Raises CorruptRecords if it is unknown."""
        return codec_of(self.attributes)

    @property
    def header(self) -> BatchHeader:
        """The header fields to copy to a batch that is made of this batch's records."""
        return BatchHeader(
            self.attributes, self.base_offset, self.leader_epoch, self.producer_id, self.producer_epoch,
            self.base_sequence,
        )  # fmt: skip

    @property
    def is_compressed(self) -> bool:
        return (self.attributes & _CODEC_MASK) != 0

    @property
    def timestamp_type(self) -> int:
        """The timestamp type: with 0 (CreateTime) each record has its own timestamp; with 1 (LogAppendTime) all have
        `max_timestamp`."""
        return (self.attributes & LOG_APPEND_TIME) >> 3

    @property
    def is_transactional(self) -> bool:
        return (self.attributes & TRANSACTIONAL) != 0

    @property
    def is_control(self) -> bool:
        return (self.attributes & CONTROL) != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time from which tombstones of this batch may be removed (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, which wraps from 2^31-1 to 0; -1 without a producer id."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCE_COUNT

    @property
    def payload(self) -> memoryview:
        """The records, possibly compressed."""
        return self.data[HEADER_SIZE:]

    def check_crc(self) -> None:
        """Raise CorruptRecords if the checksum does not match."""
        computed = crc32c(self.data[21:])
        if computed != self.crc:
            raise CorruptRecords(
                f"batch at offset {self.base_offset} has CRC {self.crc:#010x}, computed {computed:#010x}"
            )

    def records(self, *, max_size_bytes: int = MAX_SIZE_BYTES) -> list[Record]:
        """Decompress and decode the records. The checksum is not verified; see `check_crc`.

        Raises CorruptRecords for inconsistent lengths, counts or offsets, unknown or invalid compression, and
        TooMuchContent for records that decompress to more than `max_size_bytes`.
        """
        return decode_records(
            bytes(decompress(self.codec, self.payload, max_size_bytes)),
            self.record_count,
            base_offset=self.base_offset,
            base_timestamp=self.base_timestamp,
            last_offset_delta=self.last_offset_delta,
            log_append_time=self.max_timestamp if self.attributes & LOG_APPEND_TIME else None,
        )

    def __repr__(self) -> str:
        return (
            f"<Batch {self.base_offset}..{self.last_offset}, {self.record_count} records, {len(self.data)}"
            f" bytes, epoch {self.leader_epoch}, attributes {self.attributes:#x}, producer"
            f" {self.producer_id}/{self.producer_epoch}/{self.base_sequence}>"
        )


def parse_header(data: Buffer, position: int = 0) -> Batch:
    """Parse the header of the batch at `position`.

    Raises CorruptRecords if the batch is truncated or its length invalid, UnsupportedMagic if it is not of format v2.
    """
    left = len(data) - position
    if left < HEADER_SIZE:
        if left > 16 and data[position + 16] != MAGIC:
            raise UnsupportedMagic(_magic_text(data[position + 16]))
        raise CorruptRecords(f"record batch truncated at {left} bytes; its header has {HEADER_SIZE}")
    batch = Batch()
    (
        batch.base_offset, length, batch.leader_epoch, batch.magic, batch.crc, batch.attributes,
        batch.last_offset_delta, batch.base_timestamp, batch.max_timestamp, batch.producer_id,
        batch.producer_epoch, batch.base_sequence, batch.record_count,
    ) = _HEADER.unpack_from(data, position)  # fmt: skip
    if batch.magic != MAGIC:
        raise UnsupportedMagic(_magic_text(batch.magic))
    if not LENGTH_MIN <= length <= left - 12:
        raise CorruptRecords(
            f"batch length {length}; it must be {LENGTH_MIN} to {left - 12}"
        )
    batch.data = memoryview(data)[position : position + 12 + length]
    return batch


def batches(data: Buffer, position: int = 0) -> Iterator[Batch]:
    """Iterate over the complete batches of `data`. A truncated batch at the end, as in fetch responses, is ignored.

    Raises CorruptRecords for an invalid length, UnsupportedMagic for batches that are not of format v2.
    """
    view = memoryview(data)
    size = len(view)
    while size - position >= HEADER_SIZE:
        length = int.from_bytes(view[position + 8 : position + 12], "big", signed=True)
        if length > size - position - 12:
            return
        yield parse_header(view, position)
        position += 12 + length


def _magic_text(magic: int) -> str:
    return f"unsupported record format v{magic}; only v{MAGIC} (Kafka 0.11 and later) is supported"


def encode_batch(
    records: Sequence[Record],
    header: BatchHeader = PLAIN,
    *,
    deltas: Sequence[int] | None = None,
    span: Span | None = None,
    level: int | None = None,
) -> bytes:
    """Encode records as a batch.

    Args:
        deltas: the offset deltas; by default relative to the first record's offset, or 0, 1, 2, … if that is negative.
        span: by default that of the records. A batch without records requires it.
        level: of the compression.

    Raises ValueError for offsets that are not increasing and for numbers out of the format's range.
    """
    deltas = _deltas(records) if deltas is None else deltas
    if span is None:
        span = Span(deltas[-1], records[0].timestamp, max([record.timestamp for record in records]))
    payload = encode_records(records, deltas, span.base_timestamp)
    return b"".join(assemble_parts(payload, len(records), header, span, level=level))


def assemble_parts(
    payload: Buffer, count: int, header: BatchHeader, span: Span, *, level: int | None = None
) -> tuple[bytes, Buffer]:
    """Compress `count` encoded records and make their header. Returns the header and the bytes that follow it.

    Raises ValueError for numbers out of the format's range."""
    attributes, base_offset, leader_epoch, producer_id, producer_epoch, base_sequence = header
    body = compress(codec_of(attributes), payload, level) if attributes & _CODEC_MASK else payload
    try:
        checked = _CHECKED.pack(attributes, *span, producer_id, producer_epoch, base_sequence, count)
        crc = crc32c(body, crc32c(checked))
        head = _UNCHECKED.pack(base_offset, LENGTH_MIN + len(body), leader_epoch, MAGIC, crc)
    except struct.error as error:
        raise ValueError(f"number out of the range of the record batch format: {error}") from None
    return head + checked, body


def _deltas(records: Sequence[Record]) -> Sequence[int]:
    if not records:
        raise ValueError("a batch without records requires a span and deltas=()")
    first = records[0].offset
    if first < 0:
        return range(len(records))
    deltas = [record.offset - first for record in records]
    if any(after <= before for before, after in pairwise(deltas)):
        raise ValueError("the offsets of a batch's records must increase")
    return deltas


def assign(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Set base offset and leader epoch of the batch at `position`, in place; the checksum does not cover them."""
    struct.pack_into(">q", buffer, position, base_offset)
    struct.pack_into(">i", buffer, position + 12, leader_epoch)


def stamp_log_append_time(buffer: bytearray | memoryview, position: int, timestamp: int) -> None:
    """Set LogAppendTime `timestamp` (ms) for the batch at `position`, in place, and update its checksum."""
    view = memoryview(buffer)
    (length,) = struct.unpack_from(">i", view, position + 8)
    (attributes,) = struct.unpack_from(">h", view, position + 21)
    struct.pack_into(">h", view, position + 21, attributes | LOG_APPEND_TIME)
    struct.pack_into(">q", view, position + 35, timestamp)
    struct.pack_into(">I", view, position + 17, crc32c(view[position + 21 : position + 12 + length]))


def stamp_producer(buffer: bytearray | memoryview, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Set the producer of the batch that `buffer` begins with, in place, and update its checksum."""
    view = memoryview(buffer)
    (length,) = struct.unpack_from(">i", view, 8)
    struct.pack_into(">qhi", view, 43, producer_id, producer_epoch, base_sequence)
    struct.pack_into(">I", view, 17, crc32c(view[21 : 12 + length]))
