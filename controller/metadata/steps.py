"""Generators that work on very many metadata records in steps, to be run by `minikafka.storage.steps`."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeVar

from minikafka.controller.metadata.image import Image, PartitionState, Topic
from minikafka.controller.metadata.records import Record
from minikafka.storage.steps import Pauses

__all__ = [
    "ELEMENTS_IN_A_STEP",
    "PARTITIONS_IN_A_STEP",
    "RECORDS_IN_A_STEP",
    "applying",
    "mapping",
    "partitions_where",
    "record_weight",
]

T = TypeVar("T")
Result = TypeVar("Result")

RECORDS_IN_A_STEP = 500
"""The records that are encoded, decoded or applied in one step: decoding or encoding so many takes about 5 ms."""
SIZE_PER_RECORD = 4 << 10
"""A large record counts as several, one for so many bytes."""
ELEMENTS_IN_A_STEP = 250
"""The elements of a request that are decided about in one step: so many take up to 7 ms."""
PARTITIONS_IN_A_STEP = 10_000
"""The partitions that are looked at in one step without a change: so many take up to 5 ms."""


def record_weight(size_bytes: int, count: int = 1) -> int:
    """The number of records that encoded records count as, where work is done in steps."""
    return count + size_bytes // SIZE_PER_RECORD


def mapping(function: Callable[[T], Result], elements: Iterable[T]) -> Generator[None, None, list[Result]]:
    """Call a function for each of very many elements, in steps, and return the results."""
    results: list[Result] = []
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for element in elements:
        if pauses.is_due():
            yield
        results.append(function(element))
    return results


def partitions_where(
    topics: Iterable[Topic], where: Callable[[PartitionState], bool]
) -> Iterator[tuple[Topic, int, PartitionState] | None]:
    """The partitions that satisfy `where`, each with its topic and index, and None where a pause is due."""
    work = 0
    for topic in topics:
        for index, state in enumerate(topic.partitions):
            if where(state):
                yield topic, index, state
                work += PARTITIONS_IN_A_STEP // ELEMENTS_IN_A_STEP
            work += 1
            if work >= PARTITIONS_IN_A_STEP:
                work = 0
                yield None


def applying(image: Image, records: Sequence[Record]) -> Generator[None, None, None]:
    """Apply records to an image that nobody else sees yet, in steps."""
    for number, record in enumerate(records, 1):
        image.apply(record)
        if number % RECORDS_IN_A_STEP == 0:
            yield
