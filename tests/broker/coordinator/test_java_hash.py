"""Java's hash of strings, by its definition, for texts of any length."""

from __future__ import annotations

from functools import reduce
from random import Random

import pytest

from minikafka.broker.coordinator.java_hash import CACHED_LENGTH_MAX, _cached, string_hash

LETTERS = ["a", "\0", "\x7f", "ü", "⚙", "\ud7ff", "\uffff", "\U00010000", "😀", "\U0010ffff"]


def by_definition(text: str) -> int:
    data = text.encode("utf-16-be")
    units = (int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))
    return reduce(lambda value, unit: (31 * value + unit) % (1 << 32), units, 0)


@pytest.mark.parametrize("length", [*range(20), 63, 64, 255, 256, 257, 1_000, 32_767])
def test_the_hash_is_that_of_java(length: int) -> None:
    random = Random(length)
    texts = [letter * length for letter in LETTERS] + ["".join(random.choices(LETTERS, k=length)) for _ in range(3)]
    assert [string_hash(text) for text in texts] == [by_definition(text) for text in texts]


def test_long_texts_are_not_kept() -> None:
    before = _cached.cache_info().currsize
    for number in range(100):
        string_hash("n" * CACHED_LENGTH_MAX + str(number))
    assert _cached.cache_info().currsize == before
