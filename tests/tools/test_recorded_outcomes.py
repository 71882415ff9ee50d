"""Kafka's command line tools do with minikafka what they do with Apache Kafka: tables of commands with their outcomes.

`recorded/*.txt` hold commands with output, errors and exit code (`support.tool_table`), recorded with two brokers and a
controller of Apache Kafka. Each table is played against nodes of minikafka in the same layout; `make reference` plays
it against Kafka again, and `make tool-outcomes` records it anew. All commands of a run share a JVM.
"""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.java_programs import why_not_compiled
from support.oracle import KAFKA_ITSELF
from support.oracle_cluster import OracleCluster
from support.tool_companions import companions
from support.tool_server import ToolServer
from support.tool_table import Places, Step, read_table, text_of

from minikafka.cli.clusters.cluster_layout import HOST
from minikafka.cli.local_cluster import LocalCluster

HERE = Path(__file__).parent
TABLES = sorted((HERE / "recorded").glob("*.txt"))
RECORDS = "MINIKAFKA_RECORD_TOOLS" in os.environ
PATIENCE_S = 60.0
PAUSE_S = 0.5
LAYOUT = {"brokers": 2, "controllers": 1, "isolated": True}
DIFFERENCES = {
    "no share and streams groups",
    "wrong values are told with those that are allowed",
    "settings of a broker are checked whoever is asked",
    "other words",
    "observers of fixed voters do not tell their directory",
}
"""What minikafka does otherwise, on purpose."""
SETTINGS = {
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(why_not_compiled() is not None, reason=why_not_compiled() or ""),
]
NODES = [pytest.param("minikafka", id="minikafka"), pytest.param("kafka", id="kafka", marks=KAFKA_ITSELF)]


class Player:
    """Runs the commands of tables against a cluster."""

    def __init__(self, cluster: LocalCluster, server: ToolServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self.of_kafka = isinstance(cluster, OracleCluster)
        self._brokers = ",".join(cluster.address(node_id) for node_id in cluster.broker_ids)
        [controller] = cluster.controller_ids
        self.places = Places(
            {
                **{f"broker-{node_id}": cluster.address(node_id) for node_id in cluster.broker_ids},
                **{f"node-{node_id}": str(cluster.config(node_id).parent) for node_id in cluster.node_ids},
                "brokers": self._brokers,
                "controller": f"{HOST}:{cluster.nodes[controller].controller_port}",
                "folder": str(folder),
            },
            {
                **{f"port-{node_id}": str(cluster.nodes[node_id].port) for node_id in cluster.broker_ids},
                f"port-{controller}": str(cluster.nodes[controller].controller_port),
            },
        )

    def outcome(self, step: Step) -> Step:
        """The step with what its command does, asked again if that may come about later."""
        self._folder.mkdir(exist_ok=True)
        for name, text in step.files().items():
            (self._folder / name).write_text(text)
        with companions(step.values("beside"), self._brokers):
            done = self._once(step)
            deadline = time.monotonic() + PATIENCE_S
            while step.eventually and done != step.expected(of_kafka=self.of_kafka) and time.monotonic() < deadline:
                time.sleep(PAUSE_S)
                before, done = done, self._once(step)
                if RECORDS and before == done:
                    break
        return step.after(done, of_kafka=self.of_kafka)

    def _once(self, step: Step) -> tuple[str, ...]:
        name, *arguments = step.words(self.places)
        stdin = "".join(f"{line}\n" for line in step.values("stdin"))
        return step.counted(*self._server.run(name, arguments, stdin, PATIENCE_S), self.places)


@pytest.fixture(scope="module", params=NODES)
def player(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    folder = tmp_path_factory.mktemp("tools")
    kind = OracleCluster if request.param == "kafka" else LocalCluster
    with kind(folder / "nodes", settings=SETTINGS, **LAYOUT) as cluster, ToolServer(folder / "jvm") as server:
        yield Player(cluster, server, folder / "files")


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_the_outcomes_are_those_of_kafka(player: Player, path: Path) -> None:
    steps = read_table(path)
    done = [player.outcome(step) for step in steps]
    if RECORDS and player.of_kafka:
        path.write_text(text_of(done))
        return
    if RECORDS:
        steps = [new if old.values("differs") else old for old, new in zip(steps, done, strict=True)]
        path.write_text(text_of(steps))
    differences = list(difflib.unified_diff(text_of(steps).splitlines(), text_of(done).splitlines(), lineterm="", n=4))
    assert not differences, "\n".join(differences)


def test_each_command_has_an_outcome() -> None:
    steps = [step for path in TABLES for step in read_table(path)]
    assert [step.command for step in steps if not step.outcome] == []
    assert len({step.command.split()[0] for step in steps}) >= 20
    assert all(text_of(read_table(path)) == path.read_text() for path in TABLES)


def test_only_what_is_said_to_differ_differs() -> None:
    steps = [step for path in TABLES for step in read_table(path)]
    assert [step.command for step in steps if step.values("differs") and step.ours in ((), step.outcome)] == []
    assert {why for step in steps for why in step.values("differs")} == DIFFERENCES
