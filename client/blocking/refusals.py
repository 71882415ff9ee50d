"""`Refusals`: errors of records that a blocking producer queued and then refused; logged unless the application asks.

Records of one topic with the same error are counted together for a second. One line is logged for them, once the
application has no reference to any of their deliveries.
"""

from __future__ import annotations

import logging

from minikafka.client.escaped_log import escaped
from minikafka.protocol.errors import KafkaError

_logger = escaped(logging.getLogger("minikafka.client.producer"))
TOGETHER_S = 1
"""How long refused records of one topic with the same error are counted together, in seconds."""


class Refusal:
    """The error of refused records. When a `Refusal` is deleted, the error is logged unless `error()` was called."""

    __slots__ = ("_count", "_error", "_is_told", "_topic", "_trace")

    def __init__(self, topic: str, error: Exception, *, is_told: bool) -> None:
        self._topic = topic
        self._error = error
        self._trace = error.__traceback__ and error.__traceback__.tb_next  # without the frame that knows the delivery
        error.__traceback__ = self._trace
        self._is_told = is_told
        self._count = 0

    def add(self, count: int) -> None:
        """Add the number of further records that were refused with the same error."""
        self._count += count

    def error(self) -> Exception:
        """The error, for the application; it is not logged after this call."""
        self._is_told = True
        return self._error.with_traceback(self._trace)

    def __del__(self) -> None:
        if not self._is_told:
            _logger.warning("records for topic %r not sent: %d: %s", self._topic, self._count, self._error)


class Refusals:
    """The refusals of the last second, by topic and error."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], Refusal] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def add(self, topic: str, error: Exception, count: int) -> Refusal:
        """Add refused records of a topic; return the refusal that they share."""
        key = topic, str(error)
        if (refusal := self._of.get(key)) is None:
            refusal = self._of[key] = Refusal(topic, error, is_told=False)
        refusal.add(count)
        return refusal

    def clear(self) -> None:
        """Forget the refusals. Those to which no delivery refers are deleted, and thereby logged."""
        self._of.clear()


def dropped(topic: str, error: KafkaError) -> Refusal:
    """The refusal of records that still waited when the producer was closed; the producer itself logs their number."""
    return Refusal(topic, error, is_told=True)
