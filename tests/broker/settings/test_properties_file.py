"""Java's `.properties` format: continuations, comments, separators, escapes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.broker.settings.properties_file import PropertiesError, bytes_of, lines_of, read_properties

FILES = {
    "an equals sign": ("a=b", {"a": "b"}),
    "a colon": ("a:b", {"a": "b"}),
    "a blank": ("a b", {"a": "b"}),
    "blanks around an equals sign": ("  a \t = \f b ", {"a": "b "}),
    "two separators": ("a==b", {"a": "=b"}),
    "a colon after an equals sign": ("a = : b", {"a": ": b"}),
    "a blank, then another word": ("a b c", {"a": "b c"}),
    "no value": ("a", {"a": ""}),
    "no value but a separator": ("a=", {"a": ""}),
    "no key": ("=b", {"": "b"}),
    "a key twice": ("a=1\na=2", {"a": "2"}),
    "an address": ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
    "a comment": ("# a=b\n  ! c=d\ne=f # not a comment", {"e": "f # not a comment"}),
    "blank lines": ("\n \t\f\n\na=b\n\n", {"a": "b"}),
    "every end of line": ("a=1\r\nb=2\rc=3\nd=4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
    "a continued line": ("a=b,\\\n   c,\\\r\n\td", {"a": "b,c,d"}),
    "a continued key": ("log.\\\n  dirs=/x", {"log.dirs": "/x"}),
    "what looks like a comment in a continuation": ("a=b\\\n#c", {"a": "b#c"}),
    "a comment that cannot be continued": ("# a\\\nb=c", {"b": "c"}),
    "a continuation by a blank line": ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
    "two backslashes at the end": ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
    "three backslashes at the end": ("a=b\\\\\\\nc", {"a": "b\\c"}),
    "a backslash at the end of the file": ("a=b\\", {"a": "b"}),
    "nothing but a backslash": ("\\", {}),
    "escaped separators in a key": (r"a\=\:\ b=c", {"a=: b": "c"}),
    "escaped letters": (r"a=\t\n\r\f\q\"", {"a": '\t\n\r\fq"'}),
    "a path of Windows, doubled": (r"log.dirs=C\:\\kafka", {"log.dirs": "C:\\kafka"}),
    "a code of unicode": (r"a=\u20ac\u0041", {"a": "€A"}),
    "a pair of surrogates": (r"a=\ud83d\ude00", {"a": "😀"}),
    "nothing": ("", {}),
}


@pytest.mark.parametrize(("text", "settings"), FILES.values(), ids=FILES)
def test_a_file_parses_as_in_java(text: str, settings: dict[str, str]) -> None:
    assert read_properties(text) == settings


def test_bytes_are_utf_8_or_else_latin_1() -> None:
    assert read_properties("a=ä".encode()) == {"a": "ä"}
    assert read_properties("a=ä".encode("latin-1")) == {"a": "ä"}
    assert read_properties("\ufeffa=b".encode()) == {"a": "b"}


@pytest.mark.parametrize("text", ["a=1\nb=\\u12", "a=1\nb=\\uwxyz", "a=1\n\\u=1"])
def test_a_malformed_escape_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(PropertiesError, match="line 2"):
        read_properties(text)


def test_a_file_of_another_kind_is_refused() -> None:
    for data in (b"\x7fELF\0", bytes(4096), b"a=\xff\0"):
        for read in (read_properties, lines_of):
            with pytest.raises(PropertiesError, match=r"^line 1: a NUL character"):
                read(data)


def test_a_file_without_an_end_is_refused(tmp_path: Path) -> None:
    huge = tmp_path / "server.properties"
    huge.write_text("a=1")
    assert bytes_of(huge) == b"a=1"
    with huge.open("r+b") as file:
        file.truncate(1 << 40)
    for path in (huge, Path("/dev/zero")):
        with pytest.raises(OSError, match=f"more than 1048576 bytes: '{path}'"):
            bytes_of(path)


KEYS = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1)


def escaped(text: str) -> str:
    """Text as `Properties.store` writes it."""
    return "".join("\\" + letter if letter in "\\=:#! " else letter for letter in text)


@pytest.mark.slow
@given(st.dictionaries(KEYS, st.text(st.characters(codec="ascii", categories=["L", "N", "P"]))))
def test_escaped_settings_are_read_back(settings: dict[str, str]) -> None:
    text = "\n".join(f"{escaped(key)}={escaped(value)}" for key, value in settings.items())
    assert read_properties(text) == settings


@given(st.text())
def test_any_text_is_parsed_or_refused_with_its_line(text: str) -> None:
    try:
        read_properties(text)
    except PropertiesError as error:
        told = str(error)
    else:
        told = "line"
    assert told.startswith("line")
