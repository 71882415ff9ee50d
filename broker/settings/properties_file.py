"""Parses Java's `.properties` files as `java.util.Properties` does.

A trailing backslash continues a line, `#` and `!` begin comments, keys end at `=`, `:` or a blank, and there are
escapes such as `\\n` and `\\u20ac`. If a key occurs several times, its last value counts.
"""

import errno
import re
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PropertiesError", "bytes_of", "lines_of", "read_properties"]

SIZE_BYTES_MAX = 1 << 20


class PropertiesError(ValueError):
    """The file is malformed. The message names the line."""


def bytes_of(path: Path) -> bytes:
    """The content of a `.properties` file. Raises OSError, also for more than `SIZE_BYTES_MAX`: a device has no end."""
    with path.open("rb") as file:
        data = file.read(SIZE_BYTES_MAX + 1)
    if len(data) > SIZE_BYTES_MAX:
        raise OSError(errno.EFBIG, f"the file of settings has more than {SIZE_BYTES_MAX} bytes", str(path))
    return data


def read_properties(data: bytes | str) -> dict[str, str]:
    """The settings in a `.properties` file.

    Bytes are decoded as UTF-8, or as Latin-1 if they are not valid UTF-8, as in Java.

    Raises:
        PropertiesError: for a malformed `\\u` escape, or a NUL character, which only a file of another kind has.
    """
    return dict(_key_and_value(line, number) for number, line in _logical_lines(_decode(data)))


def lines_of(data: bytes | str) -> dict[str, int]:
    """The number of the line of each setting, counted from 1. Raises PropertiesError."""
    return {_key_and_value(line, number)[0]: number for number, line in _logical_lines(_decode(data))}


def _decode(data: bytes | str) -> str:
    if isinstance(data, str):
        return data
    if (position := data.find(0)) >= 0:
        line = len(_LINE_END.split(data[:position].decode("latin-1")))
        raise PropertiesError(f"line {line}: a NUL character, which no file of settings has")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines without comments and blank lines, joined with their continuations, each with its first line number."""
    joined, first = "", 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not first:
            if not line or line[0] in "#!":
                continue
            first = number
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        joined += line[:-1] if continues else line
        if not continues:
            yield first, joined
            joined, first = "", 0
    if joined:
        yield first, joined


_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")


def _key_and_value(line: str, number: int) -> tuple[str, str]:
    key = _KEY.match(line)
    assert key is not None, "the pattern matches anything"
    separator = _SEPARATOR.match(line, key.end())
    assert separator is not None, "the pattern matches anything"
    return _unescape(key[0], number), _unescape(line[separator.end() :], number)


_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescape(text: str, number: int) -> str:
    if "\\" not in text:
        return text

    def meaning(found: re.Match[str]) -> str:
        escape = found[1]
        if escape == "u":
            raise PropertiesError(f"line {number}: \\u must be followed by four hexadecimal digits")
        return chr(int(escape[1:], 16)) if len(escape) == 5 else _LETTERS.get(escape, escape)

    # A character outside the basic multilingual plane is written as two \u escapes, a surrogate pair.
    return _ESCAPE.sub(meaning, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
