"""Blocks of PEM texts, as Kafka's `PemParser` finds them, and the time that odd texts take."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.security import pem

PIECES = st.sampled_from(
    [*(f"-----{kind} {label}-----" for kind in ("BEGIN", "END") for label in "AB"), "-----", "BEGIN A", "END A", "AA"]
)


def bodies_by_definition(text: str) -> Iterator[tuple[str, int, int]]:
    for found in re.finditer(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", text, re.DOTALL):
        yield found[1], found.start(2), found.end(2)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_a_block_goes_to_the_next_end_of_its_label(text: str) -> None:
    assert list(pem._bodies(text)) == list(bodies_by_definition(text))


@pytest.mark.timeout(60)
def test_a_text_of_blocks_without_ends_is_read_in_one_pass() -> None:
    for many in (
        "-----BEGIN A-----",
        "-----BEGIN A-----BEGIN ",
        "-----BEGIN A----------END B-----",
        "".join(f"-----BEGIN {number}-----" for number in range(1000)),
    ):
        text = many * (1_000_000 // len(many))
        assert list(pem._bodies(text)) == []
