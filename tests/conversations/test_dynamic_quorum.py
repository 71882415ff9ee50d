"""A quorum whose voters come and go answers as Apache Kafka's: at the leader, by way of a broker, at an observer.

The conversations were recorded from controller 1, formatted with `--standalone`, broker 2, and controller 3, formatted
with `--no-initial-controllers`; all leave the voters as they find them. 27203 stands for the port of controller 3.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.conversation import read
from support.conversation_player import Connection, play
from support.dynamic_quorum import DynamicCluster

from minikafka.cli.clusters.cluster_layout import HOST

pytestmark = pytest.mark.timeout(300)
HERE = Path(__file__).parent
LEADER, BROKER, OBSERVER = 1, 2, 3
PORT_OF_OBSERVER = "27203"
PATIENCE_S = 60.0
AT = {"dynamic_quorum": LEADER, "dynamic_quorum_by_a_broker": BROKER, "dynamic_quorum_by_an_observer": OBSERVER}
PATHS = [path for folder in AT for path in sorted((HERE / folder).glob("*.txt"))]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamicCluster]:
    roles = {LEADER: "controller", BROKER: "broker", OBSERVER: "controller"}
    settings = {"broker.session.timeout.ms": "9000", "controller.quorum.fetch.timeout.ms": "5000"}
    folder = tmp_path_factory.mktemp("dynamic")
    with DynamicCluster(folder, roles, voters=[LEADER], settings=settings) as cluster:
        until_all_follow(cluster)
        yield cluster


def until_all_follow(cluster: DynamicCluster) -> None:
    """Wait until the leader knows both observers."""
    connection = Connection((HOST, cluster.nodes[LEADER].controller_port))
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        [partition] = connection.ask("DescribeQuorum", 2, {"topics": topics}).topics[0].partitions
        if sorted(one.replica_id for one in partition.observers) == [BROKER, OBSERVER]:
            connection.close()
            return
    raise AssertionError(partition)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(HERE).with_suffix("")))
def test_answers_are_those_of_kafka(path: Path, cluster: DynamicCluster, tmp_path: Path) -> None:
    node = cluster.nodes[AT[path.parent.name]]
    text = path.read_text().replace(PORT_OF_OBSERVER, str(cluster.nodes[OBSERVER].controller_port))
    played = tmp_path / path.name
    played.write_text(text)
    found = play(read(played), (HOST, node.port or node.controller_port))
    assert not found, "\n".join(map(str, found)) + "\n" + cluster.log_tail(LEADER, 20)
