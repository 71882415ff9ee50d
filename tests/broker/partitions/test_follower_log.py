"""How a follower appends what it has fetched, when DeleteRecords has moved the leader's log start into a batch."""

from __future__ import annotations

import pytest
from support.logs import append, memory_disk, open_log, read_batches

from minikafka.broker.partitions.follower_log import append_fetched
from minikafka.protocol.records.record import CorruptRecords
from minikafka.storage.logs.log import Log


def leader_bytes() -> memoryview:
    """A batch of epoch 1 with offsets 2 and 3."""
    leader = open_log(memory_disk())
    append(leader, b"0", b"1")
    append(leader, b"2", b"3", leader_epoch=1)
    found = leader.read(2, max_bytes=1 << 20)
    assert found is not None
    return memoryview(found.read())


def follower_that_ends_at_3() -> Log:
    """It has a record at offset 2 that its former leader never committed."""
    follower = open_log(memory_disk())
    append(follower, b"0", b"1")
    append(follower, b"never committed")
    return follower


def test_a_new_follower_starts_with_the_batch_in_which_its_leader_starts() -> None:
    follower = open_log(memory_disk())
    follower.truncate_fully_and_start_at(3)
    append_fetched(follower, leader_bytes(), leader_epoch=1, leader_start_offset=3)
    assert [(batch.base_offset, batch.last_offset) for batch in read_batches(follower)] == [(2, 3)]


def test_a_follower_whose_records_were_all_deleted_on_the_leader_starts_there_too() -> None:
    follower = follower_that_ends_at_3()
    append_fetched(follower, leader_bytes(), leader_epoch=1, leader_start_offset=3)
    assert [(batch.base_offset, batch.leader_epoch) for batch in read_batches(follower)] == [(2, 1)]
    assert follower.end_offset == 4
    assert follower.epochs.entries == [(1, 2)]


def test_a_batch_that_overlaps_records_which_the_leader_has_is_refused() -> None:
    follower = follower_that_ends_at_3()
    with pytest.raises(CorruptRecords, match="a batch starts at offset 2, expected 3"):
        append_fetched(follower, leader_bytes(), leader_epoch=1, leader_start_offset=2)
    assert follower.end_offset == 3
