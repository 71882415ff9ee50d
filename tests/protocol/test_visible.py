"""What a terminal obeys is escaped, and everything else stays."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.visible import visible, visible_json

DIRECTIONS = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


def is_obeyed(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(letter) in DIRECTIONS


@pytest.mark.slow
def test_every_character_that_is_obeyed_is_escaped_and_others_stay() -> None:
    marks = "\u061c\u200e\u200f"
    for letter in map(chr, range(0x110000)):
        if is_obeyed(letter) or letter in marks:
            assert visible(letter).isascii(), hex(ord(letter))
            assert visible(letter).isprintable()
            assert visible(letter).encode().decode("unicode_escape") == letter
        else:
            assert visible(letter) is letter or visible(letter) == letter, hex(ord(letter))


@pytest.mark.parametrize("text", ["plain", "naïve 日本語", "👩‍👩‍👧", r"C:\temp\new", "a\u00a0b"])
def test_ordinary_text_stays(text: str) -> None:
    assert visible(text) == text


def test_layout_stays_where_it_is_the_texts_own() -> None:
    assert visible("a\tb\n\x1b[2J", lines=True) == "a\tb\n\\x1b[2J"
    assert visible("a\tb\n\x1b[2J") == "a\\tb\\n\\x1b[2J"


@given(st.text(st.characters(codec=None)))
def test_json_means_the_same(text: str) -> None:
    for ascii_only in (False, True):
        shown = visible_json(json.dumps({text: [text]}, ensure_ascii=ascii_only))
        assert json.loads(shown) == {text: [text]}
        assert not any(map(is_obeyed, shown))
