"""Sends the same random requests to Apache Kafka and minikafka and compares the responses; seeds reproduce a run."""

from __future__ import annotations

import json
import os
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.clients import eventually
from support.controller_process import standalone_node
from support.conversation_areas import AREAS, AREAS_OF_CLUSTERS, AREAS_OF_NODES, CONTROLLER
from support.conversation_peers import Peer, ask_both
from support.conversation_player import use_up_producer_id_zero
from support.conversation_questions import Questions
from support.node import NodeProcess
from support.oracle import Oracle, needs_oracle
from support.oracle_cluster import OracleCluster

from minikafka.cli.clusters.cluster_layout import HOST
from minikafka.cli.local_cluster import LocalCluster

pytestmark = [needs_oracle, pytest.mark.oracle, pytest.mark.slow, pytest.mark.timeout(300)]

QUESTIONS = 30
FIRST = int(os.environ.get("MINIKAFKA_QUESTION_FIRST", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("MINIKAFKA_QUESTION_SEEDS", "3")))
SETTLE_S = 60.0
CONTROLLER_ABOVE = 100
"""How far the controller port of Apache Kafka's node is above its client port."""
SETTINGS = {
    "offsets.topic.num.partitions": 5,
    "transaction.state.log.num.partitions": 5,
    "group.consumer.assignment.interval.ms": 0,
}
Address = tuple[str, int]
CHANGING = re.compile("Create|Delete(Topics|Groups)|Alter|EndTxn|InitProducerId|Update")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Oracle, NodeProcess]]:
    folder = tmp_path_factory.mktemp("questions")
    with Oracle(folder / "kafka", settings=SETTINGS) as kafka, NodeProcess(folder / "ours", settings=SETTINGS) as ours:
        for server in (kafka, ours):
            use_up_producer_id_zero(server.address)
        yield kafka, ours
        kafka.terminate()


def prepare(peers: list[Peer]) -> None:
    topics = [{"name": name, "num_partitions": n, "replication_factor": 1} for name, n in (("~a", 1), ("~b", 2))]
    ask_both(peers, "CreateTopics", 7, {"topics": topics})
    for name in ("~a", "~b"):
        partitions = [{"partition_index": 0, "timestamp": -1}]
        wanted = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": name, "partitions": partitions}]}
        for peer in peers:
            while "UNKNOWN_TOPIC" in json.dumps(peer.ask("ListOffsets", 8, wanted)):
                time.sleep(0.05)
    for key_type, keys in ((0, ["~g", "~h"]), (1, ["~t", "~u"])):
        ask_both(peers, "FindCoordinator", 4, {"key_type": key_type, "coordinator_keys": keys})


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    folder = tmp_path_factory.mktemp("clusters")
    settings = {"auto.leader.rebalance.enable": "false", "broker.session.timeout.ms": "9000"}
    with (
        OracleCluster(folder / "kafka", brokers=3, settings=settings) as kafka,
        LocalCluster(folder / "ours", brokers=3, settings=settings) as ours,
    ):
        yield kafka, ours


def compare(peers: list[Peer], questions: Questions, wait: Callable[[str], None]) -> None:
    """Ask questions until the responses differ.

    Args:
        wait: is called after a request that changes something, with the name of its API.
    """
    asked: list[str] = []
    for _ in range(QUESTIONS):
        api, version, body = questions.next()
        expected, answered = ask_both(peers, api, version, body)
        asked.append(f"{api} v{version} {json.dumps(body)}\n  kafka {json.dumps(expected)}")
        assert answered == expected, "\n".join([*asked, f"  here  {json.dumps(answered)}"])
        questions.learn(api, body, expected)
        if CHANGING.match(api):
            wait(api)
    for peer in peers:
        peer.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("area", AREAS)
def test_random_questions(area: str, seed: int, servers: tuple[Oracle, NodeProcess]) -> None:
    run = f"q{uuid.uuid4().hex[:8]}-"
    peers = [Peer(server.address, run) for server in servers]
    prepare(peers)
    compare(peers, Questions(random.Random(f"{area} {seed}"), area), lambda _: time.sleep(0.2))


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[Address], list[Address]]]:
    """The addresses for clients, and those of the controller listeners."""
    folder = tmp_path_factory.mktemp("nodes")
    ours, controller = standalone_node(folder / "ours")
    with Oracle(folder / "kafka") as kafka, ours:
        yield [kafka.address, ours.address], [(HOST, kafka.port + CONTROLLER_ABOVE), controller]
        kafka.terminate()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("area", AREAS_OF_NODES)
def test_random_questions_about_a_node(area: str, seed: int, nodes: tuple[list[Address], list[Address]]) -> None:
    run = f"q{uuid.uuid4().hex[:8]}-"
    peers = [Peer(address, run) for address in nodes[area == CONTROLLER]]
    topics = [{"name": name, "num_partitions": n, "replication_factor": 1} for name, n in (("~a", 1), ("~b", 2))]
    ask_both(peers, "CreateTopics", 7, {"topics": topics})
    compare(peers, Questions(random.Random(f"{area} {seed}"), area), lambda _: time.sleep(0.2))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("area", AREAS_OF_CLUSTERS)
def test_random_questions_about_replicas(area: str, seed: int, clusters: tuple[LocalCluster, LocalCluster]) -> None:
    """Node 1 of three is asked; a reassignment is complete before the next question."""
    run = f"q{uuid.uuid4().hex[:8]}-"
    peers = [Peer((HOST, cluster.nodes[1].port), run, several_nodes=True) for cluster in clusters]

    def wait(api: str) -> None:
        time.sleep(0.2)
        if api == "AlterPartitionReassignments":
            for peer in peers:
                eventually(lambda peer=peer: not reassigned(peer), timeout_s=SETTLE_S)

    assignments = {"~a": [[1, 2, 3], [2, 3, 1], [3, 1, 2]], "~b": [[2, 1]], "~d": [[2, 3, 1]]}
    ask_both(peers, "CreateTopics", 7, {"topics": [assigned(name, some) for name, some in assignments.items()]})
    ask_both(peers, "Metadata", 12, {"topics": [{"name": name} for name in assignments]})
    compare(peers, Questions(random.Random(f"{area} {seed}"), area), wait)


def assigned(name: str, assignments: list[list[int]]) -> dict[str, Any]:
    """A topic to be created on these brokers, for each partition."""
    each = [{"partition_index": index, "broker_ids": brokers} for index, brokers in enumerate(assignments)]
    return {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": each}


def reassigned(peer: Peer) -> list[str]:
    """The topics of this run that are being reassigned."""
    answer = peer.ask("ListPartitionReassignments", 0, {"topics": None})
    return [topic["name"] for topic in answer.get("topics", []) if topic["name"].startswith("~")]
