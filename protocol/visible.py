"""`visible` makes a text safe to show in a terminal: names given by others may contain control sequences."""

import re

__all__ = ["obeys_escapes", "visible", "visible_json"]

_OBEYED = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
"""Control characters of both sets, marks and overrides of the direction of text, and lone surrogates, which cannot be
encoded; without tab and newline."""
_IN_LINES = re.compile(f"[{_OBEYED}]")
_IN_A_LINE = re.compile(f"[\t\n{_OBEYED}]")


def obeys_escapes(terminal: str) -> bool:
    """Whether a terminal of this type, as in the environment variable TERM, obeys escape sequences."""
    return terminal not in ("dumb", "unknown")


def visible(text: str, *, lines: bool = False) -> str:
    r"""The text with escapes like `\x1b`, `\n` and `\u202e` for characters that a terminal would obey.

    Args:
        text: any text; a backslash in it stays one backslash.
        lines: whether to keep tabs and newlines, as the layout of the text itself.
    """
    return (_IN_LINES if lines else _IN_A_LINE).sub(_escape, text)


def visible_json(text: str) -> str:
    r"""JSON with `\uHHHH` for control characters. All of them are in strings, so the JSON has the same value."""
    return _IN_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode("ascii")
