"""Committed offsets of groups that go back."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from chaos.checks.anomaly import Anomaly, Kind
from chaos.checks.facts import Facts, Transaction
from chaos.history import NEVER, CommitOffsets, FetchOffsets, Operation, Outcome
from minikafka.protocol.names import TopicPartition

NONE = -1
"""No committed offset."""


class _Commit(NamedTuple):
    """A commit of one partition; it takes effect between `invoked` and `ends`."""

    offset: int
    invoked: int
    ends: int
    certain: bool
    operation: Operation


class _Fetch(NamedTuple):
    offset: int
    operation: Operation


def check_committed_offsets(facts: Facts) -> Iterator[Anomaly]:
    """Check each partition of each group: a commit is not undone unless an earlier offset is committed after it."""
    commits: defaultdict[tuple[str, TopicPartition], list[_Commit]] = defaultdict(list)
    fetches: defaultdict[tuple[str, TopicPartition], list[_Fetch]] = defaultdict(list)
    for operation, transaction in facts.committed_offsets:
        if isinstance(operation.action, CommitOffsets) and not _failed(operation, transaction):
            ends, certain = _effect(operation, transaction)
            for name, offset in operation.action.offsets:
                commits[operation.action.group, name].append(
                    _Commit(offset, operation.invoked, ends, certain, operation)
                )
    for operation in facts.fetched_offsets:
        if isinstance(operation.action, FetchOffsets):
            for name, fetched in operation.action.offsets:
                fetches[operation.action.group, name].append(_Fetch(NONE if fetched is None else fetched, operation))
    for (group, name), some in fetches.items():
        yield from _check(f"the committed offset of {group} in {name}", commits[group, name], some)


def _failed(operation: Operation, transaction: Transaction | None) -> bool:
    return operation.outcome is Outcome.FAIL or (transaction is not None and transaction.aborted)


def _effect(operation: Operation, transaction: Transaction | None) -> tuple[int, bool]:
    """When the commit has taken effect at the latest, and whether it certainly has."""
    if transaction is None:
        return operation.ends, operation.outcome is Outcome.OK
    commit = transaction.commit_ok
    if commit is None or operation.outcome is not Outcome.OK:
        return NEVER, False
    return commit.completed, True


def _check(subject: str, commits: list[_Commit], fetches: list[_Fetch]) -> Iterator[Anomaly]:
    """Go through the invocations and completions in their order."""
    steps: list[tuple[int, int, _Commit | _Fetch]] = []
    for number, commit in enumerate(commits):
        steps.append((commit.invoked, number, commit))
        if commit.certain:
            steps.append((commit.ends, number, commit))
    for number, fetch in enumerate(fetches, len(commits)):
        steps += [(fetch.operation.invoked, number, fetch), (fetch.operation.completed, number, fetch)]
    steps.sort(key=lambda step: step[:2])
    ends_of: dict[int, int] = {}
    """For each offset the end of its last commit so far."""
    newest = _Newest()
    required: dict[int, _Commit | None] = {}
    for at, number, step in steps:
        if isinstance(step, _Commit):
            if at == step.invoked:
                ends_of[step.offset] = max(ends_of.get(step.offset, -1), step.ends)
            else:
                newest.add(step)
        elif at == step.operation.invoked:
            required[number] = newest.above(step.offset)
        else:
            undone = required.pop(number)
            if undone is not None and undone.invoked > ends_of.get(step.offset, -1):
                there = "none" if step.offset == NONE else step.offset
                said = f"{subject} is {there} after {undone.offset} was committed"
                yield Anomaly(Kind.COMMITTED_OFFSET_BACK, said, (undone.operation, step.operation))


class _Newest:
    """The commits that are complete, without those for which a newer one has an offset as high."""

    def __init__(self) -> None:
        self._commits: list[_Commit] = []
        """Invocations rise and offsets fall."""

    def add(self, commit: _Commit) -> None:
        newer: list[_Commit] = []
        while self._commits and self._commits[-1].invoked > commit.invoked:  # was concurrent with this one
            newer.append(self._commits.pop())
        if not newer or newer[-1].offset < commit.offset:
            while self._commits and self._commits[-1].offset <= commit.offset:
                self._commits.pop()
            self._commits.append(commit)
        self._commits += reversed(newer)

    def above(self, offset: int) -> _Commit | None:
        """The newest commit of a higher offset."""
        count = bisect_left(self._commits, -offset, key=lambda one: -one.offset)
        return self._commits[count - 1] if count else None
