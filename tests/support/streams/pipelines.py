"""The inputs of `Pipelines.java`, and what its outputs must be, computed in one go."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

INPUTS = ("lines", "left", "right", "cities")
WINDOW_MS = 1_000
BEGIN_MS = time.time_ns() // 1_000_000
"""Not long ago: retention, which runs every five minutes, would delete older records before they are read."""
STEP_MS = 100
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
KEYS = 5
USERS = 12
CITIES = ("Bern", "Lima", "Oslo")


class Input(NamedTuple):
    """A record of an input topic."""

    topic: str
    key: str
    value: str
    timestamp_ms: int


Outputs = Mapping[str, Sequence[tuple[str, str]]]
"""Keys and values by output topic, in order of each partition."""


def inputs(first: int, count: int, random: Random) -> list[Input]:
    """`count` steps, with a record of each input topic; each is a tenth of a second after the one before."""
    found = []
    for number in range(first, first + count):
        now = BEGIN_MS + number * STEP_MS
        line = " ".join(random.choices(WORDS, k=3))
        found.append(Input("lines", str(number), line, now))
        found.append(Input("left", str(random.randrange(KEYS)), f"left-{number}", now))
        found.append(Input("right", str(random.randrange(KEYS)), f"right-{number}", now))
        found.append(Input("cities", str(random.randrange(USERS)), random.choice(CITIES), now))
    return found


class Expected:
    """The results of some inputs."""

    def __init__(self, given: Sequence[Input]) -> None:
        by_topic = defaultdict[str, list[Input]](list)
        for one in given:
            by_topic[one.topic].append(one)
        self.counts = Counter(word for one in by_topic["lines"] for word in one.value.split())
        self.joined = Counter(
            (left.key, f"{left.value} {right.value}")
            for left in by_topic["left"]
            for right in by_topic["right"]
            if left.key == right.key and abs(left.timestamp_ms - right.timestamp_ms) <= WINDOW_MS
        )
        self.users = Counter({one.key: one.value for one in by_topic["cities"]}.values())

    def is_reached(self, outputs: Outputs) -> bool:
        """Whether the outputs have as many records as they must, and the table its last values."""
        return (
            len(outputs["counts"]) >= self.counts.total()
            and len(outputs["joined"]) >= self.joined.total()
            and not self._wrong_users(outputs)
        )

    def is_exceeded(self, outputs: Outputs) -> bool:
        """Whether the outputs have more records than they may, those of the words and those of the join."""
        return len(outputs["counts"]) > self.counts.total() and len(outputs["joined"]) > self.joined.total()

    def wrongs(self, outputs: Outputs) -> list[str]:
        """What is missing, doubled, or wrong. Each occurrence of a word has its number: 1, 2, 3 and so on, once."""
        found = []
        numbers = defaultdict[str, list[int]](list)
        for word, number in outputs["counts"]:
            numbers[word].append(int(number))
        for word in self.counts.keys() | numbers.keys():
            if numbers[word] != list(range(1, self.counts[word] + 1)):
                found.append(f"counts of {word}: {numbers[word]}, expected 1 to {self.counts[word]}")
        joined = Counter(outputs["joined"])
        if joined != self.joined:
            found.append(f"join: {joined - self.joined} too many, {self.joined - joined} missing")
        return found + self._wrong_users(outputs)

    def _wrong_users(self, outputs: Outputs) -> list[str]:
        last = {city: int(number) for city, number in outputs["users"]}
        return [
            f"users of {city}: {last.get(city, 0)}, expected {self.users[city]}"
            for city in CITIES
            if last.get(city, 0) != self.users[city]
        ]
