"""Metrics of clients: connections, requests, what they wrote, and requests that wait."""

from collections.abc import Callable, Iterator, Mapping

from minikafka.broker.metrics.family import Collector, Family, gauge
from minikafka.broker.partitions.partition_table import Partitions

__all__ = ["connection_metrics", "request_metrics", "topic_metrics"]


def connection_metrics(
    connections: Callable[[], int], fetch_sessions: Callable[[], int], fetches_waiting: Callable[[], int]
) -> Collector:
    """What clients hold."""

    def collect() -> Iterator[Family | None]:
        yield gauge("kafka_server_socket_server_metrics_connection_count", "Open connections.", connections())
        cache = "kafka_server_fetchsessioncache"
        yield gauge(f"{cache}_numincrementalfetchsessions", "Incremental fetch sessions.", fetch_sessions())
        yield gauge("minikafka_fetches_waiting", "Fetches that wait for records.", fetches_waiting())

    return collect


def request_metrics(requests: Mapping[int, int], name_of: Callable[[int], str]) -> Collector:
    """Requests by API and version. `requests` is by API key times 256 plus version."""

    def collect() -> Iterator[Family | None]:
        yield Family(
            "kafka_network_requestmetrics_requests",
            "counter",
            "Requests that were decoded.",
            [((name_of(key >> 8), str(key & 0xFF)), float(count)) for key, count in requests.items()],
            ("request", "version"),
        )

    return collect


def topic_metrics(partitions: Partitions) -> Collector:
    """What leaders on this node have appended, by topic."""

    def collect() -> Iterator[Family | None]:
        traffic = list(partitions.traffic.items())
        yield Family(
            "kafka_server_brokertopicmetrics_bytesin",
            "counter",
            "Bytes that this node appended as leader.",
            (((topic,), float(one.bytes_in)) for topic, one in traffic),
            ("topic",),
        )
        yield Family(
            "kafka_server_brokertopicmetrics_messagesin",
            "counter",
            "Records that this node appended as leader.",
            (((topic,), float(one.messages_in)) for topic, one in traffic),
            ("topic",),
        )

    return collect
