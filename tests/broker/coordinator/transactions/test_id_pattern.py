"""Patterns of ListTransactions: they match what Python's `re` matches, in steps, and none explodes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.broker.coordinator.transactions.id_pattern import InvalidPattern, Pattern
from minikafka.controller.steps import at_once

CHARACTERS = st.sampled_from(
    ["a", "b", "A", "-", r"\d", r"\.", ".", "[ab]", "[^a]", "[a-z_]", r"[\d\-]", "[]a]", "\u00e9"]
)
REFUSED = [
    *["(", ")", "[", "[z-a]", "*a", "a**", "a+{2}"],
    *["a{2,1}", "a{1001}", "(a{100}){100}", "(?=a)", r"(a)\1", r"\b", "a\\"],
    "(" * 200 + ")" * 200,
]
EXPRESSIONS = st.recursive(
    CHARACTERS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, inner).map(lambda both: f"(?:{both[0]}|{both[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"])).map(
            lambda both: f"({both[0]}){both[1]}"
        ),
        inner.map(lambda one: f"^{one}$"),
    ),
    max_leaves=5,
)


def matches(pattern: str, text: str) -> bool:
    return at_once(Pattern(pattern).matches(text))


@given(EXPRESSIONS, st.sampled_from(["", "(?i)", "(?s)"]), st.text("abA-1._]\n\u00e9", max_size=6))
def test_it_agrees_with_backtracking(pattern: str, flags: str, text: str) -> None:
    expected = re.compile(flags + pattern.replace("$", r"\Z"), re.ASCII).fullmatch(text) is not None
    assert matches(flags + pattern, text) == expected


@pytest.mark.parametrize("pattern", ["(a*)*b", "(a|aa)+$b", "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)b", "(a?){300}a{300}b"])
def test_a_pattern_that_explodes_by_backtracking_ends_and_pauses(pattern: str) -> None:
    pauses = sum(1 for _ in Pattern(pattern).matches("a" * 20_000))
    assert not matches(pattern, "a" * 100)
    assert pauses or "300" in pattern, "after 600 characters nothing can match any more"


@pytest.mark.parametrize("pattern", REFUSED)
def test_what_is_not_supported_or_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        Pattern(pattern)


@pytest.mark.parametrize("pattern", ["flights-[0-9]+", "", "a{,5}", "{", "x]"])
def test_usual_patterns_are_taken(pattern: str) -> None:
    assert not matches(pattern, "flights-")
