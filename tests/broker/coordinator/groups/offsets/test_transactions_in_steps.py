"""A transaction with very many offsets ends in steps; whatever comes in between, the outcome is that of the log."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import trio
from support.batches import encode_batch
from support.coordinator_node import MemoryLogs, MemoryNode, run_with_node

from minikafka.broker.coordinator.groups.group_coordinator import TOPIC
from minikafka.broker.coordinator.groups.state import offset_table
from minikafka.broker.coordinator.groups.state.group_records import OffsetCommitValue, encode_record
from minikafka.broker.coordinator.groups.state.offset_table import NO_PRODUCER, OffsetTable
from minikafka.protocol.messages.group_records import OffsetCommitKey
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.control import ControlType, EndTxnMarker, encode_end_transaction
from minikafka.protocol.records.record import Record
from minikafka.storage.steps import at_once
from minikafka.storage.waits import Rest, begin

HOME = TopicPartition(TOPIC, 0)
COUNT = 20
Change = Callable[[OffsetTable], None]


def keys(count: int = COUNT) -> list[OffsetCommitKey]:
    return [OffsetCommitKey(group=f"g{number % 3}", topic="t", partition=number) for number in range(count)]


def content(table: OffsetTable) -> Any:
    """Which offsets a table has, and what is pending, in any order."""
    groups = sorted(table.groups())
    committed = [(group, sorted((topic, sorted(dict(some).items())) for topic, some in table.topics(group)))
                 for group in groups]  # fmt: skip
    return committed, [(group, sorted(table.pending(group))) for group in groups]


def a_change(random: Random, offset: int) -> Change:
    """A record of the log at this offset, or another marker."""
    key, producer = random.choice(keys()), random.choice([NO_PRODUCER, NO_PRODUCER, 7, 8])
    value = None if random.random() < 0.3 else OffsetCommitValue(offset=offset)
    if random.random() < 0.1:
        committed = random.random() < 0.7
        return lambda table: at_once(table.end_transaction(producer, committed=committed))  # type: ignore[arg-type]
    return lambda table: table.apply(key, value, offset, producer)


@pytest.mark.parametrize("seed", range(100))
def test_what_comes_in_between_comes_after_the_whole_transaction(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_table, "ENDED_AT_ONCE", 3)
    random = Random(seed)
    stepped, whole = OffsetTable(), OffsetTable()
    for offset in range(60):
        change = a_change(random, offset)
        change(stepped)
        change(whole)
    offset, committed = 100, random.random() < 0.7
    at_once(whole.end_transaction(7, committed=committed))  # type: ignore[arg-type]
    for _ in stepped.end_transaction(7, committed=committed):
        for _ in range(random.randrange(4)):
            offset += 1
            change = a_change(random, offset)
            change(stepped)
            change(whole)
    assert content(stepped) == content(whole)


def test_a_step_ends_some_offsets_and_the_rest_is_pending() -> None:
    table, count = OffsetTable(), 3 * offset_table.ENDED_AT_ONCE
    for offset, key in enumerate(keys(count)):
        table.apply(key, OffsetCommitValue(offset=offset), offset, 7)
    left = [sum(len(table.pending(group)) for group in table.groups())
            for _ in table.end_transaction(7, committed=True)]  # fmt: skip
    assert left == [2 * offset_table.ENDED_AT_ONCE, offset_table.ENDED_AT_ONCE, 0]
    assert len(table) == count


def filled() -> MemoryLogs:
    logs = MemoryLogs()
    records = [Record(-1, 1, *encode_record(key, OffsetCommitValue(offset=5))) for key in keys()]
    batch = encode_batch(records, producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    logs.append(HOME, bytearray(batch))
    return logs


@pytest.mark.parametrize("end", ["awaited", "cancelled", "given up"])
def test_a_marker_in_the_log_is_applied_as_a_whole(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_table, "ENDED_AT_ONCE", 3)
    marker = encode_end_transaction(EndTxnMarker(ControlType.COMMIT, 0), producer_id=9, producer_epoch=0, timestamp=1)

    async def body(node: MemoryNode) -> None:
        runtime = node.groups.runtime
        await runtime.until_loaded(0, 5)
        (state,) = [one for one in runtime.states() if one.offsets.groups()]
        begun = begin(runtime.end_transaction(0, marker, 9, committed=True))
        assert isinstance(begun, Rest)
        assert 0 < len(state.offsets) < COUNT, "others run in between"
        if end == "given up":
            begun.close()
        else:
            with trio.CancelScope() as scope:
                if end == "cancelled":
                    scope.cancel()
                await begun
        assert len(state.offsets) == COUNT
        assert not any(state.offsets.pending(group) for group in state.offsets.groups())

    run_with_node(body, filled())
