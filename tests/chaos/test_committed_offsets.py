"""Tests of the check of committed offsets: random concurrent commits, compared with the definition."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.checker import check
from chaos.checks.anomaly import Kind
from chaos.history import CommitOffsets, Event, FetchOffsets, Operation, Outcome, Recorder, operations
from minikafka.protocol.names import TopicPartition

PARTITION = TopicPartition("events", 0)


def random_history(chance: random.Random, count: int) -> list[Event]:
    """Commits and readings of a few offsets that overlap in time; the readings return anything."""
    recorder, running = Recorder(), list[Event]()
    for number in range(count):
        while running and chance.random() < 0.5:
            event = running.pop(chance.randrange(len(running)))
            if isinstance(event.action, FetchOffsets):
                fetched = chance.choice([None, 0, 1, 2, 3])
                recorder.complete(event, Outcome.OK, FetchOffsets("group", ((PARTITION, fetched),)))
            else:
                recorder.complete(event, chance.choice([Outcome.OK, Outcome.OK, Outcome.FAIL, Outcome.UNKNOWN]))
        commit = CommitOffsets("group", ((PARTITION, chance.randrange(4)),))
        fetch = FetchOffsets("group", ((PARTITION, None),))
        running.append(recorder.invoke(f"member-{number}", commit if chance.random() < 0.5 else fetch))
    return recorder.events


def goes_back(fetch: Operation, commits: list[tuple[int, Operation]]) -> bool:
    """A higher offset was certainly committed, and every commit of this one had ended before."""
    assert isinstance(fetch.action, FetchOffsets)
    offset = fetch.action.offsets[0][1]
    same = [one for at, one in commits if at == offset and one.invoked < fetch.completed]
    return any(
        [
            commit.outcome is Outcome.OK
            and commit.completed < fetch.invoked
            and (offset is None or at > offset)
            and all([one.ends < commit.invoked for one in same])
            for at, commit in commits
        ]
    )


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(1, 30))
@settings(max_examples=400)
def test_what_goes_back_is_as_defined(seed: int, count: int) -> None:
    history = random_history(random.Random(seed), count)
    done = operations(history)
    commits = [
        (one.action.offsets[0][1], one)
        for one in done
        if isinstance(one.action, CommitOffsets) and one.outcome is not Outcome.FAIL
    ]
    fetches = [one for one in done if isinstance(one.action, FetchOffsets) and one.outcome is Outcome.OK]
    wrong = {one.id for one in fetches if goes_back(one, commits)}
    found = check(history)
    assert {one.kind for one in found} <= {Kind.COMMITTED_OFFSET_BACK}
    assert {one.evidence[1].id for one in found} == wrong
