"""Proof that the tests would notice: bugs that are planted one at a time, each of which the suite must catch.

A bug is a `Mutation`: a name that is a sentence, the file, a text that occurs in it exactly once, what stands there
instead, and the tests that must fail then (arguments for pytest). Lists of them are modules of this package named in
`run.LISTS`, one for each subject: add a module with a tuple `MUTATIONS` to plant bugs somewhere else.

    PYTHONPATH=tests python -m mutations.run                    # all of them
    PYTHONPATH=tests python -m mutations.run raft               # one list
    PYTHONPATH=tests python -m mutations.run "no pre-vote"      # those whose name has this in it

The tree itself is never touched: the room with the bug is copied, and the copy is what the tests import. The test in
this folder, which is part of every test run, holds the lists to the code: a text that has changed is noticed at once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutation:
    """A bug.

    Attributes:
        name: what is wrong, as a sentence.
        file: from the repository's root, in one of the rooms.
        old: what is right; occurs exactly once.
        new: the bug.
        tests: arguments for pytest; with the bug at least one test of these fails, without it none.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
