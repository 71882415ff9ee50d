"""The leader epoch cache, by the rules of Kafka's LeaderEpochFileCache."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.logs import memory_disk

from minikafka.storage.disks.checkpoint_files import BrokenCheckpoint, read_epochs
from minikafka.storage.logs.leader_epochs import LeaderEpochs

PATH = "/data/leader-epoch-checkpoint"


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    found = LeaderEpochs(memory_disk(), PATH, [])
    for epoch, start in entries:
        found.assign(epoch, start)
    return found


def written(epochs: LeaderEpochs) -> list[tuple[int, int]] | None:
    epochs.complete()
    return read_epochs(epochs._disk, PATH)


def test_the_file_has_kafkas_format() -> None:
    found = epochs((0, 0), (2, 100))
    assert not found._disk.exists(PATH), "a flush writes it"
    found.complete()
    assert found._disk.read_bytes(PATH) == b"0\n2\n0 0\n2 100\n"
    assert read_epochs(found._disk, PATH) == [(0, 0), (2, 100)]


def test_an_epoch_keeps_its_first_start() -> None:
    found = epochs((1, 10), (1, 20))
    assert found.entries == [(1, 10)]
    found.assign(1, 5)
    assert found.entries == [(1, 5)]


def test_conflicting_entries_are_removed() -> None:
    assert epochs((1, 10), (2, 20), (3, 30), (4, 15)).entries == [(1, 10), (4, 15)]
    assert epochs((1, 10), (3, 20), (2, 30)).entries == [(1, 10), (2, 30)]
    assert epochs((1, 10), (2, 10)).entries == [(2, 10)], "an epoch without records"


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (1, (1, 10)),  # older than all entries: ends at the start of the first
        (2, (2, 20)),
        (3, (2, 20)),  # missing: the epoch before it and its end (KIP-279)
        (4, (4, 30)),
        (5, (4, 30)),
        (7, (7, 99)),  # the latest ends at the log end offset
        (8, (-1, -1)),  # newer than all entries
    ],
)
def test_end_offsets_of_epochs(epoch: int, answer: tuple[int, int]) -> None:
    assert epochs((2, 10), (4, 20), (7, 30)).end_offset_for(epoch, 99) == answer


def test_without_entries_end_offsets_are_undefined() -> None:
    assert epochs().end_offset_for(3, 99) == (-1, -1)
    assert epochs().latest is None
    assert epochs().epoch_of(5) is None


def test_truncation_at_both_ends() -> None:
    found = epochs((2, 10), (4, 20), (7, 30))
    found.truncate_from_end(30)
    assert (found.entries, found.latest) == ([(2, 10), (4, 20)], 4)
    found.truncate_from_end(25)
    assert found.entries == [(2, 10), (4, 20)]
    found.truncate_from_start(15)
    assert found.entries == [(2, 15), (4, 20)]
    found.truncate_from_start(20)
    assert found.entries == [(4, 20)]
    found.truncate_from_start(5)
    assert found.entries == [(4, 20)]
    assert written(found) == [(4, 20)]


def test_invalid_entries_are_rejected() -> None:
    for entry in ((-1, 0), (0, -1)):
        with pytest.raises(ValueError, match="invalid leader epoch"):
            epochs(entry)


@pytest.mark.parametrize(
    "text",
    ["", "0", "0\n", "0\n1\n", "1\n0\n", "0\n1\n0 0", "0\n1\n0 0 0\n", "0\n2\n0 0\n", "0\n1\nx 0\n", "\0\0\0",
     "0\n1\n-1 0\n", "0\n1\n0 0\n0 1\n"],
)  # fmt: skip
def test_an_invalid_file_differs_from_a_missing_one(text: str) -> None:
    disk = memory_disk()
    assert read_epochs(disk, PATH) is None
    disk.write_atomically(PATH, text.encode())
    with pytest.raises(BrokenCheckpoint):
        read_epochs(disk, PATH)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 50)), max_size=30), st.integers(0, 60))
def test_entries_increase_in_epoch_and_offset(steps: list[tuple[int, int]], end: int) -> None:
    found = epochs(*steps)
    for _ in range(2):
        entries = found.entries
        assert entries == sorted(set(entries))
        assert len({start for _, start in entries}) == len(entries) == len({epoch for epoch, _ in entries})
        for offset in range(60):
            expected = [epoch for epoch, start in entries if start <= offset]
            assert found.epoch_of(offset) == (expected[-1] if expected else None)
        assert written(found) == (entries if steps else None)
        found.truncate_from_end(end)
        assert all(start < end for _, start in found.entries)
