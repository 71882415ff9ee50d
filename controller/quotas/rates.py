"""A rate over the last samples, and a token bucket, which say how long a client above its limit is throttled.

A rate counts over at least all samples but one, even if the first value was recorded just now: 900,000 bytes at once
are 450,000 bytes a second with three samples of a second. With a limit of 100,000 the client is throttled until its
bytes are spread over enough time: (450,000 - 100,000) / 100,000 x 2 s = 7 s. There is no upper bound.

Source: Kafka's `Rate`, `SampledStat`, `WindowedSum`, `TokenBucket`, `QuotaUtils`.
"""

from collections import deque
from dataclasses import dataclass

__all__ = ["THROTTLE_MS_MAX", "Rate", "Samples", "TokenBucket", "rounded"]

THROTTLE_MS_MAX = (1 << 31) - 1
"""The longest throttle time that a response can carry."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Over what time usage is measured: `quota.window.num` samples of `quota.window.size.seconds`.

    Attributes:
        count: The number of samples.
        size_ms: The length of a sample, in milliseconds.
    """

    count: int = 11
    size_ms: int = 1000


class _Sample:
    __slots__ = ("began_ms", "last_ms", "value")

    def __init__(self, began_ms: float) -> None:
        self.began_ms = self.last_ms = began_ms
        self.value = 0.0


class Rate:
    """Units per second.

    Samples that overlap the time that is measured are kept, so there may be one more than `samples.count`.
    """

    __slots__ = ("_kept", "_samples")

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        self._kept: deque[_Sample] = deque(maxlen=samples.count + 1)

    def record(self, value: float, now_ms: float) -> None:
        """Add `value` units that are used now; a negative value takes units back."""
        if not self._kept or now_ms - self._kept[-1].began_ms >= self._samples.size_ms:
            self._kept.append(_Sample(now_ms))
        sample = self._kept[-1]
        sample.value += value
        sample.last_ms = now_ms

    def measured(self, now_ms: float) -> float:
        """Return the rate now."""
        window_ms = self.window_ms(now_ms)
        return sum([sample.value for sample in self._kept]) * 1000 / window_ms

    def window_ms(self, now_ms: float) -> float:
        """Return over what time the rate is taken: the age of the oldest sample, but at least all samples but one."""
        samples = self._samples
        while self._kept and now_ms - self._kept[0].last_ms >= samples.count * samples.size_ms:
            self._kept.popleft()
        elapsed_ms = now_ms - self._kept[0].began_ms if self._kept else 0.0
        lacking = samples.count - 1 - int(elapsed_ms // samples.size_ms)
        return max(elapsed_ms + max(lacking, 0) * samples.size_ms, samples.size_ms)

    def above_for_ms(self, limit: float, now_ms: float) -> int:
        """Return for how many milliseconds a client with this limit is throttled; 0 if the rate is not above it."""
        rate = self.measured(now_ms)
        if rate <= limit:
            return 0
        if not limit:
            return THROTTLE_MS_MAX
        return rounded((rate - limit) / limit * self.window_ms(now_ms))


class TokenBucket:
    """Tokens that are refilled at a limit per second, up to the tokens of all samples. There may be less than none.

    It is full at first. Source: KIP-599.
    """

    __slots__ = ("_burst_s", "_refilled_ms", "_tokens")

    def __init__(self, samples: Samples) -> None:
        self._burst_s = samples.count * samples.size_ms / 1000
        self._tokens: float | None = None
        self._refilled_ms = 0.0

    def tokens(self, limit: float, now_ms: float) -> float:
        """Return the number of tokens now, with this limit."""
        burst = limit * self._burst_s
        if self._tokens is None:
            self._tokens = burst
        else:
            self._tokens = min(burst, self._tokens + limit * (now_ms - self._refilled_ms) / 1000)
        self._refilled_ms = now_ms
        return self._tokens

    def take(self, count: float, limit: float, now_ms: float) -> None:
        """Take `count` tokens, also if there are fewer."""
        self._tokens = self.tokens(limit, now_ms) - count

    def below_for_ms(self, limit: float, now_ms: float) -> int:
        """Return for how many milliseconds there will be less than no tokens; 0 if there are not less than none."""
        tokens = self.tokens(limit, now_ms)
        return rounded(-tokens / limit * 1000) if tokens < 0 else 0


def rounded(throttle_ms: float) -> int:
    """Return a throttle time, infinite with the smallest limits, in whole milliseconds, as Java rounds, within
    `THROTTLE_MS_MAX`."""
    return int(min(throttle_ms + 0.5, THROTTLE_MS_MAX))
