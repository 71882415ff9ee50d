"""`Sensors`: what clients have used, by those who share a quota; bounded in number, and forgotten when unused.

Source: `SensorAccess`, `ClientQuotaManager` (`INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS`).
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from minikafka.controller.quotas.limits import Sharers

__all__ = ["SENSORS_MAX", "Sensors"]

SENSORS_MAX = 10_000
"""The most sensors of one quota; before there would be more, the one that was not used for the longest time goes."""
UNUSED_MS_MAX = 3_600_000
NAME_LENGTH_MAX = 256
"""Longer users and client ids are kept by their beginning and their hash."""

T = TypeVar("T")


class Sensors(Generic[T]):
    """The sensors of one quota, by sharers.

    Args:
        new: Makes a sensor.
        count_max: The most sensors.
    """

    def __init__(self, new: Callable[[], T], count_max: int = SENSORS_MAX) -> None:
        self._new = new
        self._count_max = count_max
        self._used: OrderedDict[Sharers, tuple[T, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._used)

    def sensor(self, sharers: Sharers, now_ms: float) -> T:
        """Return the sensor of sharers, a new one if there is none."""
        user, client_id = sharers
        if len(user) > NAME_LENGTH_MAX or len(client_id) > NAME_LENGTH_MAX:
            sharers = _short(user), _short(client_id)
        known = self._used.get(sharers)
        if known is None:
            self.forget_unused(now_ms)
            if len(self._used) >= self._count_max:
                self._used.popitem(last=False)
        sensor = self._new() if known is None else known[0]
        self._used[sharers] = sensor, now_ms
        self._used.move_to_end(sharers)
        return sensor

    def forget_unused(self, now_ms: float) -> None:
        """Forget the sensors that were not used for an hour."""
        while self._used and now_ms - next(iter(self._used.values()))[1] >= UNUSED_MS_MAX:
            self._used.popitem(last=False)

    def latest(self, count_max: int) -> Iterator[tuple[Sharers, T]]:
        """The sensors that were used last, at most `count_max`."""
        for number, sharers in enumerate(reversed(self._used)):
            if number == count_max:
                return
            yield sharers, self._used[sharers][0]


def _short(name: str) -> str:
    if len(name) <= NAME_LENGTH_MAX:
        return name
    return name[:NAME_LENGTH_MAX] + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
