"""`RateQuota`: one quota that limits a rate, and what clients have used of it. Source: `ClientQuotaManager`."""

from collections.abc import Iterator
from math import inf

from minikafka.controller.quotas.limits import ClientLimits, Sharers
from minikafka.controller.quotas.rates import THROTTLE_MS_MAX, Rate, Samples
from minikafka.controller.quotas.sensors import Sensors

__all__ = ["RateQuota", "Usage"]


class Usage:
    """What sharers of a quota have used, and for how long they were throttled.

    Attributes:
        rate: What they used.
    """

    __slots__ = ("_samples", "_throttles", "rate")

    def __init__(self, samples: Samples) -> None:
        self.rate = Rate(samples)
        self._samples = samples
        self._throttles: tuple[Rate, Rate] | None = None

    def throttled(self, throttle_ms: int, now_ms: float) -> None:
        """They are throttled now."""
        if self._throttles is None:
            self._throttles = Rate(self._samples), Rate(self._samples)
        for rate, value in zip(self._throttles, (throttle_ms, 1), strict=True):
            rate.record(value, now_ms)

    def mean_throttle_ms(self, now_ms: float) -> float:
        """The mean of the latest throttle times in milliseconds; 0 if there are none."""
        if self._throttles is None:
            return 0.0
        sum_ms, count = (rate.measured(now_ms) for rate in self._throttles)
        return sum_ms / count if count else 0.0


class RateQuota:
    """A quota in units per second.

    Args:
        key: The quota's key in the metadata.
        samples: Over what time usage is measured.
        throttle_ms_max: The longest throttle time.

    Attributes:
        limits: The quotas of this key.
    """

    def __init__(self, key: str, samples: Samples, throttle_ms_max: int = THROTTLE_MS_MAX) -> None:
        self.limits = ClientLimits(key)
        self._samples = samples
        self._throttle_ms_max = throttle_ms_max
        self._usage: Sensors[Usage] = Sensors(lambda: Usage(samples))

    def record(self, user: str, client_id: str, value: float, now_ms: float) -> int:
        """Count what a client uses now; returns for how many milliseconds it is to be throttled."""
        sharers = self.limits.sharers(user, client_id)
        usage = self._usage.sensor(sharers, now_ms)
        usage.rate.record(value, now_ms)
        limit = self.limits.limit(sharers)
        if limit is None:
            return 0
        return min(usage.rate.above_for_ms(limit, now_ms), self._throttle_ms_max)

    def correct(self, user: str, client_id: str, value: float, now_ms: float) -> None:
        """Count `value` too, or take it back if it is negative, without an effect on the present request."""
        self._usage.sensor(self.limits.sharers(user, client_id), now_ms).rate.record(value, now_ms)

    def throttled(self, user: str, client_id: str, throttle_ms: int, now_ms: float) -> None:
        """A client is throttled because of this quota: for the metrics."""
        self._usage.sensor(self.limits.sharers(user, client_id), now_ms).throttled(throttle_ms, now_ms)

    def value_max(self, user: str, client_id: str) -> float:
        """The most that a client can use at once without being throttled; infinite without a quota."""
        limit = self.limits.limit(self.limits.sharers(user, client_id)) if self.limits.exist else None
        return inf if limit is None else limit * (self._samples.count - 1) * self._samples.size_ms / 1000

    def latest(self, count_max: int, now_ms: float) -> Iterator[tuple[Sharers, Usage]]:
        """What those with a quota have used who used it last, at most `count_max`."""
        self._usage.forget_unused(now_ms)
        found = self._usage.latest(count_max)
        return ((sharers, usage) for sharers, usage in found if self.limits.limit(sharers) is not None)
