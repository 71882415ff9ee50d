"""Subscriptions by regular expression: what is refused with which words, and what matches."""

from __future__ import annotations

from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.broker.coordinator.groups.consumer import subscription_pattern
from minikafka.broker.coordinator.groups.consumer.subscription_pattern import MATCHES_AT_ONCE, check_pattern, resolve
from minikafka.controller.patterns import BRANCHES_MAX, COSTLY_MAX, DEPTH_MAX, OPTIONAL_MAX, REPEATED_MAX, Pattern
from minikafka.protocol.errors import InvalidRegularExpressionError
from minikafka.storage.steps import at_once

NAMES = ["flights", "flights-2024", "Flights", "_internal", "a.b"]
REFUSED = {
    "[unclosed": "missing closing ]",
    "(": "missing closing )",
    ")": "regexp/syntax: internal error",
    "*a": "missing argument to repetition operator",
    "a**": "invalid nested repetition operator",
    "a{1001}": "invalid repeat count",
    "a{99999999999}": "invalid repeat count",
    "[]x]a{1,100000000}": "invalid repeat count",
    "a{100000000,}": "invalid repeat count",
    "(?=a)": "invalid or unsupported Perl syntax",
    "(?<=a)": "invalid named capture",
    "(?P<>a)": "invalid named capture",
    r"(a)\1": "invalid escape sequence",
    r"\C": "invalid escape sequence",
    "[z-a]": "invalid character class range",
    "a\\": "trailing backslash at end of expression",
}
"""With the descriptions of RE2/J."""


@pytest.mark.parametrize("text", REFUSED)
def test_an_invalid_pattern_is_refused_with_kafkas_words(text: str) -> None:
    with pytest.raises(InvalidRegularExpressionError) as refused:
        check_pattern(text)
    assert str(refused.value) == f"SubscribedTopicRegex `{text}` is not a valid regular expression: {REFUSED[text]}."


@pytest.mark.parametrize(
    "text",
    [
        *("", "a|b", r"\Q\C\E", r"[[:alpha:]]+", r"\pL*", "(?i)x", "(?P<name>a)", "a{,5}", "x]"),
        *("[a{999999999}]", r"[]{999999999}]", r"\Qa{999999999}\E", r"a\{999999999}", "a{,999999999}"),
    ],
)
def test_patterns_of_re2_are_taken(text: str) -> None:
    check_pattern(text)


TOO_COSTLY = {
    "classes of Unicode": r"\pL" * (COSTLY_MAX + 1),
    "classes of Unicode in classes": r"(?i)[\PL]" * (COSTLY_MAX + 1),
    "counted repetitions": "a{0,1000}" * (COSTLY_MAX + 1),
    "many repetitions": "a{1,1000}" * 3,
    "many repetitions at least": "a{1000,}" * 3,
    "many repetitions exactly": "a{%s1000}" % ("0" * 5_000) * 3,
    "many repetitions in others": "(?:a{0,500}){0,2}" * 4,
    "counted repetitions of what is not plain": r"(?:[\]]\x{41}\Qa\E){0,9}" * (COSTLY_MAX + 1),
    "some of each": r"\pL\PL{2}(?:a|b){3,}" * (COSTLY_MAX // 3 + 1),
    "what is optional": "a?" * (OPTIONAL_MAX + 1),
    "branches": "a*" + "|a*" * (BRANCHES_MAX + 1),
    "branches in groups": "(a*|b)" * (BRANCHES_MAX + 1),
    "groups in each other": "((a)*" * (DEPTH_MAX + 1) + ")" * (DEPTH_MAX + 1),
}
LONG = {
    "classes of Unicode": "(" + r"\pN|" * COSTLY_MAX + ")",
    "counted repetitions": "|".join([r"\d{4}-\d{2}"] * (COSTLY_MAX // 2)),
    "many repetitions": "a{1,1000}" * (REPEATED_MAX // 1_000),
    "what is optional": "a?" * OPTIONAL_MAX,
    "branches": "a*" + "|a*" * BRANCHES_MAX,
    "groups in each other": "(" * DEPTH_MAX + "a" + ")" * DEPTH_MAX,
    "groups one after another": "(a)" * (2 * DEPTH_MAX) + r"\(\|[(|]" * (BRANCHES_MAX + 1),
    "names": "|".join(f"(topic-{number}.*)" for number in range(2_000)),
    "letters by number": r"\x{41}[\x{42}]\{2}" * 1_000,
    "quoted": r"\Q" + r"\pL{2}?" * 2_000,
    "in a class": "[" + "{2}?" * 2_000 + "]",
    "a count without an end": "{" + "0" * 32_000,
    "counts without an end": "{" + "0" * 16_000 + "," + "0" * 16_000,
    "many counts without an end": "{1," * 10_000,
    "many zeros": "a{" + "0" * 16_000 + "1," + "0" * 15_000 + "2}",
}


@pytest.mark.parametrize("text", TOO_COSTLY.values(), ids=TOO_COSTLY)
def test_what_takes_a_long_step_or_much_memory_to_compile_is_refused_before(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("re2.compile", lambda *_: pytest.fail("it is compiled"))
    with pytest.raises(InvalidRegularExpressionError, match="pattern too large"):
        check_pattern(text)


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_long_patterns_that_are_cheap_are_taken(text: str) -> None:
    check_pattern(text)


def test_one_pattern_is_compiled_at_a_time() -> None:
    compiled = WeakSet[Pattern]()

    class Counted(Pattern):
        def __init__(self, text: str) -> None:
            super().__init__(text)
            compiled.add(self)

    patterns = [f"topic-{number}" for number in range(10)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subscription_pattern, "Pattern", Counted)
        kept = [len(compiled) for _ in resolve(patterns, NAMES)]
    assert len(kept) == len(patterns), "others run before each"
    assert max(kept) == 1


def test_whole_names_match() -> None:
    found = at_once(resolve(["flights", "flights.*", "(?i)flights", "a.b|_.*", "light", "["], NAMES))
    assert found == {
        "flights": {"flights"},
        "flights.*": {"flights", "flights-2024"},
        "(?i)flights": {"flights", "Flights"},
        "a.b|_.*": {"a.b", "_internal"},
        "light": frozenset(),
        "[": frozenset(),
    }


@given(st.text("ab\\[](){}*+?|^$.,-1PQEC<>:=", max_size=12))
def test_any_text_is_either_refused_or_resolved(text: str) -> None:
    try:
        check_pattern(text)
    except InvalidRegularExpressionError:
        assert at_once(resolve([text], NAMES)) == {text: frozenset()}
    else:
        assert at_once(resolve([text], NAMES))[text] <= set(NAMES)


def test_many_topics_are_matched_in_steps() -> None:
    names = [f"topic-{number}" for number in range(1000)]
    pauses = sum(1 for _ in resolve(["topic-.*", "(a|aa)+b"], names))
    assert pauses == 2 + 2 * len(names) // MATCHES_AT_ONCE


def test_a_large_pattern_is_matched_in_more_steps() -> None:
    names = [f"topic-{number}" for number in range(1000)]
    assert sum(1 for _ in resolve(["x|" + "abcdefghij" * 1_100], names)) >= 100
