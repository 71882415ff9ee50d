"""Voters of the quorum come and go while it runs, by Kafka's own tools, with confluent-kafka producing (KIP-853)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clients import eventually
from support.cluster_load import load, read_back, wrongs
from support.clusters import PATIENCE_S, Topic
from support.dynamic_quorum import DynamicCluster
from support.oracle import needs_oracle, run_tool, tool

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin

pytestmark = [pytest.mark.oracle, needs_oracle, pytest.mark.slow, pytest.mark.timeout(600)]
JOINS = 4
RECORDS = 50


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DynamicCluster]:
    """Three nodes that are broker and voter, and a controller that follows."""
    roles = {1: "broker,controller", 2: "broker,controller", 3: "broker,controller", JOINS: "controller"}
    settings = {"broker.session.timeout.ms": "5000", "controller.quorum.fetch.timeout.ms": "2000"}
    with DynamicCluster(tmp_path / "nodes", roles, voters=[1, 2, 3], settings=settings) as cluster:
        yield cluster


def quorum(cluster: DynamicCluster, *words: object) -> tuple[int, str]:
    """Exit code and output of `kafka-metadata-quorum`."""
    done = run_tool("metadata-quorum", "--bootstrap-server", cluster.bootstrap, *words)
    return done.returncode, done.stdout + done.stderr


def add(cluster: DynamicCluster, node_id: int) -> tuple[int, str]:
    return quorum(cluster, "--command-config", cluster.config(node_id), "add-controller")


def remove(cluster: DynamicCluster, node_id: int, directory_id: str) -> tuple[int, str]:
    words = ("--controller-id", node_id, "--controller-directory-id", directory_id)
    return quorum(cluster, "remove-controller", *words)


def until_added(cluster: DynamicCluster, node_id: int) -> None:
    """A controller that has not caught up yet is refused with REQUEST_TIMED_OUT."""
    where = f"CONTROLLER://{cluster.controller_address(node_id)}"
    shown = f"Added controller {node_id} with directory id {cluster.directory_id(node_id)} and endpoints: {where}"
    eventually(lambda: shown in add(cluster, node_id)[1], timeout_s=PATIENCE_S)


def voters(cluster: DynamicCluster) -> dict[int, str]:
    """The directory id of each voter, as the tool shows them."""
    code, said = quorum(cluster, "describe", "--status")
    assert code == 0, said
    found = re.search(r"CurrentVoters: +(\[.*\])\n", said)
    assert found is not None, said
    return {int(one): directory for one, directory in re.findall(r'"id": (\d+), "directoryId": "([^"]+)"', found[1])}


def leader(cluster: DynamicCluster) -> int:
    found = re.search(r"LeaderId: +(\d+)\n", quorum(cluster, "describe", "--status")[1])
    return int(found[1]) if found else -1


def test_a_voter_joins_the_leader_leaves_a_disk_is_replaced(cluster: DynamicCluster, name: str) -> None:
    topic = Topic(cluster, name, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    with load("confluent-kafka", cluster.bootstrap, topic.name) as ledger:
        until_added(cluster, JOINS)
        assert voters(cluster) == {one: cluster.directory_id(one) for one in (1, 2, 3, JOINS)}
        ledger.wait_acknowledged(RECORDS)

        first = leader(cluster)
        code, said = remove(cluster, first, cluster.directory_id(first))
        assert (code, f"Removed  KRaft controller {first} with directory id" in said) == (0, True), said
        eventually(lambda: leader(cluster) not in (-1, first), timeout_s=PATIENCE_S)
        rest = {one: cluster.directory_id(one) for one in (1, 2, 3, JOINS) if one != first}
        assert voters(cluster) == rest
        ledger.wait_acknowledged(RECORDS)

        lost = cluster.directory_id(JOINS)
        cluster.stop(JOINS)
        shutil.rmtree(cluster.data(JOINS))
        cluster.format(JOINS)
        cluster.start(JOINS)
        assert cluster.directory_id(JOINS) != lost
        said = add(cluster, JOINS)[1]
        assert "DuplicateVoterException" in said
        said = remove(cluster, JOINS, cluster.directory_id(JOINS))[1]
        assert "VoterNotFoundException" in said
        code, said = remove(cluster, JOINS, lost)
        assert code == 0, said
        until_added(cluster, JOINS)
        assert voters(cluster) == rest | {JOINS: cluster.directory_id(JOINS)}
        ledger.wait_acknowledged(RECORDS)
    assert wrongs(ledger, read_back(cluster.bootstrap, topic.name)) == []


def test_fixed_voters_become_voters_that_can_change(tmp_path: Path) -> None:
    """`kafka-features upgrade --release-version` upgrades kraft.version, too, as on Kafka."""
    settings = {"initial.metadata.version": "4.0-IV1"}
    with LocalCluster(tmp_path, brokers=2, controllers=2, settings=settings) as cluster:
        place = ("--bootstrap-server", cluster.bootstrap)
        with Admin(cluster.bootstrap) as admin:
            assert {one.directory_id for one in admin.describe_quorum().voters} == {None}
        dry = tool("features", *place, "upgrade", "--feature", "kraft.version=1", "--dry-run")
        assert dry.strip() == "kraft.version can be upgraded to 1."
        refused = run_tool("features", *place, "upgrade", "--release-version", "4.3")
        assert refused.returncode != 0
        assert "does not support this feature" in refused.stdout + refused.stderr, "share.version is not there"
        done = tool("features", *place, "upgrade", "--release-version", "4.1")
        assert "kraft.version was upgraded to 1." in done
        assert "metadata.version was upgraded to 27." in done
        described = tool("features", *place, "describe")
        levels = r"Feature: kraft.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1\s+FinalizedVersionLevel: 1"
        assert re.search(levels, described)
        with Admin(cluster.bootstrap) as admin:
            found = {one.node_id: one.directory_id for one in admin.describe_quorum().voters}
        for node_id in cluster.controller_ids:
            properties = (cluster.data(node_id) / "meta.properties").read_text()
            assert f"directory.id={found[node_id]}\n" in properties
        back = run_tool("features", *place, "downgrade", "--feature", "kraft.version=0")
        assert back.returncode != 0
        assert "is a downgrade" in back.stdout + back.stderr
        cluster.restart()
        with Admin(cluster.bootstrap) as admin:
            assert {one.node_id: one.directory_id for one in admin.describe_quorum().voters} == found
