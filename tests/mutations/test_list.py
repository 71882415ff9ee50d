"""Every mutation applies to the current sources; `run.py` plants them."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from mutations import Mutation
from mutations.run import LISTS, mutate, mutations_of

ALL = [mutation for name in LISTS for mutation in mutations_of(name)]


@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_a_mutation_applies(mutation: Mutation) -> None:
    assert mutation.old != mutation.new
    assert mutation.tests
    ast.parse(mutate(mutation))


def test_mutation_names_are_unique() -> None:
    assert not [name for name, count in Counter(mutation.name for mutation in ALL).items() if count > 1]
