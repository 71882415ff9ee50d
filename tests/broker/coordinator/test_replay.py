"""Replaying the log of a coordinator: in steps, and with the result of applying every record."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from support.batches import encode_batch

from minikafka.broker.coordinator.groups.group_settings import GroupSettings
from minikafka.broker.coordinator.groups.group_shard import GroupShard
from minikafka.broker.coordinator.groups.state.group_records import OffsetCommitValue
from minikafka.broker.coordinator.replay import (
    APPLY_WORK,
    BATCH_WORK,
    SLICE_RECORDS,
    VALUE_BYTES,
    WORK_AT_ONCE,
    SkippedRecords,
    replay,
)
from minikafka.controller.metadata.image import Image
from minikafka.protocol.messages.group_records import OffsetCommitKey
from minikafka.protocol.records.batch import Batch, batches
from minikafka.protocol.records.control import ControlType, EndTxnMarker, encode_end_transaction
from minikafka.protocol.records.record import CorruptRecords, Record
from minikafka.storage.steps import at_once

NO_PRODUCER = -1


def shard() -> GroupShard:
    return GroupShard(GroupSettings(), Random(1), Image())


def commits(
    first: int, keys: list[int], *, producer_id: int = NO_PRODUCER, deleted: frozenset[int] = frozenset()
) -> bytes:
    """A batch of commits of offset `first`, or tombstones."""
    records = []
    for delta, key in enumerate(keys):
        value = None if key in deleted else OffsetCommitValue(offset=first)
        parts = GroupShard.encode(OffsetCommitKey(group=f"group-{key % 7}", topic="topic", partition=key), value)
        records.append(Record(first + delta, 1, *parts))
    transactional = producer_id != NO_PRODUCER
    return encode_batch(
        records,
        base_offset=first,
        producer_id=producer_id,
        producer_epoch=0 if transactional else -1,
        base_sequence=0 if transactional else -1,
        transactional=transactional,
    )


def marker(first: int, producer_id: int, kind: ControlType) -> bytes:
    end = EndTxnMarker(kind, 0)
    data = bytearray(encode_end_transaction(end, producer_id=producer_id, producer_epoch=0, timestamp=1))
    data[:8] = first.to_bytes(8, "big")
    return bytes(data)


def random_log(random: Random) -> bytes:
    log, offset = b"", 0
    for _ in range(60):
        keys = random.sample(range(20), random.randrange(1, 6))
        match random.randrange(10):
            case 0 | 1:
                log += commits(offset, keys, producer_id=random.randrange(2))
            case 2:
                kind = random.choice([ControlType.COMMIT, ControlType.ABORT])
                log, keys = log + marker(offset, random.randrange(2), kind), [0]
            case 3:
                log += commits(offset, keys, deleted=frozenset(keys[:2]))
            case _:
                log += commits(offset, keys)
        offset += len(keys)
    return log


def in_steps(state: GroupShard, log: bytes, from_offset: int = 0) -> tuple[int, int]:
    """The offset after the log, and the number of pauses."""
    steps, pauses = replay(state, log, from_offset, SkippedRecords()), 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value, pauses
        pauses += 1


def offsets(state: GroupShard) -> dict[str, object]:
    return {f"group-{number}": state.offsets.topics(f"group-{number}") for number in range(7)}


@pytest.mark.parametrize("seed", range(30))
def test_only_the_last_record_of_a_key_is_applied_with_the_same_result(seed: int) -> None:
    log = random_log(Random(seed))
    together, one_by_one = shard(), shard()
    end, _ = in_steps(together, log)
    for batch in batches(log):
        in_steps(one_by_one, bytes(batch.data), batch.base_offset)
    assert end == batch.next_offset
    for group, topics in offsets(one_by_one).items():
        found = {topic: dict(partitions) for topic, partitions in together.offsets.topics(group)}
        assert found == {topic: dict(partitions) for topic, partitions in topics}
    for producer_id in (0, 1):
        for state in (together, one_by_one):
            at_once(state.end_transaction(producer_id, committed=True))
    assert len(together.offsets) == len(one_by_one.offsets)


class Counted:
    """A state that keeps nothing, and the work since the last pause and in all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, last_record_counts: bool) -> None:
        self.last_record_counts = last_record_counts
        self.work = self.work_max = self.work_in_all = 0
        self.applied: list[int] = []
        decode = Batch.records

        def records(batch: Batch) -> list[Record]:
            found = decode(batch)
            self._worked(BATCH_WORK + len(found))
            return found

        monkeypatch.setattr(Batch, "records", records)

    def _worked(self, work: int) -> None:
        self.work += work
        self.work_in_all += work
        self.work_max = max(self.work_max, self.work)

    def decode(self, key: bytes, value: bytes | None) -> tuple[Any, Any | None]:
        self._worked(APPLY_WORK + len(value or b"") // VALUE_BYTES)
        return key, value

    def apply(self, key: Any, value: Any | None, record_offset: int, producer_id: int) -> None:
        self.applied.append(record_offset)

    def end_transaction(self, producer_id: int, *, committed: bool) -> Iterator[None]:
        self._worked(BATCH_WORK)
        return iter(())


def log_of(count: int, together: int, value_size: int, *, transactional: bool) -> bytes:
    """So many records, some in each batch; each has a key of its own."""
    log = b""
    for first in range(0, count, together):
        records = [Record(offset, 1, b"%d" % offset, bytes(value_size)) for offset in range(first, first + together)]
        log += encode_batch(
            records,
            base_offset=first,
            producer_id=7 if transactional else NO_PRODUCER,
            producer_epoch=0 if transactional else -1,
            base_sequence=0 if transactional else -1,
            transactional=transactional,
        )
    return log


@pytest.mark.parametrize("last_record_counts", [True, False])
@pytest.mark.parametrize("transactional", [True, False])
@pytest.mark.parametrize(
    ("count", "together", "value_size"),
    [(5000, 1, 10), (4900, 7, 10), (10_000, 10_000, 10), (1 + SLICE_RECORDS, 1 + SLICE_RECORDS, 10), (300, 3, 10_000)],
    ids=["one-record batches", "small batches", "one batch", "one record more than a slice", "long values"],
)
def test_whatever_a_log_consists_of_no_step_is_long(
    count: int, together: int, value_size: int, *, transactional: bool, last_record_counts: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    log = log_of(count, together, value_size, transactional=transactional)
    state, pauses = Counted(monkeypatch, last_record_counts=last_record_counts), 0
    for _ in replay(state, log, 0, SkippedRecords()):
        state.work, pauses = 0, pauses + 1
    assert state.applied == list(range(count))
    assert state.work_max <= WORK_AT_ONCE + SLICE_RECORDS + BATCH_WORK + APPLY_WORK + value_size // VALUE_BYTES
    assert pauses <= state.work_in_all // WORK_AT_ONCE, "not without need"


def test_very_many_markers_take_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    log = b"".join(marker(offset, 7, ControlType.ABORT) for offset in range(WORK_AT_ONCE))
    state = Counted(monkeypatch, last_record_counts=True)
    assert sum(1 for _ in replay(state, log, 0, SkippedRecords())) == BATCH_WORK


@pytest.mark.slow
def test_many_commits_of_few_keys_take_pauses_and_are_applied_once() -> None:
    log = b"".join(commits(first, list(range(100))) for first in range(0, 100_000, 100))
    state, applied = shard(), list[int]()
    apply = state.apply

    def counted(key: object, value: object, record_offset: int, producer_id: int) -> None:
        applied.append(record_offset)
        apply(key, value, record_offset, producer_id)

    state.apply = counted  # type: ignore[method-assign]
    end, pauses = in_steps(state, log)
    assert (end, len(applied)) == (100_000, 100)
    assert pauses >= 100_000 // WORK_AT_ONCE


def test_records_before_the_offset_are_not_applied_again() -> None:
    state = shard()
    assert in_steps(state, commits(0, [1, 2, 3]), 2) == (3, 0)
    assert len(state.offsets) == 1


def test_the_order_of_the_last_records_is_kept() -> None:
    state, applied = shard(), list[int]()

    def apply(key: object, value: object, record_offset: int, producer_id: int) -> None:
        applied.append(record_offset)

    state.apply = apply  # type: ignore[method-assign]
    in_steps(state, commits(0, [1, 2]) + commits(2, [1, 3]))
    assert applied == [1, 2, 3]


@pytest.mark.parametrize("kind", ["last records", "transactional", "a marker"])
def test_a_batch_with_a_wrong_checksum_ends_the_load(kind: str) -> None:
    """Or the coordinator would answer with an offset that nobody committed."""
    batch = {
        "last records": commits(1, [1]),
        "transactional": commits(1, [1], producer_id=7),
        "a marker": marker(1, 7, ControlType.COMMIT),
    }[kind]
    damaged = bytearray(commits(0, [0]) + batch)
    damaged[-12] ^= 1
    with pytest.raises(CorruptRecords, match="batch at offset 1 has CRC"):
        at_once(replay(shard(), bytes(damaged), 0, SkippedRecords()))
