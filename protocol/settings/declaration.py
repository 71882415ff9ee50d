"""How a setting is declared: its type, its bounds, how its text is read and shown; as in Kafka's `ConfigDef`.

A value is trimmed, read by its type, then checked against its bound. The declarations themselves stand in the
tables beside this file; `settings.py` gathers them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

SettingValue = bool | int | float | str | tuple[str, ...] | None
"""A parsed value: lists are tuples, passwords and classes are text, null is None."""


class SettingType(IntEnum):
    """The types of `ConfigDef`, with the numbers that DescribeConfigs gives them from version 3 on."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class InvalidSetting(ValueError):
    """A value that its setting does not allow.

    Attributes:
        name: the setting.
        value: the text that was given, None for null; hidden where the setting is a password.
        reason: Kafka's own words for what is wrong.
        allowed: what would be right.
    """

    def __init__(self, name: str, value: str | None, reason: str, allowed: str) -> None:
        shown = "null" if value is None else value
        super().__init__(f"Invalid value {shown} for configuration {name}: {reason} (allowed: {allowed})")
        self.name, self.value, self.reason, self.allowed = name, value, reason, allowed


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
"""The default of a setting that has none in Kafka: the file must give it."""


@dataclass(frozen=True, slots=True)
class Valid:
    """A bound on parsed values.

    Attributes:
        text: how Kafka's own tables spell the bound.
        problem: says what is wrong with a parsed value in Kafka's words, or None.
        distinct: whether a list drops what it already has.
    """

    text: str
    problem: Callable[[SettingValue], str | None]
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: Kafka's own name.
        type: how its text is read.
        default: Kafka's default, parsed; None is null; REQUIRED has none.
        valid: bound on the value, or None.
        importance: "high", "medium" or "low", as Kafka rates it.
        update_mode: "read-only", "per-broker" or "cluster-wide" for node settings, "" for others.
        doc: one sentence.
        acted_on: whether minikafka does anything about it.
        synonym: for topic and group settings the node setting that supplies the default.
    """

    name: str
    type: SettingType
    default: "SettingValue | _Required"
    valid: Valid | None
    importance: str
    update_mode: str
    doc: str
    acted_on: bool = False
    synonym: str | None = None

    def parse(self, text: str | None) -> SettingValue:
        """The value that `text` stands for, as Kafka's ConfigDef reads it.

        Raises:
            InvalidSetting: when it is not of the type or out of bounds.
        """
        try:
            value = None if text is None else _PARSERS[self.type](text.strip(_JAVA_BLANKS))
        except _NotOfType as fault:
            raise self.invalid(text, str(fault)) from None
        if isinstance(value, tuple):
            value = self._checked_list(text, value)
        problem = self.valid.problem(value) if self.valid else None
        if problem:
            raise self.invalid(self.render(value) if self.type is SettingType.STRING else text, problem)
        return value

    def invalid(self, text: str | None, reason: str) -> InvalidSetting:
        """The error for a value of this setting, with what is allowed; a password is not shown."""
        return InvalidSetting(self.name, "[hidden]" if self.sensitive else text, reason, self.allowed)

    def _checked_list(self, text: str | None, items: tuple[str, ...]) -> tuple[str, ...]:
        if not (self.valid and self.valid.distinct):
            return items
        if any(not item for item in items):
            raise self.invalid(text, f"Configuration '{self.name}' values must not be empty.")
        return tuple(dict.fromkeys(items))

    def render(self, value: SettingValue) -> str | None:
        """The text of a parsed value as Kafka shows it: `true`, `a,b`, `1.0E-5`; None is null."""
        match value:
            case bool():
                return "true" if value else "false"
            case float():
                return _java_double(value)
            case tuple():
                return ",".join(value)
            case None:
                return None
            case _:
                return str(value)

    @property
    def kafkas_default(self) -> SettingValue:
        """Kafka's default, parsed; null where it is required."""
        return None if isinstance(self.default, _Required) else self.default

    @property
    def default_text(self) -> str | None:
        """Kafka's default as text; None where it is null or required."""
        return None if isinstance(self.default, _Required) else self.render(self.default)

    @property
    def sensitive(self) -> bool:
        """Whether the value is a secret, never to be shown or logged."""
        return self.type is SettingType.PASSWORD

    @property
    def read_only(self) -> bool:
        """Whether a running node refuses to change it."""
        return self.update_mode == "read-only"

    @property
    def allowed(self) -> str:
        """What a value may be, in words."""
        kind = _KINDS[self.type]
        return f"{kind}, {self.valid.text}" if self.valid else kind


def at_least(low: int) -> Valid:
    """Numbers from `low` on."""
    return between(low, None)


def between(low: int, high: int | None) -> Valid:
    """Numbers from `low` to `high`, both included."""

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
    """One of the given words."""

    def problem(value: SettingValue) -> str | None:
        return None if value in names else f"String must be one of: {', '.join(names)}"

    return Valid(f"[{', '.join(names)}]", problem)


def any_of(*names: str) -> Valid:
    """A list of the given words; a word that comes twice counts once."""

    def problem(value: SettingValue) -> str | None:
        items = value if isinstance(value, tuple) else ()
        wrong = [item for item in items if item not in names]
        return f"String must be one of: {', '.join(names)}" if wrong else None

    return Valid(f"[{', '.join(names)}]", problem, distinct=True)


def one_of_ignoring_case(*names: str) -> Valid:
    """One of the given words, in capitals or not."""

    def problem(value: SettingValue) -> str | None:
        if isinstance(value, str) and value.upper() in names:
            return None
        return f"String must be one of (case insensitive): {', '.join(names)}"

    return Valid(f"(case insensitive) [{', '.join(names)}]", problem)


def matching(text: str, pattern: str, reason: str, *, each: bool = False, nullable: bool = True) -> Valid:
    """Text, or each item of a list, that fits a regular expression as a whole."""
    fits = re.compile(pattern).fullmatch

    def problem(value: SettingValue) -> str | None:
        items = value if isinstance(value, tuple) else () if value is None else (str(value),)
        wrong = any(not fits(item) for item in items) if each or isinstance(value, str) else False
        return reason if wrong or (value is None and not nullable) else None

    return Valid(text, problem)


class _NotOfType(ValueError):
    pass


_JAVA_BLANKS = "".join(map(chr, range(33)))  # what String.trim() cuts off
_KINDS = {
    SettingType.BOOLEAN: "true or false",
    SettingType.STRING: "text",
    SettingType.INT: "a whole number of 32 bits",
    SettingType.SHORT: "a whole number of 16 bits",
    SettingType.LONG: "a whole number of 64 bits",
    SettingType.DOUBLE: "a number",
    SettingType.LIST: "a list separated by commas",
    SettingType.CLASS: "the name of a Java class",
    SettingType.PASSWORD: "a secret",
}
_WHOLE = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?")


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise _NotOfType("Expected value to be either true or false")
    return text.lower() == "true"


def _whole(bits: int, kind: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # 20 digits hold every 64-bit number; int() of a giant string would be slow.
        if not _WHOLE.fullmatch(text) or len(text.lstrip("+-0")) > 20:
            raise _NotOfType(f"Not a number of type {kind}")
        value = int(text)
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise _NotOfType(f"Not a number of type {kind}")
        return value

    return parse


def _double(text: str) -> float:
    if text.lstrip("+-") in ("NaN", "Infinity"):
        return float(text)
    if found := _DECIMAL.fullmatch(text):
        return float(found[1])
    if found := _HEXADECIMAL.fullmatch(text):
        return float.fromhex(found[1])
    raise _NotOfType("Not a number of type DOUBLE")


def _list(text: str) -> tuple[str, ...]:
    return tuple(re.split(r"\s*,\s*", text)) if text else ()


_PARSERS: dict[SettingType, Callable[[str], SettingValue]] = {
    SettingType.BOOLEAN: _boolean,
    SettingType.STRING: str,
    SettingType.INT: _whole(32, "INT"),
    SettingType.SHORT: _whole(16, "SHORT"),
    SettingType.LONG: _whole(64, "LONG"),
    SettingType.DOUBLE: _double,
    SettingType.LIST: _list,
    SettingType.CLASS: str,
    SettingType.PASSWORD: str,
}


def _java_double(value: float) -> str:
    """`Double.toString`: decimal from 10^-3 to 10^7, else one digit before the point and an E."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, exponent = f"{value:e}".split("e")
    digits = repr(value).lower().split("e")[0].lstrip("-").replace(".", "").strip("0") or "0"
    sign = "-" if mantissa.startswith("-") else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"


BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = SettingType
HIGH, MEDIUM, LOW = "high", "medium", "low"
READ_ONLY, PER_BROKER, CLUSTER_WIDE = "read-only", "per-broker", "cluster-wide"
INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1

_REPLICA = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
_TIME_OF_DAY = r"T(?!$)(?:\+?\d+H)?(?:\+?\d+M)?(?:\+?\d+(?:\.\d{0,9})?S)?"
_DURATION = rf"(?i:\+?P(?!$)(?:\+?\d+D)?(?:{_TIME_OF_DAY})?)"  # as Duration.parse, but never backwards

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
    r"\d+:\d+",
    f"must be the literal '*' or a list of replicas in the following format: {_REPLICA}",
    each=True,
)
THROTTLED = Valid(_REPLICA, lambda value: None if value == ("*",) else _REPLICAS.problem(value))
OFFSET_RESET = matching(
    "[latest, earliest, by_duration:PnDTnHnMn.nS]",
    f"latest|earliest|by_duration:{_DURATION}",
    "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
)
