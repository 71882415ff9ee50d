"""Formatting of records by templates and as JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.cli.records.template import FIELDS, iso_time, json_line, template, unescape, value_line
from minikafka.client import ConsumerRecord

RECORD = ConsumerRecord(
    "flights", 3, 42, 1_357_034_400_000, b"N14228", b"EWR-IAH", (("carrier", b"UA"), ("note", None)), 0
)
BARE = ConsumerRecord("flights", 0, 0, -1, None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%k\\t%v", b"N14228\tEWR-IAH"),
        ("%t[%p]@%o", b"flights[3]@42"),
        ("%T %I", b"1357034400000 2013-01-01T10:00:00.000Z"),
        ("%h", b"carrier=UA,note=null"),
        ("%K %S %s", b"6 7 EWR-IAH"),
        ("100%% of %o\\n", b"100% of 42\n"),
        ("\\x25k \\\\ \\x00\\0", b"N14228 \\ \0\0"),
        ("", b""),
        ("Zürich %p", "Zürich 3".encode()),
    ],
)
def test_letters_and_escapes(text: str, expected: bytes) -> None:
    assert template(text)(RECORD) == expected


def test_nulls() -> None:
    assert template("%k %v %K %S %h|%I")(BARE) == b"null null -1 -1 |-"
    assert template("%k,%v", null=b"-")(BARE) == b"-,-"
    assert value_line(b"NULL")(BARE) == b"NULL"


@pytest.mark.parametrize("text", ["%q", "50%", "%é"])
def test_an_unknown_letter_is_an_error_that_lists_the_known_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"unknown letter %.*%k \(key\).*%%"):
        template(text)


@pytest.mark.parametrize("text", ["\\q", "\\", "\\x1", "\\xzz"])
def test_an_unknown_escape_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="unknown escape"):
        unescape(text)


@given(st.binary())
def test_every_byte_can_be_written_as_an_escape(data: bytes) -> None:
    assert unescape("".join(f"\\x{byte:02x}" for byte in data)) == data


@given(st.text(alphabet=st.characters(exclude_characters="%\\", exclude_categories=["Cs"])))
def test_text_without_letters_is_unchanged(text: str) -> None:
    assert template(text)(RECORD) == text.encode()


def test_all_letters_render_bytes() -> None:
    for letter in FIELDS:
        assert isinstance(template(f"%{letter}")(RECORD), bytes)


def test_timestamps_out_of_range() -> None:
    assert [iso_time(moment) for moment in (0, 1, -1, 1 << 62)] == [
        "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.001Z", "-", "-",
    ]  # fmt: skip


@given(key=st.none() | st.binary(), value=st.none() | st.binary())
def test_json_is_one_line_and_keeps_every_byte(key: bytes | None, value: bytes | None) -> None:
    line = json_line(RECORD._replace(key=key, value=value))
    assert b"\n" not in line
    found = json.loads(line)
    assert found["headers"] == [["carrier", "UA"], ["note", None]]
    assert (found["topic"], found["partition"], found["offset"], found["timestamp"]) == RECORD[:4]
    assert (decoded(found["key"]), decoded(found["value"])) == (key, value)


def decoded(shown: str | dict[str, str] | None) -> bytes | None:
    import base64

    if isinstance(shown, dict):
        return base64.b64decode(shown["base64"])
    return None if shown is None else shown.encode()
