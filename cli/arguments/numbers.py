"""Parses whole numbers of the command line, in options and arguments; accepts only numbers that Kafka's fields hold."""

from __future__ import annotations

import re
from typing import Any

import click

__all__ = ["Whole", "limits", "whole"]

_WHOLE = re.compile(r"[+-]?[0-9]+")
_DIGITS_MAX = 100
"""The most digits that are parsed. Python refuses to parse more than a few thousand."""


def whole(text: str, *, bits: int = 64, least: int | None = None) -> int | None:
    """Parse a text of ASCII digits as a number; None for another text, and for a number out of range.

    Args:
        text: the text.
        bits: the size of the field that the number is for, with the sign.
        least: the smallest number allowed; by default the smallest one of the field.
    """
    text = text.strip()
    if not _WHOLE.fullmatch(text) or len(text) > _DIGITS_MAX:
        return None
    number, limit = int(text), 1 << (bits - 1)
    return number if (-limit if least is None else least) <= number < limit else None


def limits(numbers: click.IntRange | click.FloatRange) -> str:
    """The range of an option's numbers in words: `at least 1`, `0 to 65535`; "" without a range."""
    if numbers.min is None:
        return "" if numbers.max is None else f"at most {numbers.max}"
    return f"at least {numbers.min}" if numbers.max is None else f"{numbers.min} to {numbers.max}"


class Whole(click.IntRange):
    """The type of an option for a whole number in a range.

    Args:
        least, most: the range; by default all numbers of the field.
        bits: the size of the field that the number is for, with the sign.
    """

    name = "integer"

    def __init__(self, least: int | None = None, most: int | None = None, *, bits: int = 64) -> None:
        super().__init__(least, most)
        self._bits = bits

    def _describe_range(self) -> str:
        """Called by click for `--help`."""
        return limits(self)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the value. Raises click.BadParameter."""
        if isinstance(value, int):
            return value
        number = whole(value, bits=self._bits, least=self.min)
        if number is not None and (self.max is None or number <= self.max):
            return number
        if not _WHOLE.fullmatch(value.strip()):
            self.fail(f"{value!r} is not a whole number", param, ctx)
        limit = 1 << (self._bits - 1)
        least, most = (-limit if self.min is None else self.min), (limit - 1 if self.max is None else self.max)
        self.fail(f"{value} is out of range: {least} to {most} are allowed", param, ctx)
