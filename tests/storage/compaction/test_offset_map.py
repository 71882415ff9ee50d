"""Both offset maps agree with a dict, keep to their capacity, and list their offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.storage.compaction.numpy_offset_map import ENTRY_SIZE_BYTES, NumpyOffsetMap
from minikafka.storage.compaction.offset_map import DIGEST_SIZE_BYTES, NO_OFFSET, OffsetMap, PlainOffsetMap, digest_of

KINDS = {"numpy": (NumpyOffsetMap, ENTRY_SIZE_BYTES), "plain": (PlainOffsetMap, PlainOffsetMap.ENTRY_SIZE_BYTES)}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def created(kind: str, entries: int, load_factor: float = 1.0) -> OffsetMap:
    made, entry_size_bytes = KINDS[kind]
    return made(entries * entry_size_bytes, load_factor)


def digests(numbers: list[int]) -> bytes:
    return b"".join([digest_of(b"%d" % number) for number in numbers])


@given(calls=st.lists(st.lists(st.integers(0, 40), max_size=60), max_size=8), entries=st.integers(3, 60))
def test_a_map_agrees_with_a_dict_up_to_its_capacity(calls: list[list[int]], entries: int) -> None:
    for name in KINDS:
        agrees_with_a_dict(created(name, entries), calls, entries)


def agrees_with_a_dict(offsets: OffsetMap, calls: list[list[int]], entries: int) -> None:
    known: dict[int, int] = {}
    offset = 0
    for keys in calls:
        added = offsets.put(digests(keys), range(offset, offset + len(keys)))
        for index, key in enumerate(keys[:added]):
            known[key] = offset + index
        assert len(offsets) == len(known) <= entries
        offset += added
        if added < len(keys):
            assert keys[added] not in known
            assert len(known) >= min(entries - 2, int(entries * 0.75) - 1)  # A prime number of slots, and 95 % of it.
            break
    assert offsets.latest(digests(list(range(41)))) == [known.get(key, NO_OFFSET) for key in range(41)]
    offsets.finish()
    assert list(offsets.offsets_between(0, offset)) == sorted(known.values())
    assert list(offsets.offsets_between(3, 9)) == [one for one in sorted(known.values()) if 3 <= one <= 9]


def test_a_map_grows_and_keeps_what_it_knows(kind: str) -> None:
    offsets = created(kind, 200_000)
    for start in range(0, 60_000, 3000):
        keys = [number % 50_000 for number in range(start, start + 3000)]
        assert offsets.put(digests(keys), range(start, start + 3000)) == 3000
    assert len(offsets) == 50_000
    expected = [number + 50_000 if number < 10_000 else number for number in range(50_000)]
    assert offsets.latest(digests(list(range(50_000)))) == expected


def test_a_map_that_is_almost_full_finds_its_keys(kind: str) -> None:
    offsets = created(kind, 30_000, 0.95)
    added = offsets.put(digests(list(range(30_000))), range(30_000))
    assert 28_000 <= added == len(offsets) <= 28_500
    assert offsets.put(digests([added - 1, added]), [40_000, 40_001]) == 1
    assert offsets.latest(digests([0, added - 1, added])) == [0, 40_000, NO_OFFSET]


def test_memory_of_the_map_with_numpy_is_bounded() -> None:
    """128 MiB hold as many keys as with Kafka's load factor, but for the 8 bytes of an entry in the sorted list."""
    assert NumpyOffsetMap(128 << 20, 0.9)._capacity > 3_700_000
    assert len(digests([1])) == DIGEST_SIZE_BYTES
