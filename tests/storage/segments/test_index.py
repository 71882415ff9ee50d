"""Sparse indexes, compared with lists of the same entries."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from hypothesis import given
from hypothesis import strategies as st
from support.logs import memory_disk

from minikafka.storage.segments.index import OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset

BASE = 1000
GAPS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 9000)), max_size=300)
MANY = [(1 + number * 7919 % 50, 1 + number * 104729 % 9000) for number in range(5000)]


def offset_index(capacity_bytes: int = 1 << 16) -> OffsetIndex:
    file = memory_disk().open("/data/index", create=True)
    return OffsetIndex(file, BASE, count=0, capacity_bytes=capacity_bytes)


def time_index(capacity_bytes: int = 1 << 16) -> TimeIndex:
    file = memory_disk().open("/data/timeindex", create=True)
    return TimeIndex(file, BASE, count=0, capacity_bytes=capacity_bytes)


def grown(gaps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found, offset, position = [], BASE, 0
    for offset_gap, position_gap in gaps:
        offset, position = offset + offset_gap, position + position_gap
        found.append((offset, position))
    return found


@given(GAPS, st.lists(st.integers(BASE - 5, BASE + 20_000), min_size=1, max_size=30))
def test_offset_lookups(gaps: list[tuple[int, int]], asked: list[int]) -> None:
    entries = grown(gaps)
    index = offset_index()
    for entry in entries:
        index.append([entry])
    offsets, positions = [one[0] for one in entries], [one[1] for one in entries]
    for offset in [*asked, *offsets[::7]]:
        slot = bisect_right(offsets, offset) - 1
        assert index.slot_of(offset) == slot
        assert index.lookup(offset) == (entries[slot] if slot >= 0 else (BASE, 0))
        position = (offset - BASE) * 50
        slot = bisect_left(positions, position)
        assert index.first_at_position(position) == (entries[slot] if slot < len(entries) else None)
    index.truncate_to(asked[0])
    assert index.count == bisect_left(offsets, asked[0])
    assert index.last == (entries[index.count - 1] if index.count else (BASE, 0))


def test_a_long_index_is_searched_in_few_reads() -> None:
    entries = grown(MANY)
    index = offset_index()
    index.append(entries)
    offsets = [one[0] for one in entries]
    disk = index.file._disk  # type: ignore[attr-defined]
    disk.calls.clear()
    for number in range(1000):
        offset = BASE + number * 7919 % (offsets[-1] - BASE)
        slot = bisect_right(offsets, offset) - 1
        assert index.slot_of(offset) == slot
    assert disk.calls["read"] < 2500
    disk.calls.clear()
    for offset in range(BASE, BASE + 20_000, 20):
        assert index.slot_of(offset) == bisect_right(offsets, offset) - 1
    assert disk.calls["read"] < 30, "sequential reads use the cached window"


@given(GAPS, st.lists(st.integers(-5, 20_000), min_size=1, max_size=30))
def test_time_lookups(gaps: list[tuple[int, int]], asked: list[int]) -> None:
    entries = [(position, offset) for offset, position in grown(gaps)]
    index = time_index()
    index.append(entries)
    index.append(entries)  # No timestamp is larger than the last, so no entry is added.
    times, offsets = [one[0] for one in entries], [one[1] for one in entries]
    for timestamp in [*asked, *times[::7]]:
        slot = bisect_right(times, timestamp) - 1
        assert index.lookup(timestamp) == (entries[slot] if slot >= 0 else (-1, BASE))
    index.truncate_to(BASE + asked[0])
    assert index.count == bisect_left(offsets, BASE + asked[0])


def test_entries_have_kafkas_format() -> None:
    offsets, times = offset_index(), time_index()
    offsets.append([(BASE + 5, 4200), (BASE + 300, 8400)])
    times.append([(1_700_000_000_000, BASE + 5)])
    offsets.trim()
    times.trim()
    assert offsets.file.pread(0, 99).hex() == "00000005000010680000012c000020d0"
    assert times.file.pread(0, 99).hex() == "0000018bcfe5680000000005"


def test_indexes_are_preallocated_and_trimmed() -> None:
    index = offset_index(capacity_bytes=1003)
    assert index.capacity == 125
    index.append([(BASE + 1, 1)])
    assert index.file.size_bytes == 1000
    index.trim()
    assert index.file.size_bytes == 8
    index.reserve()
    assert index.file.pread(8, 2000) == bytes(992)


def test_time_indexes_reserve_one_entry_of_their_capacity() -> None:
    offsets, times = offset_index(16), time_index(24)
    assert (offsets.room, times.room) == (2, 1)
    offsets.append([(BASE + 1, 1), (BASE + 2, 2)])
    times.append([(1, BASE)])
    assert (offsets.room, times.room) == (0, 0)


def test_only_ascending_entries_below_the_recovery_point_are_trusted() -> None:
    index = offset_index(800)
    index.append([(BASE + 10 * number, 100 * number) for number in range(1, 50)])
    assert index.trusted_count(BASE + 205) == 20
    assert index.trusted_count(BASE + 10_000) == 49
    index.file.pwrite(8 * 12, bytes(8))
    assert index.trusted_count(BASE + 10_000) == 12
    times = time_index(1200)
    times.append([(10 * number, BASE + number) for number in range(1, 50)])
    assert times.trusted_count(BASE + 20) == 20
    times.file.pwrite(12 * 7, bytes(12))
    assert times.trusted_count(BASE + 20) == 7


def test_preallocated_space_is_not_read() -> None:
    index = offset_index(capacity_bytes=10 << 20)
    index.append(grown(MANY))
    disk = index.file._disk  # type: ignore[attr-defined]
    disk.calls.clear()
    assert index.trusted_count(BASE + 1_000_000) == len(MANY)
    assert disk.calls["read"] == 2, "with thousands of partitions 10 MiB of zeros for each took a minute"


def test_an_empty_index_returns_the_segment_start() -> None:
    assert offset_index().lookup(BASE + 7) == OffsetPosition(BASE, 0)
    assert time_index().lookup(7) == TimestampOffset(-1, BASE)
    assert offset_index().first_at_position(0) is None
