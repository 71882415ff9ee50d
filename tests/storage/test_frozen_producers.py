"""Snapshots of many producers: encoded by the next flush, in its thread, as they were when the segment was rolled."""

from __future__ import annotations

from random import Random

import pytest
import trio
from support.logs import PARTITION, append, make_batch, memory_disk, open_log, parse

from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs import producer_snapshots, producer_state
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.producer_state import ProducerStates

MANY = 12


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_snapshots, "AT_ONCE", MANY - 1)


def apply_at_random(states: ProducerStates, random: Random) -> None:
    """A batch of an earlier or of a new producer, sometimes of a new epoch."""
    options = {"producer_id": random.randrange(2 * MANY), "producer_epoch": random.randrange(3)}
    batch = parse(make_batch([b"x"] * random.randint(1, 3), base_sequence=random.randrange(9), **options))
    batch.base_offset = states.end_offset
    states.apply(batch)
    states.end_offset += batch.last_offset_delta + 1


def states_of(random: Random) -> ProducerStates:
    states = ProducerStates(PARTITION)
    for _ in range(5 * MANY):
        apply_at_random(states, random)
    return states


@pytest.mark.parametrize("seed", range(50))
def test_producers_that_change_before_and_while_they_are_encoded_are_encoded_as_they_were(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    states = states_of(random)
    expected, frozen = states.encode_snapshot(), states.freeze()
    read, is_encoding = producer_state._entry, False

    def interrupted(producer: producer_state.Producer) -> bytes:
        if not is_encoding:
            return read(producer)
        monkeypatch.undo()
        for _ in range(random.randrange(4)):
            apply_at_random(states, random)
        found = read(producer)
        for _ in range(random.randrange(4)):
            apply_at_random(states, random)
        monkeypatch.setattr(producer_state, "_entry", interrupted)
        return found

    monkeypatch.setattr(producer_state, "_entry", interrupted)
    for _ in range(random.randrange(9)):
        apply_at_random(states, random)
    if seed % 5 == 0:
        list(states.expire(1 << 60))
    is_encoding = True
    assert frozen.encode() == expected


def filled(seed: object = 0) -> Log:
    log = open_log(memory_disk(seed))
    for number in range(MANY):
        append(log, b"a", producer_id=number, producer_epoch=0, base_sequence=0)
    return log


def test_a_roll_encodes_few_producers_and_leaves_many_to_the_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled()
    expected = log.producers.encode_snapshot()
    with monkeypatch.context() as patched:
        patched.setattr(producer_state.FrozenProducers, "encode", None)
        for number in range(3):
            log.roll()
            append(log, b"later", producer_id=number, producer_epoch=0, base_sequence=1)
    assert log.state.snapshots.offsets == []
    trio.run(log.flush_async)
    assert log.disk.read_bytes(log.state.snapshots.path(MANY)) == expected
    assert log.state.snapshots.offsets == [MANY]
    log.roll()
    trio.run(log.flush_async)
    assert log.state.snapshots.offsets == [MANY, MANY + 3]
    assert not log.flush_wanted


@pytest.mark.parametrize("offset", [3, MANY - 1, MANY, MANY + 1])
@pytest.mark.parametrize("is_flushing", [False, True])
def test_a_snapshot_that_was_truncated_away_before_it_was_written_does_not_come_back(
    offset: int, is_flushing: bool
) -> None:
    log = filled()
    log.roll()
    append(log, b"b", b"c")

    async def meanwhile() -> None:
        log.truncate_to(offset)

    if is_flushing:
        log.disk.pause = meanwhile  # type: ignore[attr-defined]
        trio.run(log.flush_async)
        log.disk.pause = None  # type: ignore[attr-defined]
    else:
        log.truncate_to(offset)
    while log.end_offset < MANY + 2:
        append(log, b"new", producer_id=100 + log.end_offset, producer_epoch=0, base_sequence=0)
    expected = log.producers.encode_snapshot()
    log.close()
    names = log.disk.list("/data/flights-0")
    assert [int(name[:20]) for name in names if name.endswith(".snapshot")] == log.state.snapshots.offsets
    again = open_log(log.disk, clean=True)
    assert again.producers.encode_snapshot() == expected


@pytest.mark.parametrize("is_flushed", [False, True])
@pytest.mark.parametrize("rolled", [0, 1, 2])
def test_a_clean_stop_and_a_kill_keep_the_producers(rolled: int, is_flushed: bool) -> None:
    for is_clean in (True, False):
        log = filled()
        for _ in range(rolled):
            log.roll()
            append(log, b"b")
        if is_flushed:
            log.flush()
        expected = log.producers.encode_snapshot()
        if is_clean:
            log.close()
            assert log.state.snapshots.offsets[-1] == log.end_offset
        again = open_log(log.disk, clean=is_clean, recovery_point=log.recovery_point)
        assert again.producers.encode_snapshot() == expected


@pytest.mark.parametrize("rolled", [0, 1, 2])
def test_producers_whose_records_are_deleted_before_the_snapshot_was_written_survive_a_kill(rolled: int) -> None:
    log = filled()
    for _ in range(rolled):
        log.roll()
        append(log, b"b")
    log.update_config(LogConfig(retention_bytes=0))
    log.delete_old_segments(log.end_offset)
    again = open_log(log.disk, start_offset=log.start_offset, recovery_point=log.recovery_point)
    assert [one.producer_id for one in again.producers] == list(range(MANY))


def step(log: Log, random: Random) -> None:
    """Something that a log does while the snapshot of its producers is pending, or that makes it pending."""
    number = random.randrange(3 * MANY)
    if random.random() < 0.6:
        append(log, b"a", producer_id=number, producer_epoch=log.end_offset, base_sequence=0)
        return
    random.choice(
        [
            log.roll,
            log.flush,
            lambda: log.truncate_to(random.randint(0, log.end_offset)),
            lambda: log.truncate_fully_and_start_at(log.end_offset),
            lambda: log.delete_old_segments(log.end_offset),
            lambda: list(log.producers.expire(1 << 60 if random.random() < 0.2 else 0)),
        ]
    )()


@pytest.mark.parametrize("seed", range(60))
def test_entries_of_producers_are_kept_only_while_a_snapshot_is_to_be_written(seed: int) -> None:
    """Whatever drops the pending snapshot: otherwise the memory grew with each new producer."""
    log, random = filled(seed), Random(seed)
    log.update_config(LogConfig(retention_bytes=100))
    log.roll()
    assert log.state.snapshots.pending is not None
    for _ in range(150):
        step(log, random)
        assert log.producers._frozen is log.state.snapshots.pending


def test_a_copy_that_takes_the_place_of_a_log_keeps_no_entries_for_the_snapshot_of_that() -> None:
    log, copy = filled(), filled()
    log.roll()
    assert log.producers._frozen is not None
    copy.take_over(log)
    assert copy.producers is log.producers
    assert copy.producers._frozen is copy.state.snapshots.pending is None
