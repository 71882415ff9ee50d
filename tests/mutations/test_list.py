"""Every mutation applies to the current sources; `run.py` plants them."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from mutations import SEEDS_MAX, STORY_ONLY, TEST_ONLY, Mutation
from mutations.run import LISTS, mutate, mutations_of

ALL = [mutation for name in LISTS for mutation in mutations_of(name)]


@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_a_mutation_applies(mutation: Mutation) -> None:
    assert mutation.old != mutation.new
    assert mutation.tests
    ast.parse(mutate(mutation))


def test_bugs_of_whole_nodes_are_shown_by_seeds_or_by_a_story() -> None:
    of_nodes = [mutation for mutation in ALL if any("tests/simulation/" in test for test in mutation.tests)]
    assert len(of_nodes) >= 30
    assert all(TEST_ONLY <= mutation.seeds <= SEEDS_MAX[mutation.simulation] for mutation in ALL)
    assert all(mutation.seeds != STORY_ONLY or mutation in of_nodes for mutation in ALL)
    assert all(mutation.seeds != TEST_ONLY or mutation not in of_nodes for mutation in ALL)


def test_simulations_show_about_half_of_the_bugs() -> None:
    assert sum(mutation.seeds > 0 or mutation.seeds == STORY_ONLY for mutation in ALL) >= 150


def test_mutation_names_are_unique() -> None:
    assert not [name for name, count in Counter(mutation.name for mutation in ALL).items() if count > 1]
