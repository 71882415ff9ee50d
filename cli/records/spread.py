"""Spreads lines without keys over the partitions of a topic. Pure.

The producer stays at one partition until it has received a batch. A thousand short lines are less than a batch, so they
would all be in one partition. Therefore the lines that are read together are cut into as many pieces as there are
partitions, and each piece is sent to the next partition. Few lines make fewer pieces, because a small batch costs as
much as a large one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

PIECE_LINES_MIN = 10


class Spread:
    """Assigns lines to partitions in turn, starting at a random partition.

    Args:
        random: chooses the first partition.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._next = -1

    def pieces(self, count: int, partitions: Sequence[int]) -> Iterator[tuple[slice, int]]:
        """Cut `count` lines into pieces, each with its partition, one of `partitions`, which must not be empty."""
        if self._next < 0:
            self._next = self._random.randrange(len(partitions))
        size = max(PIECE_LINES_MIN, -(-count // len(partitions)))
        for start in range(0, count, size):
            yield slice(start, start + size), partitions[self._next % len(partitions)]
            self._next += 1
