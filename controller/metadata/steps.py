"""Work on very many metadata records in steps: for `minikafka.controller.steps`."""

from collections.abc import Generator, Sequence

from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import Record

__all__ = ["RECORDS_IN_A_STEP", "applying"]

RECORDS_IN_A_STEP = 500
"""They take about 5 ms to decode or to encode."""


def applying(image: Image, records: Sequence[Record]) -> Generator[None, None, None]:
    """Apply records to an image that nobody else sees yet."""
    for number, record in enumerate(records, 1):
        image.apply(record)
        if number % RECORDS_IN_A_STEP == 0:
            yield
