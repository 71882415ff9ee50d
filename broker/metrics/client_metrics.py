"""`client_metrics`: collects the metrics that clients push to this node (KIP-714), under the clients' names."""

import re
from collections.abc import Callable, Iterator

from minikafka.broker.metrics.family import Collector, Family, Sample, gauge, total
from minikafka.broker.telemetry.clients import TelemetryClients

__all__ = ["client_metrics"]

OTHER = re.compile(r"[^a-zA-Z0-9_]")
SAMPLES_AT_ONCE = 1000
OF_CLIENTS = ("client_id", "client_instance_id", "client_software_name")


def client_metrics(clients: TelemetryClients, now_ms: Callable[[], int]) -> Collector:
    """Make the collector of the latest values. In names, `_` replaces the characters that Prometheus refuses."""

    def collect() -> Iterator[Family | None]:
        pushed = clients.pushed
        pushed.expire(now_ms())
        yield gauge("minikafka_telemetry_clients", "Clients that asked which metrics to push.", len(clients))
        yield total("minikafka_telemetry_pushes", "Pushes of clients' metrics that were taken.", pushed.pushes)
        yield total("minikafka_telemetry_left_out", "Values that were not kept: there were too many.", pushed.left_out)
        by_name: dict[tuple[str, bool], list[tuple[dict[str, str], float]]] = {}
        for number, (client, name, labels, value, grows) in enumerate(pushed.samples()):
            of_client = dict(zip(OF_CLIENTS, (client.client_id, client.instance_id, client.software_name), strict=True))
            named = {OTHER.sub("_", label): text for label, text in labels} | of_client
            by_name.setdefault((_name(name), grows), []).append((named, value))
            if number % SAMPLES_AT_ONCE == 0:
                yield None
        shown: set[str] = set()
        for (name, grows), values in by_name.items():
            if name not in shown:  # A name is shown once, though clients may disagree whether it is a counter.
                shown.add(name)
                yield _family(name, grows, values)

    return collect


def _name(name: str) -> str:
    """Return the name without `_total`, which counters get, and with a prefix if it looks like a name of the node's."""
    plain = OTHER.sub("_", name).removesuffix("_total")
    return plain if plain.startswith("org_apache_kafka_") else f"client_{plain}"


def _family(name: str, grows: bool, values: list[tuple[dict[str, str], float]]) -> Family:
    labels = tuple(sorted({label for named, _ in values for label in named}))
    samples: list[Sample] = [(tuple(named.get(label, "") for label in labels), value) for named, value in values]
    return Family(name, "counter" if grows else "gauge", "Pushed by clients.", samples, labels)
