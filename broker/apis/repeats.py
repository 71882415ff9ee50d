"""`Repeats`: bounds the bytes that a response repeats because its request names the same item many times.

A request of 50 KB may name a group 10,000 times, while the description of the group may have a megabyte, the metadata
of its members. Apache Kafka answers each time, as long as its memory lasts. minikafka does so up to
`REPEATED_SIZE_BYTES_MAX` repeated bytes.
"""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from minikafka.broker.connections.large_messages import ELEMENTS_AT_ONCE
from minikafka.protocol.errors import InvalidRequestError
from minikafka.protocol.message import ManyElements, encode_parts
from minikafka.protocol.shortened import shortened

__all__ = ["REPEATED_SIZE_BYTES_MAX", "Repeats"]

REPEATED_SIZE_BYTES_MAX = 1 << 20

E = TypeVar("E")


class Repeats:
    """Counts the bytes of one response that answer repeated names in its request.

    Args:
        response: Makes a response with only the given element, in order to measure the element.
        version: The version of the response.
    """

    def __init__(self, response: Callable[[Any], Any], version: int) -> None:
        self._response = response
        self._version = version
        self._seen: set[Hashable] = set()
        self._left_bytes = REPEATED_SIZE_BYTES_MAX

    def check(self, named: str | tuple[Hashable, ...], element: E) -> E:
        """Count `element`, which answers `named`, if `named` was checked before; returns `element`.

        Raises:
            InvalidRequestError: The repeated elements have more than `REPEATED_SIZE_BYTES_MAX` together.
        """
        if named in self._seen:
            self.count(named, element, 1)
        else:
            self._seen.add(named)
        return element

    def count(self, named: str | tuple[Hashable, ...], element: Any, times: int) -> None:
        """Count `element` as the answer to `times` repetitions of `named`.

        Raises:
            InvalidRequestError: As `check`.
        """
        try:
            size_bytes = sum(map(len, encode_parts(self._response(element), self._version, ELEMENTS_AT_ONCE)))
            self._left_bytes -= times * size_bytes
        except ManyElements:
            self._left_bytes = -1
        if self._left_bytes < 0:
            raise InvalidRequestError(
                f"the request names {shortened(str(named))} so often that the response would repeat more than "
                f"{REPEATED_SIZE_BYTES_MAX} bytes; name it once"
            )
