"""The metrics of three real nodes, as Prometheus reads them: what a dead leader changes, and what its return does."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from prometheus_client.parser import text_string_to_metric_families
from support.clients import eventually
from support.clusters import COMMON, PATIENCE_S

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client import NewTopic
from minikafka.client.blocking import Admin, Consumer, Producer

pytestmark = pytest.mark.slow
HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))
TOPICS = "kafka_server_brokertopicmetrics"
PARTS = ("requestqueue", "local", "remote", "throttle", "responsesend")
ACTIVE_CONTROLLERS = "kafka_controller_kafkacontroller_activecontrollercount"
UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"
PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
EXPRESSION = re.compile(r"^ +expr: (.+)$", re.MULTILINE)
METRIC = re.compile(r"`((?:kafka|minikafka|process|python)_[a-z_0-9]+)(?:\{([^}]*)\})?`")
READERS = frozenset({("consumergroup", "readers"), ("topic", "read"), ("partition", "0")})
METRICS_ON_COUNTS = {"kafka_server_socket_server_metrics_connection"}
PLAINTEXT = frozenset({("listener", "PLAINTEXT")})
Labels = frozenset[tuple[str, str]]


def scrape(cluster: LocalCluster, node_id: int) -> dict[str, dict[Labels, float]]:
    """The value of each metric of a node, by its labels."""
    with HTTP.open(cluster.metrics_url(node_id), timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def value(cluster: LocalCluster, node_id: int, name: str, **labels: str) -> float:
    return scrape(cluster, node_id)[name][frozenset(labels.items())]


def page(cluster: LocalCluster, node_id: int, path: str) -> tuple[int, str]:
    """The status and the text of a page; 0 if nobody listens."""
    try:
        with HTTP.open(cluster.metrics_url(node_id).replace("/metrics", path), timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode().strip()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode().strip()
    except urllib.error.URLError:
        return 0, ""


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {**COMMON, "broker.session.timeout.ms": "5000"}
    with LocalCluster(tmp_path_factory.mktemp("metrics"), brokers=3, settings=settings, metrics=True) as cluster:
        yield cluster


def test_under_replicated_goes_up_when_a_leader_dies_and_down_when_it_is_back(three: LocalCluster) -> None:
    with Admin(three.bootstrap) as admin:
        admin.create_topics([NewTopic("scraped", assignments={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})])
    with Producer(three.bootstrap) as producer:
        for index in range(9):
            producer.send("scraped", b"value", partition=index % 3)
        producer.flush()
    three.wait_in_sync()
    before = {node_id: scrape(three, node_id) for node_id in three.node_ids}
    assert [one[UNDER_REPLICATED][frozenset()] for one in before.values()] == [0, 0, 0]
    assert [one["kafka_server_replicamanager_leadercount"][frozenset()] for one in before.values()] == [1, 1, 1]
    active = [one["kafka_controller_kafkacontroller_activecontrollercount"][frozenset()] for one in before.values()]
    assert sorted(active) == [0, 0, 1]
    of_scraped = frozenset({("topic", "scraped")})
    of_zero = frozenset({("topic", "scraped"), ("partition", "0")})
    assert [one["kafka_log_log_logendoffset"][of_zero] for one in before.values()] == [3, 3, 3]

    appended = [one["kafka_server_brokertopicmetrics_messagesin_total"].get(of_scraped, 0) for one in before.values()]
    assert appended == [3, 3, 3]

    three.kill(1)
    eventually(lambda: _sum(three, (2, 3), UNDER_REPLICATED) == 3, timeout_s=PATIENCE_S)
    assert _sum(three, (2, 3), "kafka_server_replicamanager_leadercount") == 3
    assert page(three, 1, "/readyz") == (0, "")

    # The active controller may apply its election of another leader of partition 0 after the new leader does.
    eventually(lambda: _sum(three, (2, 3), "minikafka_leader_elections_total") >= 1, timeout_s=PATIENCE_S)
    assert _sum(three, (2, 3), "kafka_controller_controllerstats_uncleanleaderelections_total") == 0

    three.start(1)
    three.wait_in_sync()
    assert _sum(three, (2, 3), "kafka_server_replicamanager_isrexpands_total") >= 3
    eventually(lambda: _sum(three, three.node_ids, UNDER_REPLICATED) == 0, timeout_s=PATIENCE_S)


def _sum(cluster: LocalCluster, node_ids: tuple[int, ...] | list[int], name: str) -> float:
    return sum(value(cluster, node_id, name) for node_id in node_ids)


def test_what_clients_leave_behind_on_a_node(three: LocalCluster) -> None:
    with Admin(three.bootstrap) as admin:
        admin.create_topics([NewTopic("read", 1, 3)])
    with Producer(three.bootstrap, transactional_id="writer") as producer, producer.transaction():
        for _ in range(5):
            producer.send("read", b"value")
    servers = three.bootstrap
    with Consumer("read", bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest") as consumer:
        next(iter(consumer))
        consumer.commit()
        eventually(lambda: _lag_of_readers(three) == [5], timeout_s=PATIENCE_S)  # with the marker
        found = [scrape(three, node_id) for node_id in three.node_ids]
    assert [one["kafka_consumergroup_current_offset"].get(READERS) for one in found if _has_readers(one)] == [1]
    complete = frozenset({("state", "CompleteCommit")})
    assert sum(one.get("minikafka_transactions", {}).get(complete, 0) for one in found) == 1
    assert sum(one["kafka_server_socket_server_metrics_connection_count"][PLAINTEXT] for one in found) > 0


def test_what_requests_take_and_carry(three: LocalCluster) -> None:
    """A client of another project writes and reads. Bytes out are those that were read; all times and sizes add up."""
    with Admin(three.bootstrap) as admin:
        admin.create_topics([NewTopic("carried", assignments={0: [1, 2, 3]})])
    producer = ConfluentProducer({"bootstrap.servers": three.bootstrap, "acks": "all"})
    for _ in range(100):
        producer.produce("carried", bytes(1000))
    assert producer.flush(PATIENCE_S) == 0
    consumer = ConfluentConsumer(
        {"bootstrap.servers": three.bootstrap, "group.id": "carriers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["carried"])
    read = 0
    while read < 100:
        read += len(consumer.consume(100 - read, PATIENCE_S))
    of_carried = frozenset({("topic", "carried")})
    eventually(lambda: _of_topic(three, 1, "bytesout", of_carried) > 100_000, timeout_s=PATIENCE_S)
    consumer.close()
    leader = scrape(three, 1)
    assert leader[f"{TOPICS}_replicationbytesout_total"][of_carried] == 2 * _of_topic(three, 1, "bytesin", of_carried)
    assert _of_topic(three, 2, "replicationbytesin", of_carried) == _of_topic(three, 1, "bytesin", of_carried)
    assert _of_topic(three, 2, "bytesout", of_carried) == 0
    for api in ("Produce", "FetchConsumer", "FetchFollower", "Fetch"):
        parts = [_summary(leader, part, api) for part in PARTS]
        sum_ms, count = _summary(leader, "total", api)
        assert [one for _, one in parts] == [count] * 5
        assert sum_ms == pytest.approx(sum(part_ms for part_ms, _ in parts))
        answered = leader["kafka_network_requestmetrics_requests_total"].items()
        assert sum(number for labels, number in answered if ("request", api) in labels) == count > 0
    assert _summary(leader, "remote", "Produce")[0] > 0, "for the followers"
    of_produce = frozenset({("request", "Produce")})
    assert leader["kafka_network_requestmetrics_requestbytes_total"][of_produce] > 100_000
    assert leader["minikafka_response_bytes_total"][frozenset({("request", "FetchConsumer")})] > 100_000


def _of_topic(cluster: LocalCluster, node_id: int, name: str, labels: Labels) -> float:
    return scrape(cluster, node_id)[f"{TOPICS}_{name}_total"].get(labels, 0)


def _summary(scraped: dict[str, dict[Labels, float]], part: str, api: str) -> tuple[float, float]:
    """Sum and count."""
    name, labels = f"kafka_network_requestmetrics_{part}timems", frozenset({("request", api)})
    return scraped[f"{name}_sum"][labels], scraped[f"{name}_count"][labels]


def _lag_of_readers(cluster: LocalCluster) -> list[float]:
    found = [scrape(cluster, node_id) for node_id in cluster.node_ids]
    return [one["kafka_consumergroup_lag"][READERS] for one in found if _has_readers(one)]


def _has_readers(scraped: dict[str, dict[Labels, float]]) -> bool:
    return READERS in scraped.get("kafka_consumergroup_lag", {})


def test_the_page_has_each_metric_and_no_other(three: LocalCluster) -> None:
    _use_quotas(three)
    labels_of: dict[str, set[str]] = {}
    for node_id in three.node_ids:
        for name, samples in scrape(three, node_id).items():
            labels_of.setdefault(name, set()).update(*({label for label, _ in labels} for labels in samples))
    described = {name: set(labels.split(",")) - {""} for name, labels in METRIC.findall(PAGE.read_text())}
    labels_of = {name: labels for name, labels in labels_of.items() if not _is_of_summary(name, labels_of)}
    assert described.pop("python_info") == {"…"}
    del labels_of["python_info"]
    assert described == labels_of


def _use_quotas(cluster: LocalCluster) -> None:
    """Sets quotas that throttle nobody, and uses each: the nodes show those that are used."""
    throttle_times = {f"kafka_server_{quota}_throttle_time" for quota in ("produce", "fetch", "request")}
    unused = {"producer_byte_rate": 1e9, "consumer_byte_rate": 1e9, "request_percentage": 1e6}
    with Admin(cluster.bootstrap) as admin:
        admin.alter_client_quotas({"client-id": None}, set=unused)
        admin.create_topics([NewTopic("of-quotas", assignments={0: [1]})])
    with (
        Producer(cluster.bootstrap) as producer,
        Consumer("of-quotas", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest") as consumer,
    ):

        def all_are_shown() -> bool:
            producer.send("of-quotas", b"value").result()
            assert next(iter(consumer)).value == b"value"
            return throttle_times <= {*scrape(cluster, 1)}

        eventually(all_are_shown, timeout_s=PATIENCE_S)


def _is_of_summary(name: str, labels_of: Collection[str]) -> bool:
    """Whether a sample is the sum or the count of a summary."""
    base, _, suffix = name.rpartition("_")
    return suffix in ("sum", "count") and base in labels_of


def test_alerts_and_dashboard_name_metrics_that_exist() -> None:
    documented = {name for name, _ in METRIC.findall(PAGE.read_text())}
    alerts = EXPRESSION.findall((PAGE.parent / "prometheus-alerts.yml").read_text())
    panels = json.loads((PAGE.parent / "grafana-dashboard.json").read_text())["panels"]
    queries = [*alerts, *(target["expr"] for panel in panels for target in panel["targets"])]
    assert (len(alerts), len(queries)) == (14, 46)
    for query in queries:
        named = set(re.findall(r"(?:kafka|minikafka|process|python)_[a-z_0-9]+", query))
        assert {re.sub("_(sum|count)$", "", name) for name in named} <= documented | METRICS_ON_COUNTS, query
        assert named or query == 'up{job="kafka"} == 0'


def test_a_node_is_alive_before_it_is_ready(three: LocalCluster) -> None:
    assert [page(three, node_id, "/readyz") for node_id in three.node_ids] == [(200, "ready")] * 3
    three.stop()
    three.launch(2)  # without the others it has no active controller that it could register with
    eventually(lambda: page(three, 2, "/healthz") == (200, "ok"), timeout_s=PATIENCE_S)
    starting = 503, "starting: waits for the registration of this broker"  # once its controller knows its other tasks
    eventually(lambda: page(three, 2, "/readyz") == starting, timeout_s=PATIENCE_S)
    assert value(three, 2, "minikafka_ready") == 0
    assert value(three, 2, ACTIVE_CONTROLLERS) == 0
    three.start(1, 3)
    eventually(lambda: page(three, 2, "/readyz") == (200, "ready"), timeout_s=PATIENCE_S)
    assert value(three, 2, "minikafka_ready") == 1
    assert _sum(three, three.node_ids, ACTIVE_CONTROLLERS) == 1


def test_a_cluster_without_metrics_listeners_gets_them_once(tmp_path: Path) -> None:
    plain = LocalCluster(tmp_path / "plain", brokers=1)
    assert plain.metrics_url(1) == ""
    port = plain.nodes[1].port + 200
    assert LocalCluster(tmp_path / "plain", metrics=True).metrics_url(1) == f"http://127.0.0.1:{port}/metrics"
    LocalCluster(tmp_path / "plain", settings={"metrics.listener": "http://127.0.0.1:9404/"})
    assert LocalCluster(tmp_path / "plain", metrics=True).metrics_url(1) == "http://127.0.0.1:9404/metrics"
    LocalCluster(tmp_path / "plain", settings={"metrics.listener": ""})
    assert LocalCluster(tmp_path / "plain", metrics=True).metrics_url(1) == ""
