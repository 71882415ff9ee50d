"""`Stopwatch`: measures the requests of one connection, from their receipt until their responses are sent."""

from typing import Any

from minikafka.broker.connections.ready_sockets import ReadySockets
from minikafka.broker.connections.request_times import HEAD_SIZE_BYTES, Measured, RequestTimes

__all__ = ["Stopwatch"]


class Stopwatch:
    """Measures the requests of one connection.

    Args:
        times: Receives the measurements.
        polls: Knows when bytes were seen to have arrived; None if nobody does before they are read.
    """

    def __init__(self, times: RequestTimes, polls: ReadySockets | None) -> None:
        self._times = times
        self._polls = polls
        self._arrived_s = 0.0
        self._waiting: tuple[bytearray, int, float, float] = bytearray(), 0, 0.0, 0.0
        self._unsent: list[Measured] = []

    def arrived(self, now_s: float) -> None:
        """Bytes of a turn were read."""
        self._arrived_s = now_s if self._polls is None else self._polls.polled_s

    def loaded(self) -> None:
        """The last bytes of a request that took several reads were read."""
        self._arrived_s = self._times.clock()

    def waits(self, frame: bytearray, began_s: float) -> None:
        """A request has begun at `began_s`, and has to wait. Its frame is not kept."""
        self._waiting = frame[:HEAD_SIZE_BYTES], len(frame), began_s, self._times.clock()

    def answered(self, parts: list[Any], throttle_ms: int, *, follows: bool) -> None:
        """The request that had to wait is answered."""
        head, bytes_in, began_s, waits_s = self._waiting
        self._waiting = bytearray(), 0, 0.0, 0.0
        times_s = self._arrived_s, began_s, waits_s, self._times.clock()
        self._unsent.append(([head], bytes_in, follows, 1, times_s, throttle_ms, sum(map(len, parts))))

    def answered_at_once(self, frames: list[bytearray], size_bytes: int, throttle_ms: int, began_s: float) -> None:
        """Requests are answered that were begun together at `began_s`: they are counted, and measured if it is due."""
        weight = 1 if len(frames) > 1 or throttle_ms else self._times.weight(frames[0], size_bytes)
        if weight:
            times_s = self._arrived_s, began_s, 0.0, self._times.clock()
            bytes_in = sum(map(len, frames))
            self._unsent.append((frames, bytes_in, False, weight, times_s, throttle_ms, size_bytes))

    def sent(self) -> None:
        """The responses to all requests are sent."""
        if self._unsent:
            measured, self._unsent = self._unsent, []
            now_s = self._times.clock()
            for one in measured:
                self._times.add(*one, now_s)
