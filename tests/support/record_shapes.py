"""Records of every shape for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from minikafka.protocol.records.record import Record

INT64_MAX = (1 << 63) - 1
blobs = st.one_of(st.none(), st.binary(max_size=20), st.integers(50, 9000).map(lambda size: bytes(size)))
headers = st.lists(st.tuples(st.text(max_size=8), st.one_of(st.none(), st.binary(max_size=9))), max_size=3)
timestamps = st.one_of(
    st.integers(0, 1 << 42), st.integers(1700000000000, 1700000000300), st.just(-1), st.integers(0, INT64_MAX)
)


def records(min_size: int = 1, max_size: int = 12) -> st.SearchStrategy[list[Record]]:
    """Lists of records without offsets."""
    one = st.builds(
        Record, offset=st.just(-1), timestamp=timestamps, key=blobs, value=blobs, headers=headers.map(tuple)
    )
    return st.lists(one, min_size=min_size, max_size=max_size)


def gaps(count: int) -> st.SearchStrategy[list[int]]:
    """Increasing offset deltas with gaps, as after compaction."""
    step = st.one_of(st.just(1), st.integers(1, 100000))
    return st.lists(step, min_size=count, max_size=count).map(_sums)


def _sums(steps: list[int]) -> list[int]:
    total, sums = -1, list[int]()
    for step in steps:
        total += step
        sums.append(total)
    return sums


numbers: dict[str, Any] = {
    "base_offset": st.integers(0, 1 << 60),
    "leader_epoch": st.integers(-1, (1 << 31) - 1),
    "producer_id": st.integers(-1, 1 << 60),
    "producer_epoch": st.integers(-1, (1 << 15) - 1),
    "base_sequence": st.integers(-1, (1 << 31) - 1),
}
