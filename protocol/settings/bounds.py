"""Validators of setting values: ranges, enumerations and patterns, as in Kafka's `ConfigDef`."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from minikafka.protocol.settings.value_types import SettingValue


@dataclass(frozen=True, slots=True)
class Valid:
    """A bound on parsed values.

    Attributes:
        text: the bound as Kafka's documentation spells it.
        problem: Kafka's error message for a parsed value, or None if the value is valid.
        distinct: whether duplicates are removed from a list, and empty items are refused.
    """

    text: str
    problem: Callable[[SettingValue], str | None]
    distinct: bool = False


def at_least(low: int) -> Valid:
    """Numbers not less than `low`."""
    return between(low, None)


def between(low: int, high: int | None) -> Valid:
    """Numbers from `low` to `high`, inclusive."""

    def problem(value: SettingValue) -> str | None:
        if not isinstance(value, (int, float)):
            return "Value must be non-null"
        if value < low:
            return f"Value must be at least {low}"
        if high is not None and value > high:
            return f"Value must be no more than {high}"
        return None

    return Valid(f"[{low},...]" if high is None else f"[{low},...,{high}]", problem)


def between_or(low: int, high: int, other: int) -> Valid:
    """Numbers from `low` to `high`, and `other`."""

    def problem(value: SettingValue) -> str | None:
        if isinstance(value, int) and (low <= value <= high or value == other):
            return None
        return f"Value must be between {low} and {high} or equal to {other}"

    return Valid(f"[{low},...,{high}] or {other}", problem)


def one_of(*names: str) -> Valid:
    """One of the given strings."""

    def problem(value: SettingValue) -> str | None:
        return None if value in names else f"String must be one of: {', '.join(names)}"

    return Valid(f"[{', '.join(names)}]", problem)


def any_of(*names: str) -> Valid:
    """A list of the given strings; duplicates are removed."""

    def problem(value: SettingValue) -> str | None:
        items = value if isinstance(value, tuple) else ()
        wrong = [item for item in items if item not in names]
        return f"String must be one of: {', '.join(names)}" if wrong else None

    return Valid(f"[{', '.join(names)}]", problem, distinct=True)


ANY_DISTINCT = Valid("", lambda value: None, distinct=True)
"""A list of any strings; Kafka's documentation does not mention it."""


def one_of_ignoring_case(*names: str) -> Valid:
    """One of the given strings (upper case), case-insensitive."""

    def problem(value: SettingValue) -> str | None:
        if isinstance(value, str) and value.upper() in names:
            return None
        return f"String must be one of (case insensitive): {', '.join(names)}"

    return Valid(f"(case insensitive) [{', '.join(names)}]", problem)


def matching(text: str, pattern: str, reason: str, *, each: bool = False, nullable: bool = True) -> Valid:
    """A string, or each item of a list, that matches a regular expression completely."""
    fits = re.compile(pattern, re.ASCII).fullmatch

    def problem(value: SettingValue) -> str | None:
        items = value if isinstance(value, tuple) else () if value is None else (str(value),)
        wrong = any(not fits(item) for item in items) if each or isinstance(value, str) else False
        return reason if wrong or (value is None and not nullable) else None

    return Valid(text, problem)


_REPLICA = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
_TIME_OF_DAY = r"T(?!$)(?:\+?\d+H)?(?:\+?\d+M)?(?:\+?\d+(?:\.\d{0,9})?S)?"
_DURATION = rf"(?i:\+?P(?!$)(?:\+?\d+D)?(?:{_TIME_OF_DAY})?)"  # as Duration.parse, but not negative

NON_EMPTY = matching("non-empty string", r"(?s).+", "String must be non-empty")
NON_NULL = matching("non-null string", r"(?s).*", "entry must be non null", nullable=False)
VOTERS = matching(
    "non-empty list",
    r"\d+@(\[[^\]]+\]|[^:@\[\]]+):\d{1,5}",
    "Failed to parse a voter; each must be of the form id@host:port",
    each=True,
)
SERVERS = matching(
    "non-empty list",
    r"(\[[^\]]+\]|[^:@\[\]]+):\d{1,5}",
    "Failed to parse a bootstrap server; each must be of the form host:port",
    each=True,
)
_REPLICAS = matching(
    _REPLICA,
    r"(\d+:\d+)?",
    f"must be the literal '*' or a list of replicas in the following format: {_REPLICA}",
    each=True,
)
THROTTLED = Valid(_REPLICA, lambda value: None if value == ("*",) else _REPLICAS.problem(value))
OFFSET_RESET = matching(
    "[latest, earliest, by_duration:PnDTnHnMn.nS]",
    f"latest|earliest|by_duration:{_DURATION}",
    "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
)
