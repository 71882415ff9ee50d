"""Bit rot: finds the files of each kind in a data directory, and damages bytes of one of them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from random import Random
from typing import NamedTuple

from minikafka.storage.disks.memory_content import Content

SEGMENT_MIDDLE, SEGMENT_TAIL = "segment middle", "segment tail"
KINDS = {
    SEGMENT_MIDDLE: r"\d{20}\.log",
    SEGMENT_TAIL: r"\d{20}\.log",
    "index": r"\d{20}\.index",
    "time index": r"\d{20}\.timeindex",
    "transaction index": r"\d{20}\.txnindex",
    "producer snapshot": r"\d{20}\.snapshot",
    "metadata snapshot": r"\d{20}-\d{10}\.checkpoint",
    "checkpoint": r"[a-z-]+-checkpoint",
    "quorum state": r"quorum-state",
    "meta.properties": r"meta\.properties",
    "partition.metadata": r"partition\.metadata",
    "clean shutdown": r"\.kafka_cleanshutdown",
}
"""Segment tail: the last batch of the last segment of a log. Segment middle: any batch before it."""
_SECTOR_SIZE = 512
_LENGTH_AT, _LENGTH_END, _CHECKED_FROM = 8, 12, 16
_TEXT = frozenset({"checkpoint", "quorum state", "meta.properties", "partition.metadata", "clean shutdown"})


class Rot(NamedTuple):
    """Damage: of which kind, in which file, and where."""

    kind: str
    path: str
    position: int
    size_bytes: int


class Place(NamedTuple):
    """Where a file of a kind may be damaged: bytes from `start` to `end`."""

    kind: str
    path: str
    start: int
    end: int


def places(files: Mapping[str, Content], kinds: Iterable[str]) -> list[Place]:
    """Returns where these files may be damaged, in the order of their names."""
    wanted = set(kinds)
    segments = [path for path in sorted(files) if _is(SEGMENT_TAIL, path) and files[path].durable.data]
    last = {path.rpartition("/")[0]: path for path in segments}
    found: list[Place] = []
    for path in sorted(files):
        size = len(files[path].durable.data)
        if not size:
            continue
        if _is(SEGMENT_TAIL, path):
            tail = _last_batch(files[path].durable.data) if last[path.rpartition("/")[0]] == path else size
            parts = [Place(SEGMENT_MIDDLE, path, 0, tail), Place(SEGMENT_TAIL, path, tail, size)]
        else:
            parts = [Place(kind, path, 0, size) for kind in KINDS if _is(kind, path)]
        found += [part for part in parts if part.kind in wanted and part.start < part.end]
    return found


def _is(kind: str, path: str) -> bool:
    return re.fullmatch(KINDS[kind], path.rpartition("/")[2]) is not None


def _last_batch(data: bytearray) -> int:
    """Returns the position of the last batch, at which the tail begins."""
    return _batches(data)[-1]


def _batches(data: bytearray) -> list[int]:
    position = 0
    found = [0]
    while position + _LENGTH_END <= len(data):
        if position:
            found.append(position)
        length = int.from_bytes(data[position + _LENGTH_AT : position + _LENGTH_END], "big", signed=True)
        if length <= 0 or position + _LENGTH_END + length > len(data):
            break
        position += _LENGTH_END + length
    return found


def _noticeable(data: bytearray, start: int, end: int) -> tuple[int, int]:
    """Moves damage of a segment away from the offset and the leader epoch of a batch, which no checksum covers."""
    starts = _batches(data)
    if 0 <= start - starts[bisect_right(starts, start) - 1] < _CHECKED_FROM:
        start = starts[bisect_right(starts, start) - 1] + _CHECKED_FROM
    if start < (last := starts[bisect_right(starts, end - 1) - 1]) and end - last <= _CHECKED_FROM:
        end = last
    return start, max(start + 1, end)


def choose(found: list[Place], random: Random) -> Place:
    """Chooses a kind, then a place of this kind."""
    kind = random.choice([kind for kind in KINDS if any(place.kind == kind for place in found)])
    return random.choice([place for place in found if place.kind == kind])


def damage(content: Content, place: Place, random: Random) -> Rot:
    """Flips one bit, or overwrites a part of a sector with zeros or noise; what is durable and what is cached differ
    from what was written.

    No digit becomes another one, and no offset another one: a format without checksums does not survive that.
    """
    position = random.randrange(place.start, place.end)
    end = min(place.end, position // _SECTOR_SIZE * _SECTOR_SIZE + _SECTOR_SIZE)
    if place.kind in {SEGMENT_MIDDLE, SEGMENT_TAIL}:
        position, end = _noticeable(content.durable.data, position, end)
    how = random.choice(["bit", "bit", "zeros", "noise"])
    old = bytes(content.durable.data[position : position + 1])
    if how == "bit":
        new = bytes([old[0] ^ 1 << random.randrange(8)])
    else:
        old = bytes(content.durable.data[position:end])
        new = bytes(end - position) if how == "zeros" else random.randbytes(end - position)
    if place.kind in _TEXT:
        new = bytes([one | 0x80 for one in new])
    if new == old:
        new = bytes([old[0] ^ 1]) + old[1:]
    content.durable.data[position : position + len(new)] = new
    if content.current.data[position : position + len(old)] == old:
        content.current.data[position : position + len(new)] = new
    return Rot(place.kind, place.path, position, len(new))
