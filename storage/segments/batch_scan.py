"""Iterates over the batch headers of a segment without reading the records."""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from minikafka.storage.disks.disk import File

HEADER_SIZE = 61
_HEADER = Struct(">qiibIhiqqqhi")
_CHUNK_SIZE = 16 * 1024
_LENGTH_MIN = 49
_MAGIC = 2


class Header(NamedTuple):
    """The position of a batch and fields of its header (named as in `Batch`)."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    attributes: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int

    @property
    def last_offset_delta(self) -> int:
        return self.last_offset - self.base_offset


def headers(file: File, position: int, end: int) -> Iterator[Header]:
    """Yields the headers of the batches between the byte positions `position` and `end` of a segment file.

    Stops at the first batch that is incomplete, not of format v2, or has an invalid length. Callers detect this by
    comparing the end of the last batch with `end`. Raises OSError.
    """
    chunk, start = b"", position
    unpack = _HEADER.unpack_from
    while end - position >= HEADER_SIZE:
        at = position - start
        if at + HEADER_SIZE > len(chunk):
            chunk, start, at = file.pread(position, min(_CHUNK_SIZE, end - position)), position, 0
            if len(chunk) < HEADER_SIZE:
                return
        (
            base, length, epoch, magic, _, attributes, delta, _, timestamp, producer, producer_epoch, sequence,
        ) = unpack(chunk, at)  # fmt: skip
        if magic != _MAGIC or length < _LENGTH_MIN or delta < 0 or position + length + 12 > end:
            return
        yield Header(
            position, length + 12, base, base + delta, epoch, attributes, timestamp, producer, producer_epoch,
            sequence,
        )  # fmt: skip
        position += length + 12
