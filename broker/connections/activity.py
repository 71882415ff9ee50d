"""`Activity`: when bytes moved on a connection, and whether its client moves a large message too slowly. No I/O."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from minikafka.broker.connections.request_memory import HeldRoom
from minikafka.broker.connections.socket_moves import STEP_SIZE_BYTES
from minikafka.broker.connections.transport import Transport

__all__ = ["Activity"]


@dataclass(frozen=True, slots=True)
class _Watched:
    """When large messages in transfer were first seen, and how many bytes the transport had moved by then."""

    rooms: Sequence[HeldRoom]
    since_s: float
    moved_bytes: int


class Activity:
    """When bytes moved on a connection.

    Args:
        clock: Seconds that only grow.

    Attributes:
        last_s: When bytes of a request or response last moved; `is_idle` also notices parts of large messages.
    """

    def __init__(self, transport: Transport, clock: Callable[[], float]) -> None:
        self.last_s = clock()
        self._transport = transport
        self._clock = clock
        self._moved_bytes_seen = 0
        self._watched = _Watched([], 0.0, 0)

    def is_idle(self, longer_than_s: float) -> bool:
        """Whether no byte has moved for `longer_than_s`; exact to the interval between two calls."""
        now_s = self._clock()
        if self._transport.moved_bytes != self._moved_bytes_seen:
            self._moved_bytes_seen = self._transport.moved_bytes
            self.last_s = now_s
        return now_s - self.last_s > longer_than_s

    def is_in_the_way(self, rooms: Sequence[HeldRoom], longer_than_s: float, rate_min: float) -> bool:
        """Whether the client sends a large request, or reads a response, too slowly while others wait for the memory.

        Exact to the interval between two calls. The measurement begins with the first call that sees the transfer.

        Args:
            rooms: The rooms of the messages in transfer.
            longer_than_s: How long the client must have been slow, and other requests must have waited.
            rate_min: The rate below which the client is slow, in bytes a second.
        """
        now_s, moved_bytes = self._clock(), self._transport.moved_bytes
        if not rooms or rooms != self._watched.rooms:
            self._watched = _Watched(rooms, now_s, moved_bytes)
            return False
        seen_for_s = now_s - self._watched.since_s
        taken_bytes = moved_bytes - self._watched.moved_bytes + STEP_SIZE_BYTES  # `moved_bytes` grows by steps.
        is_slow = taken_bytes < rate_min * seen_for_s
        waited_for_s = max(room.memory.waited_for_s for room in rooms)
        return is_slow and seen_for_s >= longer_than_s and waited_for_s >= longer_than_s
