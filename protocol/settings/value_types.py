"""The types of setting values, and the parsing and rendering of their texts, as in Kafka's `ConfigDef`."""

import math
import re
from collections.abc import Callable
from enum import IntEnum

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


BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = SettingType
INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1

_JAVA_WHITESPACE = "".join(map(chr, range(33)))  # removed by String.trim()
TYPE_NAMES = {
    SettingType.BOOLEAN: "true or false",
    SettingType.STRING: "a string",
    SettingType.INT: "a 32-bit integer",
    SettingType.SHORT: "a 16-bit integer",
    SettingType.LONG: "a 64-bit integer",
    SettingType.DOUBLE: "a number",
    SettingType.LIST: "a comma-separated list",
    SettingType.CLASS: "a Java class name",
    SettingType.PASSWORD: "a password",
}
"""Each type in words, for error messages."""

_WHOLE = re.compile(r"[+-]?\d+")  # of any script, as for `Integer.parseInt`; `Double.parseDouble` has ASCII only
_DECIMAL = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?", re.ASCII)
_HEXADECIMAL = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?", re.ASCII
)


_BLANKS_OF_REGEX = " \t\n\v\f\r"
r"""The characters that `\s` matches in Java's regular expressions: lists are split at `\s*,\s*`."""


class NotOfType(ValueError):
    """A text is not of the setting's type; the message is Kafka's."""


def parse_text(kind: SettingType, text: str) -> SettingValue:
    """Parse a text, after trimming it, into a value of a type.

    Raises:
        NotOfType: the text is not of the type.
    """
    return _PARSERS[kind](text.strip(_JAVA_WHITESPACE))


def render(value: SettingValue) -> str | None:
    """Render a parsed value as the text that Kafka shows: `true`, `a,b`, `1.0E-5`. Null is None."""
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


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise NotOfType("Expected value to be either true or false")
    return text.lower() == "true"


def _whole(bits: int, kind: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        digits = text.lstrip("+-").lstrip("0")  # `int` refuses more than 4300 digits; 20 hold every 64-bit number.
        if not _WHOLE.fullmatch(text) or len(digits) > 20:
            raise NotOfType(f"Not a number of type {kind}")
        value = int(digits or "0") * (-1 if text.startswith("-") else 1)
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise NotOfType(f"Not a number of type {kind}")
        return value

    return parse


parse_int = _whole(32, "INT")
"""Parse a text into a number like Java's `Integer.parseInt`. Raises NotOfType."""


def _double(text: str) -> float:
    if text.lstrip("+-") in ("NaN", "Infinity"):
        return float(text)
    if found := _DECIMAL.fullmatch(text):
        return float(found[1])
    if found := _HEXADECIMAL.fullmatch(text):
        return _hexadecimal(found[1])
    raise NotOfType("Not a number of type DOUBLE")


def _hexadecimal(text: str) -> float:
    """Parse a hexadecimal number like Java: a number too large is infinite."""
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def split_list(text: str) -> tuple[str, ...]:
    """Split the text of a list, which has no blanks at its ends, into its items."""
    return tuple(item.strip(_BLANKS_OF_REGEX) for item in text.split(",")) if text else ()


_PARSERS: dict[SettingType, Callable[[str], SettingValue]] = {
    SettingType.BOOLEAN: _boolean,
    SettingType.STRING: str,
    SettingType.INT: parse_int,
    SettingType.SHORT: _whole(16, "SHORT"),
    SettingType.LONG: _whole(64, "LONG"),
    SettingType.DOUBLE: _double,
    SettingType.LIST: split_list,
    SettingType.CLASS: str,
    SettingType.PASSWORD: str,
}


def _java_double(value: float) -> str:
    """Render a number like Java's `Double.toString`: decimal from 10^-3 to 10^7, otherwise one digit before the point
    and an exponent after an E."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, exponent = f"{value:e}".split("e")
    digits = repr(value).lower().split("e")[0].lstrip("-").replace(".", "").strip("0") or "0"
    sign = "-" if mantissa.startswith("-") else ""
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{int(exponent)}"
