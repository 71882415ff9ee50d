"""Mutation tests: bugs that are planted one at a time, each of which the test suite must catch.

A `Mutation` has a name that describes the bug, the file, a text that occurs exactly once in it, its replacement, and
the tests that must then fail (arguments for pytest). The lists are modules of this package, one for each subject, named
in `run.LISTS`: to plant bugs elsewhere, add a module with a tuple `MUTATIONS`.

    PYTHONPATH=tests python -m mutations.run                    # all
    PYTHONPATH=tests python -m mutations.run raft               # one list
    PYTHONPATH=tests python -m mutations.run "no pre-vote"      # those whose name contains the text

The bugs of whole nodes (`nodes.py`, `coordination.py`), and those of other lists that a cluster shows, are caught by
stories in `tests/simulation/`. What the seeds of a simulation notice by themselves is measured by
`python -m mutations.seeds`, for all lists: of whole clusters, of those whose voters come and go, of Raft alone
(`simulation/raft.py`), and of the replicas of a partition (`support/replica_simulation.py`).

The tree itself is never touched: the room with the bug is copied, and the copy is what the tests import. The test in
this folder, which is part of every test run, holds the lists to the code: a text that has changed is noticed at once.
"""

from __future__ import annotations

from dataclasses import dataclass

SEEDS_MAX = {"clusters": 16, "voters": 40, "raft": 2000, "replicas": 300}
"""By simulation, how many seeds are tried."""
STORY_ONLY = -1
TEST_ONLY = -2


@dataclass(frozen=True, slots=True)
class Mutation:
    """A bug.

    Attributes:
        name: what is wrong, as a sentence.
        file: from the repository's root, in one of the rooms.
        old: what is right; occurs exactly once.
        new: the bug.
        tests: arguments for pytest; with the bug at least one test of these fails, without it none.
        seeds: so many seeds of the simulation, from 0 on, sufficed to notice it (`seeds.py`); `STORY_ONLY` if the first
            `SEEDS_MAX` did not, so that a story is what shows it, and `TEST_ONLY` if it is a test of a smaller part; 0
            if it is not measured. After a change of the code other seeds notice it.
        simulation: whose seeds these are, a key of `SEEDS_MAX`.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    seeds: int = 0
    simulation: str = "clusters"
