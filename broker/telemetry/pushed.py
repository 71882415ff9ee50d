"""`PushedMetrics`: the latest value of each metric that clients pushed, until they are silent for too long. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from minikafka.broker.telemetry.otlp import Point
from minikafka.broker.telemetry.subscriptions import Client

__all__ = ["SAMPLES_MAX", "PushedMetrics"]

SAMPLES_MAX = 200_000
Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Values:
    client: Client
    until_ms: int = 0
    values: dict[tuple[str, Labels], tuple[float, bool]] = field(default_factory=lambda: {})


class PushedMetrics:
    """The metrics of all clients, at most `SAMPLES_MAX` values; more are not kept.

    Attributes:
        pushes: How many pushes were taken.
        left_out: How many values were not kept.
    """

    def __init__(self) -> None:
        self.pushes = self.left_out = 0
        self._clients: dict[bytes, _Values] = {}
        self._size = 0

    def add(self, instance_id: bytes, client: Client, points: Iterable[Point], until_ms: int) -> None:
        """A client pushed; its values are kept until then."""
        self.pushes += 1
        known = self._clients.setdefault(instance_id, _Values(client))
        known.until_ms = until_ms
        for point in points:
            key = point.name, point.labels
            before = known.values.get(key)
            if before is None:
                if self._size >= SAMPLES_MAX:
                    self.left_out += 1
                    continue
                self._size += 1
            added = before[0] if before is not None and point.delta else 0.0
            known.values[key] = added + point.value, point.total

    def forget(self, instance_id: bytes) -> None:
        """The client is not known any more."""
        forgotten = self._clients.pop(instance_id, None)
        if forgotten is not None:
            self._size -= len(forgotten.values)

    def expire(self, now_ms: int) -> None:
        """Forget clients that were silent for too long."""
        for instance_id in [one for one, values in self._clients.items() if values.until_ms < now_ms]:
            self.forget(instance_id)

    def samples(self) -> Iterator[tuple[Client, str, Labels, float, bool]]:
        """Each value: its client, name and labels, and whether it only grows."""
        for one in list(self._clients.values()):
            for (name, labels), (value, total) in list(one.values.items()):
                yield one.client, name, labels, value, total
