"""Subscriptions by regular expression: `check_pattern`, and `resolve`, which finds the topics of many patterns.

A pattern matches whole names. Kafka's `TopicRegexResolver` does the same with RE2/J.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from minikafka.controller.patterns import WORK_AT_ONCE, InvalidPattern, Pattern
from minikafka.protocol.errors import InvalidRegularExpressionError

MATCHES_AT_ONCE = 256
"""Names matched between two pauses; about 3 ms."""


def check_pattern(text: str) -> None:
    """Raises InvalidRegularExpressionError, with Kafka's message, if the text is no regular expression."""
    try:
        Pattern(text)
    except InvalidPattern as error:
        raise InvalidRegularExpressionError(
            f"SubscribedTopicRegex `{text}` is not a valid regular expression: {error}."
        ) from error


def resolve(texts: Iterable[str], names: Iterable[str]) -> Generator[None, None, dict[str, frozenset[str]]]:
    """Find the topics that match each pattern. Other tasks may run at each `yield` (`pauses.in_steps`).

    Args:
        texts: The patterns. One that is invalid matches nothing: it has been read from a log, not from a member.
        names: All topics.

    Returns:
        The names that match, by pattern.
    """
    all_names = list(names)
    found: dict[str, set[str]] = {}
    matches = work = 0
    for text in texts:
        yield  # The largest pattern takes a step to compile.
        found[text] = set()
        pattern = _pattern_or_none(text)
        if pattern is None:
            continue
        for name in all_names:
            if pattern.matches(name):
                found[text].add(name)
            matches += 1
            work += pattern.work(name)
            if matches >= MATCHES_AT_ONCE or work >= WORK_AT_ONCE:
                matches = work = 0
                yield
    return {text: frozenset(matching) for text, matching in found.items()}


def _pattern_or_none(text: str) -> Pattern | None:
    try:
        return Pattern(text)
    except InvalidPattern:
        return None
