"""Tests of the history checker: planted anomalies, legal histories beside them, and random histories."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any, Protocol

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chaos.checker import check
from chaos.checks.anomaly import Kind
from chaos.history import (
    NAMES,
    AbortTransaction,
    CommitOffsets,
    CommitTransaction,
    DeleteRecords,
    Event,
    LogStart,
    Outcome,
    Poll,
    Produce,
    Read,
    ReadAll,
    Recorder,
    operations,
    read_lines,
    write_lines,
)
from chaos.model import Chances, Model, legal_history
from chaos.planted_histories import HISTORIES
from chaos.sabotage import SABOTAGE, History, Sabotage
from chaos.script import COMPACTED, FIRST, FORGETTING, KEEPING, Script
from minikafka.protocol.names import TopicPartition

TOPICS = {COMPACTED.topic}
PLANTED = {"compacted": {*TOPICS, KEEPING.topic, FORGETTING.topic}, "keeping": {KEEPING.topic},
           "forgetting": {FORGETTING.topic}}  # fmt: skip
SEEDS = st.integers(0, 2**32)


class Planted(Protocol):
    __name__: str

    def __call__(self, it: Script, *, legal: bool) -> tuple[int, ...]: ...


CASES = [pytest.param(kind, plant, id=plant.__name__) for kind, some in HISTORIES.items() for plant in some]


@pytest.mark.parametrize(("kind", "plant"), CASES)
def test_an_anomaly_is_reported_with_its_evidence(kind: Kind, plant: Planted) -> None:
    it = Script()
    evidence = plant(it, legal=False)
    (anomaly,) = check(it.recorder.events, **PLANTED)
    assert anomaly.kind is kind, anomaly
    assert set(evidence) == {one.id for one in anomaly.evidence}, anomaly


@pytest.mark.parametrize(("kind", "plant"), CASES)
def test_the_legal_history_beside_it_is_not_reported(kind: Kind, plant: Planted) -> None:
    it = Script()
    plant(it, legal=True)
    assert check(it.recorder.events, **PLANTED) == []


def test_every_kind_is_planted() -> None:
    assert set(HISTORIES) == set(Kind)


@pytest.mark.slow
@given(SEEDS, st.integers(1, 1500))
@settings(max_examples=200)
def test_a_random_legal_history_has_no_anomaly(seed: int, steps: int) -> None:
    assert check(legal_history(seed, steps), compacted=TOPICS, keeping=TOPICS) == []


@given(SEEDS, st.integers(1, 1500))
@settings(max_examples=100)
def test_a_random_legal_history_whose_tombstones_go_has_no_anomaly(seed: int, steps: int) -> None:
    assert check(legal_history(seed, steps, forgets=True), compacted=TOPICS, forgetting=TOPICS) == []


def test_tombstones_that_go_are_a_loss_where_they_may_not_go() -> None:
    models = [Model(random.Random(seed), Chances(deletion=0.1), forgets=True) for seed in range(10)]
    histories = [model.run(600) for model in models]
    kinds = {one.kind for history in histories for one in check(history, compacted=TOPICS, keeping=TOPICS)}
    assert Kind.LOST_WRITE in kinds


def test_the_random_histories_have_all_operations_and_outcomes() -> None:
    events = [event for seed in range(10) for event in legal_history(seed, 600)]
    outcomes = {(type(one.action), one.type) for one in events}
    assert {action for action, _ in outcomes} == set(NAMES) - {LogStart}
    uncertain = (Produce, Poll, CommitTransaction, AbortTransaction, CommitOffsets)
    assert {(one, "unknown") for one in uncertain} | {(Produce, "fail"), (CommitTransaction, "fail")} <= outcomes


def test_an_empty_history_has_no_anomaly() -> None:
    assert check([]) == []


@given(SEEDS, st.integers(0, 10**6))
@settings(max_examples=50)
def test_a_legal_history_that_ends_early_has_no_anomaly(seed: int, end: int) -> None:
    """The operations in progress then have an unknown outcome. The log start offsets are read at the end."""
    history = legal_history(seed, 600)
    readings = [one for one in history if isinstance(one.action, ReadAll)]
    recorder = Recorder(events=history[: end % history.index(readings[0])], next_number=len(history))
    for reading in readings:
        assert isinstance(reading.action, ReadAll)
        start = LogStart(reading.action.partition, reading.action.start)
        recorder.complete(recorder.invoke("admin", start), Outcome.OK)
    assert check(recorder.events, compacted=TOPICS) == []


@pytest.mark.slow
@given(SEEDS, st.data())
@settings(max_examples=50)
def test_lost_answers_make_no_anomaly(seed: int, data: st.DataObject) -> None:
    """Answers to producers, commits and deletions are taken away: their outcomes are unknown, with the same effects."""
    chance = random.Random(data.draw(SEEDS))
    history = [one for one in legal_history(seed, 600) if not (_changes_data(one) and chance.random() < 0.3)]
    assert check(history, compacted=TOPICS) == []


def _changes_data(event: Event) -> bool:
    return event.type == Outcome.OK and isinstance(
        event.action, Produce | CommitTransaction | AbortTransaction | CommitOffsets | DeleteRecords
    )


@pytest.mark.parametrize(("sabotage", "kind"), [pytest.param(*one, id=one[0].__name__) for one in SABOTAGE])
@given(SEEDS, st.integers(100, 600))
@settings(max_examples=25)
def test_an_anomaly_in_a_random_history_is_found(sabotage: Sabotage, kind: Kind, seed: int, steps: int) -> None:
    history = legal_history(seed, steps)
    assume(sabotage(History(history, random.Random(seed))))
    found = {one.kind for one in check(history, compacted=TOPICS)}
    assert kind in found
    assert found <= {kind, *ALSO.get(sabotage.__name__, ())}


ALSO = {"abort": [Kind.COMMITTED_OFFSET_BACK]}
"""A transaction that did not commit did not commit its offsets either."""


@pytest.mark.slow
@given(SEEDS)
@settings(max_examples=20)
def test_a_history_survives_json(seed: int) -> None:
    history = legal_history(seed, 300)
    assert list(read_lines(write_lines(history))) == history


@pytest.mark.parametrize("line", ["", "[]", "{}", "nonsense"])
def test_a_line_that_is_no_event_is_named(line: str) -> None:
    good = next(iter(write_lines(legal_history(1, 10))))
    with pytest.raises(ValueError, match="line 2 is no event"):
        list(read_lines([good, line]))


def test_a_completion_needs_an_invocation() -> None:
    event = Event(7, "p", "ok", Poll())
    with pytest.raises(ValueError, match="operation 7 completes without an invocation"):
        operations([event])
    with pytest.raises(ValueError, match="operation 7 is invoked twice"):
        operations([Event(7, "p", "invoke", Poll())] * 2)


def test_two_writes_need_two_values() -> None:
    it = Script()
    it.send("a", 0)
    it.send("a", 1)
    with pytest.raises(ValueError, match="events-0 has two writes of 'a'"):
        check(it.recorder.events)


def test_an_operation_without_an_answer_is_unknown() -> None:
    recorder = Recorder(clock=lambda: 17)
    recorder.invoke("p", Produce(FIRST, "k", "a"))
    recorder.complete(recorder.invoke("c", Poll()), Outcome.OK, Poll((Read(FIRST, 0, "k", "a"),)))
    poll, produce = operations(recorder.events)
    assert (poll.outcome, produce.outcome, produce.at_ns) == (Outcome.OK, Outcome.UNKNOWN, 17)
    assert check(recorder.events) == []


def test_an_anomaly_is_printed_with_its_evidence() -> None:
    it = Script()
    it.send("a", 0)
    it.read_all()
    lines = str(check(it.recorder.events)[0]).splitlines()
    assert lines[0] == "lost acknowledged write: 'a' was acknowledged at events-0:0 and is not in the log"
    assert [line.split(",")[0] for line in lines[1:]] == ["  p", "  last"]


def nothing_is_left(steps: int) -> list[Event]:
    """The final readings are empty."""
    return [
        replace(one, action=replace(one.action, records=())) if isinstance(one.action, ReadAll) else one
        for one in legal_history(1, steps)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("make", [partial(legal_history, 1), nothing_is_left])
def test_four_times_the_history_takes_about_four_times_the_steps(make: Callable[[int], list[Event]]) -> None:
    short, long = steps_for(make(3000)), steps_for(make(12000))
    assert long < 4 * 1.3 * short


def steps_for(history: list[Event]) -> int:
    """The count of lines that the checker executes."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        check(history, compacted=TOPICS)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    ("deletions", "offsets", "kinds"),
    [
        ({}, [0, 5], [Kind.DUPLICATE]),
        ({1: 1}, [0, 5], []),
        ({1: -1}, [0, 5], []),
        ({1: 6}, [0, 5], [Kind.DUPLICATE]),
        ({2: 1}, [0, 5], [Kind.DUPLICATE]),
        ({2: -1}, [0, 5], [Kind.DUPLICATE]),
        ({1: 1}, [0, 5, 7], [Kind.DUPLICATE]),
        ({1: 1, 2: 6}, [0, 5, 7], []),
        ({2: 6}, [0, 5, 7], [Kind.DUPLICATE]),
    ],
)
def test_a_copy_above_a_log_start_that_removed_the_first_one_is_no_duplicate(
    deletions: dict[int, int], offsets: list[int], kinds: list[Kind]
) -> None:
    """The only batch of a producer is deleted; a replica is made anew, leads, and gets the first request once more.

    `deletions` has the offset of the deletion before each reading, by its position.
    """
    tp, recorder = TopicPartition("t", 0), Recorder()
    for value, offset in (("a:0", 0), ("b:0", 1)):
        made = recorder.invoke(value[0], Produce(tp, None, value, acks_all=True, idempotent=True))
        recorder.complete(made, Outcome.OK, replace(made.action, offset=offset))
    for position, offset in enumerate([*offsets, None]):
        if position in deletions:
            before = deletions[position]
            recorder.complete(recorder.invoke("admin", DeleteRecords(tp, before)), Outcome.OK)
            start = LogStart(tp, 1 if before == -1 else before)
            recorder.complete(recorder.invoke("admin", start), Outcome.OK, start)
        if offset is not None:
            poll = Poll((Read(tp, offset, None, "a:0"),))
            recorder.complete(recorder.invoke(f"reader-{offset}", poll), Outcome.OK, poll)
    assert [one.kind for one in check(recorder.events)] == kinds
