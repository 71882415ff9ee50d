"""Splitting of input into lines, and of lines into keys and values."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.cli.records.lines import BadLine, LineReader, LineSplitter, columns_of

MANY = 1 << 20


@given(st.lists(st.binary(max_size=20).map(lambda piece: piece.replace(b"\r", b"\n"))))
def test_lines_do_not_depend_on_chunk_boundaries(pieces: list[bytes]) -> None:
    splitter = LineSplitter(MANY)
    lines = [line for piece in pieces for line in splitter.feed(piece)] + splitter.end()
    expected = b"".join(pieces).split(b"\n")
    assert lines == (expected if expected[-1] else expected[:-1])


def test_the_size_of_an_incomplete_line_is_limited() -> None:
    splitter = LineSplitter(10)
    assert splitter.feed(b"0123456789") == []
    with pytest.raises(BadLine, match="more than 10 bytes"):
        splitter.feed(b"x")


def test_a_reader_returns_available_lines() -> None:
    reading, writing = os.pipe()
    reader = LineReader(reading, MANY)
    os.write(writing, b"one\ntwo\nth")
    assert reader.read() == [b"one", b"two"]
    os.write(writing, b"ree\n\nlast")
    assert reader.read() == [b"three", b""]
    os.close(writing)
    assert (reader.read(), reader.at_end) == ([b"last"], True)
    os.close(reading)


def test_keys_values_and_nulls() -> None:
    columns = columns_of([b"k:v:w", b":v", b"k:", b"-:-"], 1, separator=b":", null=b"-", size_max=MANY)
    assert columns.keys == [b"k", b"", b"k", None]
    assert columns.values == [b"v:w", b"v", b"", None]
    assert not columns.error


def test_without_a_separator_lines_are_values() -> None:
    columns = columns_of([b"a:b", b""], 1, separator=None, null=None, size_max=MANY)
    assert (columns.values, columns.keys, columns.error) == ([b"a:b", b""], None, "")


def test_a_line_without_a_separator_ends_the_columns() -> None:
    columns = columns_of([b"a=b", b"x" * 100, b"c=d"], 7, separator=b"=", null=None, size_max=MANY)
    assert columns.values == [b"b"]
    assert columns.error.startswith("line 8 has no key: no separator b'=' in 'xxx")
    assert len(columns.error) < 120


def test_a_line_that_is_too_long_ends_the_columns() -> None:
    columns = columns_of([b"ok", b"x" * 11], 1, separator=None, null=None, size_max=10)
    assert columns.values == [b"ok"]
    assert columns.error.startswith("line 2 is too long: 11 bytes, at most 10 fit into a record")
