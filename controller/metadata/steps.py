"""Work on very many metadata records in steps, between which other tasks run. Trio: checkpoints."""

from collections.abc import Generator, Sequence
from typing import TypeVar

import trio

from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import Record

__all__ = ["RECORDS_IN_A_STEP", "applying", "at_once", "in_steps"]

RECORDS_IN_A_STEP = 500
"""They take about 5 ms to decode or to encode."""

T = TypeVar("T")


async def in_steps(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end; other tasks run at each `yield`. Returns its result."""
    try:
        while True:
            next(steps)
            await trio.lowlevel.checkpoint()
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        steps.close()


def at_once(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end. Returns its result."""
    try:
        while True:
            next(steps)
    except StopIteration as done:
        result: T = done.value
        return result


def applying(image: Image, records: Sequence[Record]) -> Generator[None, None, None]:
    """Apply records to an image that nobody else sees yet."""
    for number, record in enumerate(records, 1):
        image.apply(record)
        if number % RECORDS_IN_A_STEP == 0:
            yield
