"""Collects the metrics of clients' work: connections, requests and their times, appends to topics and reads."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from minikafka.broker.connections.request_times import FOLLOWER, Requests, RequestTimes
from minikafka.broker.metrics.family import Collector, Family, Sample, gauge, total
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.partitions.traffic import Traffic
from minikafka.protocol.apis import FETCH_KEY

__all__ = ["connection_metrics", "request_metrics", "topic_metrics"]

REQUESTS = "kafka_network_requestmetrics"
QUANTILES = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
"""The quantiles of Kafka's histograms."""
TIMES = (
    ("requestqueuetimems", "until the broker began with them: others came first."),
    ("localtimems", "until they were answered, or had to wait."),
    ("remotetimems", "that they waited: for records, followers, other members, other nodes, the disk."),
    ("throttletimems", "for which their connections were muted afterwards."),
    ("responsesendtimems", "until the kernel had taken the response."),
    ("totaltimems", "in all."),
    ("responsequeuetimems", "until sending the response began, which is at once: 0."),
)
"""The name of each time, and the end of its documentation. The first five are in the order of `Requests.latest`."""
NOTHING_SENT = (0.0,) * 5
"""The times of an API without a sent response: 0, as in Kafka."""


def connection_metrics(
    connections: Callable[[], Iterable[str]], accepted: Callable[[], int], fetch_sessions: Callable[[], int]
) -> Collector:
    """Make the collector of connections and fetch sessions.

    Args:
        connections: Returns the listener of each open connection.
        accepted: Returns the number of connections that were accepted so far.
        fetch_sessions: Returns the number of incremental fetch sessions.
    """

    def collect() -> Iterator[Family | None]:
        server = "kafka_server_socket_server_metrics"
        by_listener = Counter(connections())
        yield Family(
            f"{server}_connection_count",
            "gauge",
            "Open connections.",
            [((listener,), float(count)) for listener, count in by_listener.items()],
            ("listener",),
        )
        yield total(f"{server}_connection_creation", "Connections that were accepted.", accepted())
        cache = "kafka_server_fetchsessioncache"
        yield gauge(f"{cache}_numincrementalfetchsessions", "Incremental fetch sessions.", fetch_sessions())

    return collect


def request_metrics(times: RequestTimes, name_of: Callable[[int], str]) -> Collector:
    """Make the collector of the requests of each API: counts, times and sizes.

    Fetch requests also count separately for followers and for consumers, as in Kafka.
    """

    def collect() -> Iterator[Family | None]:
        by_name: dict[str, dict[int, Requests]] = {}
        for key, requests in sorted(times.by_key.items()):
            for name in _names(key, name_of):
                by_name.setdefault(name, {})[key] = requests
        yield Family(
            f"{REQUESTS}_requests",
            "counter",
            "Requests that were answered.",
            _counts(by_name),
            ("request", "version"),
        )
        samples: dict[str, list[Sample]] = {name: [] for name, _ in TIMES}
        for name, by_key in by_name.items():
            yield None
            for time, of_api in _times(name, list(by_key.values())):
                samples[time] += of_api
        for name, documentation in TIMES:
            documentation = f"Milliseconds of requests {documentation}"
            yield Family(f"{REQUESTS}_{name}", "summary", documentation, samples[name], ("request", "quantile"))
        yield _bytes(f"{REQUESTS}_requestbytes", "Bytes of requests.", by_name, lambda one: one.bytes_in)
        yield _bytes("minikafka_response_bytes", "Bytes of responses.", by_name, lambda one: one.bytes_out)

    return collect


def _counts(by_name: Mapping[str, Mapping[int, Requests]]) -> list[Sample]:
    """Count the requests of each API and version."""
    counts: Counter[tuple[str, str]] = Counter()
    for name, by_key in by_name.items():
        for key, requests in by_key.items():
            counts[name, str(key & 0xFF)] += requests.count
    return [(labels, float(count)) for labels, count in counts.items()]


def _names(key: int, name_of: Callable[[int], str]) -> list[str]:
    api = (key & ~FOLLOWER) >> 8
    if api != FETCH_KEY:
        return [name_of(api)]
    return [name_of(api), "FetchFollower" if key & FOLLOWER else "FetchConsumer"]


def _times(name: str, requests: list[Requests]) -> Iterator[tuple[str, list[Sample]]]:
    """Yield the samples of an API for each of `TIMES`: the quantiles, the sum and the count."""
    latest = [times for one in requests for times in one.latest] or [NOTHING_SENT]
    columns = [*zip(*latest, strict=True), [sum(times) for times in latest], [0.0]]
    sums = [sum(column) for column in zip(*(one.sums_s for one in requests), strict=True)]
    count = float(sum(one.count for one in requests))
    for (time, _), column, seconds in zip(TIMES, columns, (*sums, sum(sums), 0.0), strict=True):
        ordered = sorted(column)
        samples: list[Sample] = []
        for quantile in QUANTILES:
            samples.append(((name, str(quantile)), 1000 * ordered[int(quantile * len(ordered))]))
        yield time, [*samples, ((name, "sum"), 1000 * seconds), ((name, "count"), count)]


def _bytes(
    name: str, documentation: str, by_name: Mapping[str, Mapping[int, Requests]], of: Callable[[Requests], int]
) -> Family:
    samples = [((api,), float(sum(map(of, by_key.values())))) for api, by_key in by_name.items()]
    return Family(name, "counter", documentation, samples, ("request",))


TOPIC = "kafka_server_brokertopicmetrics"
_OF_TOPICS: tuple[tuple[str, str, Callable[[Traffic], int]], ...] = (
    ("bytesin", "Bytes that this node appended as leader.", lambda one: one.bytes_in),
    ("messagesin", "Records that this node appended as leader.", lambda one: one.messages_in),
    ("bytesout", "Bytes of records that consumers were sent.", lambda one: one.bytes_out),
    ("bytesrejected", "Bytes of producers' batches that were refused.", lambda one: one.rejected_bytes),
    ("totalproducerequests", "Batches that were appended or refused.", lambda one: one.batches_in + one.rejected),
    ("failedproducerequests", "Batches of producers that were refused.", lambda one: one.rejected),
    ("totalfetchrequests", "Reads of a partition by Fetch.", lambda one: one.reads),
    ("failedfetchrequests", "Reads of a partition by Fetch that were answered with an error.",
     lambda one: one.failed_reads),
    ("replicationbytesin", "Bytes that this node appended as follower.", lambda one: one.followed_bytes_in),
    ("replicationbytesout", "Bytes of records that followers were sent.", lambda one: one.followed_bytes_out),
)


def topic_metrics(partitions: Partitions) -> Collector:
    """Make the collector of appends and reads, by topic."""

    def collect() -> Iterator[Family | None]:
        traffic = list(partitions.traffic.items())
        for name, documentation, of in _OF_TOPICS:
            samples = _of_each(traffic, of)
            yield Family(f"{TOPIC}_{name}", "counter", documentation, samples, ("topic",))

    return collect


def _of_each(traffic: list[tuple[str, Traffic]], of: Callable[[Traffic], int]) -> Iterator[Sample]:
    for topic, one in traffic:
        yield (topic,), float(of(one))
