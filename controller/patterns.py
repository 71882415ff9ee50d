"""`Pattern`: regular expressions that are matched in time proportional to the text, by RE2 (the package google-re2).

Kafka uses RE2/J, which has the same syntax and semantics. Python's `re` backtracks: with it a pattern of ten characters
can keep the node busy for years. Where the two libraries differ, RE2/J decides: `\\C` is refused. RE2 refuses nested
repetitions that multiply to more than 1,000, which RE2/J accepts. Pure.

The patterns of client metrics subscriptions (KIP-714) are `java.util.regex`'s in Kafka, which backtracks. Here they are
RE2's as well: lookaround, backreferences, possessive quantifiers and atomic groups are refused with INVALID_CONFIG.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import accumulate

import re2

MEMORY_BYTES_MAX = 1 << 20
"""The largest size of a compiled pattern."""
WORK_AT_ONCE = 1_000_000
"""The most `Pattern.work` that is done between two pauses; at most about 2 ms. The largest pattern and the longest text
take 2 s, in which RE2 lets other threads run."""

COSTLY_MAX, REPEATED_MAX, OPTIONAL_MAX, BRANCHES_MAX, DEPTH_MAX = 32, 2_000, 1_000, 3_000, 1_000
"""The limits of a pattern, in this order: the Unicode classes and counted repetitions; the sum of the counts of these
repetitions; the `?`, including those of `(?:`; the `|`; the depth of nested parentheses.

RE2 needs up to 0.4 ms and 300 KB for each Unicode class or counted repetition, before it checks the pattern's size. Its
time grows with the square of the other numbers: 0.4 s for 32 `a{1,500}`, 0.2 s for 10,900 `a*|`."""

_QUOTED_OR_ESCAPED = re.compile(r"\\Q.*?(?:\\E|$)|\\x\{[0-9a-fA-F]{1,8}\}|\\.", re.DOTALL)
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]?", re.DOTALL)
"""A character class, closed or not. If unclosed classes did not match, a search could take time by the square of the
text's length, since it would fail at each bracket."""
_TOO_MANY = re.compile(r"\{(?:[1-9][0-9]{8,}(?:,[0-9]*)?|[0-9]+,[1-9][0-9]{8,})\}")
"""A repetition count so large that RE2 takes it for literal text; RE2/J rejects it."""
_PARENTHESIS = re.compile(r"[()]")
_COUNTED = re.compile(r"\{([0-9]++)(?:,([0-9]*+))?\}")
_TOO_LARGE = "pattern too large - compile failed"
_KAFKAS_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}


class InvalidPattern(ValueError):
    """A text is no regular expression, or is too large. The message is RE2/J's; for a pattern too large it is RE2's."""


class Pattern:
    """A regular expression.

    Raises:
        InvalidPattern: the text is no regular expression, or is too large.
    """

    def __init__(self, text: str) -> None:
        escapes = Counter(_QUOTED_OR_ESCAPED.findall(text))
        if escapes["\\C"]:
            raise InvalidPattern("invalid escape sequence")
        operators = _CLASS.sub("a", _QUOTED_OR_ESCAPED.sub("a", text))
        if _TOO_MANY.search(operators):
            raise InvalidPattern("invalid repeat count")
        counts = [int((high or low).lstrip("0")[:9] or 0) for low, high in _COUNTED.findall(operators)]
        costly = escapes["\\p"] + escapes["\\P"] + len(counts)
        if sum(counts) > REPEATED_MAX:
            raise InvalidPattern(_TOO_LARGE)
        if costly > COSTLY_MAX or operators.count("?") > OPTIONAL_MAX or operators.count("|") > BRANCHES_MAX:
            raise InvalidPattern(_TOO_LARGE)
        if _depth(operators) > DEPTH_MAX:
            raise InvalidPattern(_TOO_LARGE)
        try:
            self._compiled = re2.compile(text, _options())
        except re2.error as error:
            reason, _, argument = error.args[0].decode(errors="replace").partition(": ")
            words = "invalid named capture" if argument.startswith("(?<") else _KAFKAS_WORDS.get(reason, reason)
            raise InvalidPattern(words) from error
        self._size = int(self._compiled.programsize)

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        return self._compiled.fullmatch(text) is not None

    def work(self, text: str) -> int:
        """The most work that matching the text may take: instructions of the pattern times characters of the text."""
        return self._size * (len(text) + 1)


def _depth(operators: str) -> int:
    """The depth of nested parentheses: how many are open at the same time, at most."""
    return max(accumulate(1 if found == "(" else -1 for found in _PARENTHESIS.findall(operators)), default=0)


def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = MEMORY_BYTES_MAX
    options.log_errors = False
    options.never_capture = True
    return options
