"""A real Prometheus scrapes three nodes under load while a leader dies and comes back: alerts, the dashboard's queries.

`make prometheus` runs it, where `prometheus` and `promtool` are on the path (Debian: `apt install prometheus`). The
alerts' times are a tenth of what docs/prometheus-alerts.yml has, and Prometheus scrapes each second.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from support.clients import eventually
from support.clusters import COMMON

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client import NewTopic
from minikafka.client.blocking import Admin

DOCS = Path(__file__).parents[2] / "docs"
RULES, DASHBOARD = DOCS / "prometheus-alerts.yml", DOCS / "grafana-dashboard.json"
CASES = Path(__file__).with_name("alert-rules.yml")
HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))
PATIENCE_S = 120.0
UNITS_S = {"s": 1, "m": 60, "h": 3600}
OF_A_DEAD_LEADER = {"KafkaNodeDown", "KafkaUnderReplicated", "KafkaUnderMinIsr", "KafkaOfflinePartitions"}
OF_A_BUSY_MACHINE = {"KafkaNodeBusy", "KafkaNodeNotReady"}

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
on_request = pytest.mark.skipif("MINIKAFKA_PROMETHEUS" not in os.environ, reason="a minute long: `make prometheus`")


@needs_promtool
def test_promtool_accepts_the_alert_rules() -> None:
    checked = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert f"{len(re.findall('- alert:', RULES.read_text()))} rules found" in checked.stdout


@needs_promtool
def test_each_alert_fires_after_its_time_and_clears() -> None:
    """In a table of values, on Prometheus's own clock: those that a dead leader does not cause, too."""
    checked = subprocess.run(["promtool", "test", "rules", CASES], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_table_of_values_has_each_alert() -> None:
    told = re.findall(r"^  - name: (\w+)$", CASES.read_text(), re.MULTILINE)
    assert told == re.findall(r"- alert: (\w+)", RULES.read_text())
    assert CASES.read_text().count("exp_alerts: [{") == len(told)


class Prometheus:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1"

    def get(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with HTTP.open(f"{self._url}/{path}?{query}", timeout=PATIENCE_S) as answer:
            return json.load(answer)["data"]

    def is_up(self) -> bool:
        try:
            return bool(self.get("targets")["activeTargets"])
        except OSError:
            return False

    def firing(self) -> set[str]:
        return {one["labels"]["alertname"] for one in self.get("alerts")["alerts"] if one["state"] == "firing"}

    def value(self, query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("query", query=query)["result"]
        return found


@contextmanager
def prometheus(folder: Path, cluster: LocalCluster) -> Iterator[Prometheus]:
    """Prometheus with the project's alert rules, whose times are a tenth."""
    targets = [cluster.metrics_url(node_id).split("/")[2] for node_id in cluster.node_ids]
    rules = re.sub(
        r"(for: |\[)(\d+)([smh])", lambda one: f"{one[1]}{int(one[2]) * UNITS_S[one[3]] // 10}s", RULES.read_text()
    )
    folder.mkdir()
    (folder / "rules.yml").write_text(rules)
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        "rule_files: [rules.yml]\n"
        f"scrape_configs: [{{job_name: kafka, static_configs: [{{targets: {json.dumps(targets)}}}]}}]\n"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            running = Prometheus(port)
            eventually(running.is_up, timeout_s=PATIENCE_S)
            yield running
        finally:
            process.terminate()


@contextmanager
def load(bootstrap: str) -> Iterator[None]:
    """A producer, one with transactions, and a group: clients of another project, until the end of the block."""
    ended = threading.Event()
    usual = {"bootstrap.servers": bootstrap}

    def produce() -> None:
        producer = ConfluentProducer({**usual, "acks": "all", "linger.ms": 5})
        while not ended.wait(0.01):
            producer.produce("loaded", bytes(500))
            producer.produce("alone", bytes(500))
            producer.poll(0)
        producer.purge()

    def transact() -> None:
        producer = ConfluentProducer({**usual, "transactional.id": "scraped"})
        producer.init_transactions(PATIENCE_S)
        while not ended.wait(0.2):
            producer.begin_transaction()
            producer.produce("loaded", bytes(100))
            producer.commit_transaction(PATIENCE_S)

    def consume() -> None:
        consumer = ConfluentConsumer({**usual, "group.id": "readers", "auto.offset.reset": "earliest"})
        consumer.subscribe(["loaded"])
        while not ended.is_set():
            consumer.consume(100, 0.1)
        consumer.close()

    threads = [threading.Thread(target=run, daemon=True) for run in (produce, transact, consume)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(PATIENCE_S)


@on_request
@needs_promtool
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_alerts_fire_and_clear_and_each_query_of_the_dashboard_has_data(tmp_path: Path) -> None:
    settings = {**COMMON, "broker.session.timeout.ms": "5000"}
    with LocalCluster(tmp_path / "nodes", brokers=3, settings=settings, metrics=True) as three:
        with Admin(three.bootstrap) as admin:
            admin.create_topics([
                NewTopic("loaded", assignments={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}),
                NewTopic("strict", assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "3"}),
                NewTopic("alone", assignments={0: [1]}),
            ])
        with prometheus(tmp_path / "prometheus", three) as watching, load(three.bootstrap):
            queries = _queries()
            eventually(lambda: _without_data(watching, queries) == [], timeout_s=PATIENCE_S)
            assert watching.firing() - OF_A_BUSY_MACHINE == set()

            three.kill(1)
            eventually(lambda: watching.firing() >= OF_A_DEAD_LEADER, timeout_s=PATIENCE_S)
            assert watching.firing() - OF_A_BUSY_MACHINE == OF_A_DEAD_LEADER
            assert _without_data(watching, queries) == []

            three.start(1)
            eventually(lambda: "KafkaUncleanElection" in watching.firing(), timeout_s=PATIENCE_S)  # of `alone`
            eventually(lambda: watching.firing() - OF_A_BUSY_MACHINE == set(), timeout_s=PATIENCE_S)
            assert _without_data(watching, queries) == []


def _queries() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def _without_data(watching: Prometheus, queries: list[str]) -> list[str]:
    return [query for query in queries if not any(one["value"][1] != "NaN" for one in watching.value(query))]
