"""Checks a partition's files without using `minikafka.storage`: reads every batch, and compares the indexes."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import crc32c

HEADER = struct.Struct(">qiibIhiqq")  # base offset, length, epoch, magic, crc, attributes, last delta, times
PREFIX_BYTES = 12
CRC_FROM = 21
INDEX_INTERVAL_BYTES = 4096


@dataclass(frozen=True)
class FoundBatch:
    """The position and contents of a batch."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    max_timestamp: int


def scan(path: Path) -> list[FoundBatch]:
    """All batches of a segment; checks CRCs, consecutive offsets, and that no bytes are left."""
    data, position, found = path.read_bytes(), 0, list[FoundBatch]()
    expected = int(path.stem)
    while position < len(data):
        base, length, _, magic, crc, _, last_delta, _, newest = HEADER.unpack_from(data, position)
        end = position + PREFIX_BYTES + length
        assert magic == 2, f"{path}: no batch at {position}"
        assert base == expected, f"{path}: offset {base} instead of {expected} at {position}"
        assert crc32c.crc32c(data[position + CRC_FROM : end]) == crc, f"{path}: bad CRC at {position}"
        found.append(FoundBatch(position, end - position, base, base + last_delta, newest))
        position, expected = end, base + last_delta + 1
    return found


def segments(directory: Path) -> list[Path]:
    """A partition's `.log` files in order; checks that there is no gap between them."""
    logs = sorted(directory.glob("*.log"))
    for one, following in itertools.pairwise(logs):
        assert scan(one)[-1].last_offset + 1 == int(following.stem), f"a gap before {following}"
    return logs


def check_indexes(log: Path) -> None:
    """Checks that every entry of both indexes is correct and that none is missing."""
    batches = scan(log)
    by_position = {batch.position: batch for batch in batches}
    entries = list(_entries(log.with_suffix(".index"), ">ii", int(log.stem)))
    for offset, position in entries:
        assert by_position[position].last_offset == offset, f"{log}: no batch ends with {offset} at {position}"
    assert entries == sorted(set(entries))
    _check_dense(log, batches, [position for _, position in entries])
    for timestamp, offset in _entries(log.with_suffix(".timeindex"), ">qi", int(log.stem)):
        newest = max(batch.max_timestamp for batch in batches if batch.base_offset <= offset)
        assert timestamp == newest, f"{log}: {timestamp} is not the newest time up to {offset}, which is {newest}"


def _entries(path: Path, layout: str, base_offset: int) -> Iterator[tuple[int, int]]:
    """The entries with absolute offsets; zeros may follow the last entry of a preallocated index file."""
    for first, second in struct.iter_unpack(layout, path.read_bytes()):
        if (first, second) == (0, 0):
            return
        yield (first + base_offset, second) if layout == ">ii" else (first, second + base_offset)


def _check_dense(log: Path, batches: list[FoundBatch], indexed: list[int]) -> None:
    """Checks that consecutive entries are not much further apart than the index interval."""
    largest = max((batch.size_bytes for batch in batches), default=0)
    ends = [0, *indexed, sum(batch.size_bytes for batch in batches)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(ends)]
    assert max(gaps) <= INDEX_INTERVAL_BYTES + 2 * largest, f"{log}: {max(gaps)} bytes without an entry"
