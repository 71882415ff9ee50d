"""`Refusals`: records of a blocking producer that were queued, and then refused: each error is looked at, or logged.

Those of one topic with the same error are counted together for a second. The line is logged once the application can
look at none of their deliveries any more.
"""

from __future__ import annotations

import logging

from minikafka.client.escaped_log import escaped
from minikafka.protocol.errors import KafkaError

_logger = escaped(logging.getLogger("minikafka.client.producer"))
TOGETHER_S = 1
"""For how long records are counted together."""


class Refusal:
    """Why records were not sent."""

    __slots__ = ("_count", "_error", "_is_told", "_topic", "_trace")

    def __init__(self, topic: str, error: Exception, *, is_told: bool) -> None:
        self._topic = topic
        self._error = error
        self._trace = error.__traceback__ and error.__traceback__.tb_next  # without the frame that knows the delivery
        error.__traceback__ = self._trace
        self._is_told = is_told
        self._count = 0

    def add(self, count: int) -> None:
        """So many more records were refused for the same reason."""
        self._count += count

    def error(self) -> Exception:
        """The error, which the application looks at."""
        self._is_told = True
        return self._error.with_traceback(self._trace)

    def __del__(self) -> None:
        if not self._is_told:
            _logger.warning("records for topic %r not sent: %d: %s", self._topic, self._count, self._error)


class Refusals:
    """The refusals of the last second."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], Refusal] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def add(self, topic: str, error: Exception, count: int) -> Refusal:
        """So many records of a topic were refused."""
        key = topic, str(error)
        if (refusal := self._of.get(key)) is None:
            refusal = self._of[key] = Refusal(topic, error, is_told=False)
        refusal.add(count)
        return refusal

    def clear(self) -> None:
        """Log those that nobody will look at."""
        self._of.clear()


def dropped(topic: str, error: KafkaError) -> Refusal:
    """That of records that waited when the producer was closed, which logs their number."""
    return Refusal(topic, error, is_told=True)
