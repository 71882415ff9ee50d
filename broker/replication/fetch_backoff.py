"""Backoff of a follower after a failed fetch: of one partition, and of the whole connection to a leader.

    one partition fails (error, corrupt batch)    → PartitionBackoff: 20 ms, doubled up to replica.fetch.backoff.ms
    the leader cannot be reached                  → LeaderBackoff: the same bounds, with jitter

The first delay is short: usually the follower and the leader apply the result of an election one after the other.
"""

from random import Random

from minikafka.client.connections.retry_backoff import Backoff

FIRST_DELAY_MS = 20


class PartitionBackoff:
    """Delays between fetches of one failing partition.

    Args:
        max_ms: `replica.fetch.backoff.ms`.
    """

    __slots__ = ("_delay_ms", "_max_ms")

    def __init__(self, max_ms: int) -> None:
        self._max_ms = max(max_ms, FIRST_DELAY_MS)
        self._delay_ms = FIRST_DELAY_MS

    def next_delay_ms(self) -> int:
        """Return the delay after another failure, in milliseconds; the next delay is twice as long, up to `max_ms`."""
        delay_ms = self._delay_ms
        self._delay_ms = min(delay_ms * 2, self._max_ms)
        return delay_ms

    def reset(self) -> None:
        """Start again with the first delay: a fetch succeeded."""
        self._delay_ms = FIRST_DELAY_MS


class LeaderBackoff:
    """Delays between attempts to connect to one leader.

    Args:
        max_ms: `replica.fetch.backoff.ms`.
        random: For the jitter.

    Attributes:
        failures: Failed attempts since the last success.
    """

    def __init__(self, max_ms: int, random: Random) -> None:
        self.failures = 0
        self._backoff = Backoff(FIRST_DELAY_MS, max_ms, random)

    def failed(self) -> None:
        """Count another failed attempt."""
        self.failures += 1

    def reset(self) -> None:
        """Forget the failures: a fetch succeeded, or there is reason to try at once."""
        self.failures = 0

    def delay_ms(self) -> float:
        """The delay before the next attempt in milliseconds; 0 without failures."""
        return self._backoff.delay_ms(self.failures) if self.failures else 0
