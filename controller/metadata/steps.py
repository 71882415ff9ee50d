"""Work on very many metadata records in steps: for `minikafka.controller.steps`."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeVar

from minikafka.controller.metadata.image import Image, PartitionState, Topic
from minikafka.controller.metadata.records import Record

__all__ = [
    "ELEMENTS_IN_A_STEP",
    "PARTITIONS_IN_A_STEP",
    "RECORDS_IN_A_STEP",
    "Pauses",
    "applying",
    "mapping",
    "partitions_where",
]

T = TypeVar("T")
Result = TypeVar("Result")

RECORDS_IN_A_STEP = 500
"""They take about 5 ms to decode or to encode."""
ELEMENTS_IN_A_STEP = 250
"""Of a request about which a decision is made: they take up to 7 ms."""
PARTITIONS_IN_A_STEP = 10_000
"""That are looked at in vain: they take up to 5 ms."""


class Pauses:
    """Counts the elements of a request, and says when a pause is due."""

    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def due(self, count: int = 1) -> bool:
        """Whether a pause is due before the next element, or so many: `if pauses.due(): yield`."""
        self._count += count
        if self._count < ELEMENTS_IN_A_STEP:
            return False
        self._count = 0
        return True


def mapping(function: Callable[[T], Result], elements: Iterable[T]) -> Generator[None, None, list[Result]]:
    """The results of a function for very many elements."""
    results: list[Result] = []
    pauses = Pauses()
    for element in elements:
        if pauses.due():
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
    """Apply records to an image that nobody else sees yet."""
    for number, record in enumerate(records, 1):
        image.apply(record)
        if number % RECORDS_IN_A_STEP == 0:
            yield
