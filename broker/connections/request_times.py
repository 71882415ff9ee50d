"""`RequestTimes`: counts the requests that a node answered, their sizes, and the time that each part of the work took.

Kept if `metrics.listener` is set. A connection adds the requests of a turn together, when their responses are sent; the
time of each of these requests is the mean of the turn. Of the single requests that are answered at once, the first
`SAMPLES` of each API and version are measured, and after them one in `EVERY`, which counts for `EVERY` requests. All
requests that wait are measured. The numbers of requests and bytes are exact. So metrics cost next to nothing where many
requests are answered. Source: Kafka's `RequestMetrics`.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence

__all__ = ["EVERY", "FOLLOWER", "HEAD_SIZE_BYTES", "SAMPLES", "STEADY", "Measured", "RequestTimes", "Requests", "Times"]

SAMPLES = 1024
"""The number of turns whose times are kept; Kafka's histograms keep 1028 requests."""
EVERY = 16
"""After `SAMPLES` turns, the times of one turn in `EVERY` are measured."""
FOLLOWER = 1 << 16
"""Added to the key in `RequestTimes.by_key` for requests on a connection on which a follower fetches."""
HEAD_SIZE_BYTES = 4
"""The bytes of a request that say which one it is: the API key and the version."""

STEADY = time.perf_counter
"""The clock of all measurements. It is cheaper than trio's clock, and runs in real time."""
Times = tuple[float, float, float, float]
"""Four times of requests that were answered together, in seconds on the clock of `RequestTimes`: when the first request
was received; when the node began to answer it; when it began to wait (0 if it did not wait); when the responses were
ready."""
Measured = tuple[Sequence[bytearray], int, bool, int, Times, int, int]
"""The arguments of `RequestTimes.add` except the last one, `sent_s`."""


class Requests:
    """Counts and sums of the requests of one API and version. All times are in seconds.

    Attributes:
        turns: How many single requests were answered at once.
        count: How many requests were answered.
        queue_s: The sum of the times from the receipt of a request until the node began to answer it.
        local_s: The sum of the times from there until the request was answered, or had to wait.
        remote_s: The sum of the times that requests waited.
        throttle_s: The sum of the times for which connections were muted after the response.
        send_s: The sum of the times from the ready response until the kernel took it.
        bytes_in: The bytes of the requests.
        bytes_out: The bytes of the responses.
        latest: The five times, in this order, of the turns that were measured last.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "count",
        "latest",
        "local_s",
        "queue_s",
        "remote_s",
        "send_s",
        "throttle_s",
        "turns",
    )

    def __init__(self) -> None:
        self.count = self.bytes_in = self.bytes_out = self.turns = 0
        self.queue_s = self.local_s = self.remote_s = self.throttle_s = self.send_s = 0.0
        self.latest: deque[tuple[float, float, float, float, float]] = deque(maxlen=SAMPLES)

    @property
    def sums_s(self) -> tuple[float, float, float, float, float]:
        """The sums of the queue, local, remote, throttle and send times, in this order."""
        return self.queue_s, self.local_s, self.remote_s, self.throttle_s, self.send_s


class RequestTimes:
    """Counts and times of all requests of a node.

    Args:
        clock: Seconds that only grow; the same clock as that of `ReadySockets`.

    Attributes:
        by_key: The requests by API key times 256 plus version, plus `FOLLOWER` for those of followers.
    """

    def __init__(self, clock: Callable[[], float] = STEADY) -> None:
        self.clock = clock
        self.by_key: defaultdict[int, Requests] = defaultdict(Requests)

    def weight(self, frame: bytearray, size_bytes: int) -> int:
        """Count a single request that is answered at once, and return for how many requests it is to be measured.

        If the result is 0, the request and its bytes are counted here; otherwise the caller calls `add`.
        """
        requests = self.by_key[frame[1] << 8 | frame[3]]
        requests.turns += 1
        if requests.turns <= SAMPLES:
            return 1
        if not requests.turns % EVERY:
            return EVERY
        requests.count += 1
        requests.bytes_in += len(frame)
        requests.bytes_out += size_bytes
        return 0

    def add(
        self,
        frames: Sequence[bytearray],
        bytes_in: int,
        follows: bool,
        weight: int,
        times: Times,
        throttle_ms: int,
        size_bytes: int,
        sent_s: float,
    ) -> None:
        """Add requests whose responses were sent together.

        Args:
            frames: The requests; if there is only one, its first `HEAD_SIZE_BYTES` suffice.
            bytes_in: The bytes of the requests.
            follows: Whether a follower fetches on the connection.
            weight: For how many such requests each counts in the sums of times.
            throttle_ms: For how long the connection is muted after the last response.
            size_bytes: The bytes of the responses.
            sent_s: When they were sent, on `clock`.
        """
        arrived_s, began_s, waits_s, ended_s = times
        first, count = frames[0], len(frames)
        if count > 1 and any([frame[:HEAD_SIZE_BYTES] != first[:HEAD_SIZE_BYTES] for frame in frames]):
            self._add_each(frames, follows, times, throttle_ms, size_bytes, sent_s)
            return
        requests = self.by_key[first[1] << 8 | first[3] | (FOLLOWER if follows else 0)]
        queue_s, local_s, send_s = began_s - arrived_s, ended_s - began_s, sent_s - ended_s
        remote_s = throttle_s = 0.0
        if waits_s:
            local_s, remote_s = waits_s - began_s, ended_s - waits_s
            requests.remote_s += remote_s
        if throttle_ms:
            throttle_s = throttle_ms / 1000
            requests.throttle_s += throttle_s
        if count > 1:
            local_s /= count
            queue_s += local_s * (count - 1) / 2
        requests.count += count
        requests.bytes_in += bytes_in
        requests.bytes_out += size_bytes
        weight *= count
        requests.queue_s += queue_s * weight
        requests.local_s += local_s * weight
        requests.send_s += send_s * weight
        requests.latest.append((queue_s, local_s, remote_s, throttle_s, send_s))

    def _add_each(
        self, frames: Sequence[bytearray], follows: bool, times: Times, throttle_ms: int, size_bytes: int, sent_s: float
    ) -> None:
        """Add requests of several APIs or versions: each counts with the mean time of all."""
        arrived_s, began_s, _, ended_s = times
        count = len(frames)
        local_s, wait_s = (ended_s - began_s) / count, sent_s - ended_s
        for number, frame in enumerate(frames):
            ready_s = began_s + local_s
            part_bytes = size_bytes * (number + 1) // count - size_bytes * number // count
            muted_ms = throttle_ms if number == count - 1 else 0
            one_s = arrived_s, began_s, 0.0, ready_s
            self.add([frame], len(frame), follows, 1, one_s, muted_ms, part_bytes, ready_s + wait_s)
            began_s = ready_s
