"""`PushedMetrics`: keeps the latest value of each metric of a client, until the client is silent for too long. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from minikafka.broker.telemetry.otlp import Point
from minikafka.broker.telemetry.subscriptions import Client

__all__ = ["SAMPLES_MAX", "PushedMetrics"]

SAMPLES_MAX = 200_000
SIZE_BYTES_MAX = 32 << 20
"""The bound on all values together, with their names and labels, and the names of the client shown with each value."""
VALUE_SIZE_BYTES, LABEL_SIZE_BYTES = 300, 160
"""The bytes that a value and a label take in addition to their letters."""
Labels = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Values:
    client: Client
    until_ms: int = 0
    values: dict[tuple[str, Labels], tuple[float, bool]] = field(default_factory=lambda: {})


class PushedMetrics:
    """The metrics of all clients, at most `SAMPLES_MAX` values of `SIZE_BYTES_MAX` together; more are not kept.

    Attributes:
        pushes: How many pushes were taken.
        left_out: How many values were not kept.
    """

    def __init__(self) -> None:
        self.pushes = self.left_out = 0
        self._clients: dict[bytes, _Values] = {}
        self._size = self._size_bytes = 0

    def add(self, instance_id: bytes, client: Client, points: Iterable[Point], until_ms: int) -> None:
        """Add the values that a client pushed; they are kept until `until_ms`, on the wall clock."""
        self.pushes += 1
        known = self._clients.setdefault(instance_id, _Values(client))
        known.until_ms = until_ms
        for point in points:
            key = point.name, point.labels
            before = known.values.get(key)
            if before is None:
                size_bytes = _size_bytes(known.client, key)
                if self._size >= SAMPLES_MAX or self._size_bytes + size_bytes > SIZE_BYTES_MAX:
                    self.left_out += 1
                    continue
                self._size += 1
                self._size_bytes += size_bytes
            added = before[0] if before is not None and point.delta else 0.0
            known.values[key] = added + point.value, point.total

    def forget(self, instance_id: bytes) -> None:
        """Remove the values of a client that is no longer known."""
        forgotten = self._clients.pop(instance_id, None)
        if forgotten is not None:
            self._size -= len(forgotten.values)
            self._size_bytes -= sum(_size_bytes(forgotten.client, key) for key in forgotten.values)

    def expire(self, now_ms: int) -> None:
        """Forget clients that were silent for too long."""
        for instance_id in [one for one, values in self._clients.items() if values.until_ms < now_ms]:
            self.forget(instance_id)

    def samples(self) -> Iterator[tuple[Client, str, Labels, float, bool]]:
        """Yield each value as (client, name, labels, value, whether the metric only grows)."""
        for one in list(self._clients.values()):
            for (name, labels), (value, total) in list(one.values.items()):
                yield one.client, name, labels, value, total


def _size_bytes(client: Client, key: tuple[str, Labels]) -> int:
    """Estimate the bytes that a value takes, as text in memory or on the page."""
    name, labels = key
    letters = len(name) + len(client.client_id) + len(client.software_name)
    letters += sum(len(label) + len(text) for label, text in labels)
    return VALUE_SIZE_BYTES + LABEL_SIZE_BYTES * len(labels) + 4 * letters
