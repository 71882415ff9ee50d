"""`Traffic`: counts the connections of a client, and their requests, responses and bytes, for its metrics."""

from __future__ import annotations

from typing import Any

import anyio

from minikafka.client.argument_checks import checks_arguments
from minikafka.client.connections.connection import Connection
from minikafka.client.metrics import MetricName, Readings, Window


class Traffic:
    """The counts of all connections of one client, open and closed, and the metrics `Window` for computing rates."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.window = Window(anyio.current_time())
        self._created = 0
        self._open: list[Connection] = []
        self._closed = [0, 0, 0, 0]

    def opened(self, connection: Connection) -> None:
        """Count a connection."""
        self._created += 1
        self._settle()
        self._open.append(connection)

    def measure(self, readings: Readings) -> None:
        """Add the metrics that all clients have to `readings`."""
        self._settle()
        requests, responses, sent, received = map(sum, zip(self._closed, *map(_counts, self._open), strict=True))
        readings.gauge("connection-count", len(self._open))
        readings.total("connection-creation", self._created)
        readings.total("connection-close", self._created - len(self._open))
        readings.total("request", requests)
        readings.total("response", responses)
        readings.total("outgoing-byte", sent)
        readings.total("incoming-byte", received)
        readings.average("request-size", sent, requests)

    def _settle(self) -> None:
        """Add the counts of closed connections to the totals, and drop these connections."""
        for one in self._open:
            if one.closed:
                self._closed = [sum(pair) for pair in zip(self._closed, _counts(one), strict=True)]
        self._open = [one for one in self._open if not one.closed]


def _counts(connection: Connection) -> tuple[int, int, int, int]:
    counts = connection.counts
    return connection.requests, connection.responses, counts.sent_bytes, counts.received_bytes


@checks_arguments()
class Measured:
    """The `metrics` method of a client; a base class of `ClusterClient`, which provides `cluster`."""

    _metrics_kind = "admin-client"

    @property
    def cluster(self) -> Any:
        """The `Cluster`. Raises RuntimeError outside of `async with`."""
        raise NotImplementedError

    def metrics(self) -> dict[MetricName, float]:
        """The client's metrics, a subset of the JVM client's: docs/client.md lists them.

        Raises RuntimeError outside of `async with`.
        """
        traffic: Traffic = self.cluster.traffic
        readings = Readings(self._metrics_kind, traffic.client_id)
        traffic.measure(readings)
        self._measure(readings)
        return traffic.window.finish(readings, anyio.current_time())

    def _measure(self, readings: Readings) -> None:
        """Add the client's own metrics."""
