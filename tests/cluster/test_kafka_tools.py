"""Kafka's own command line tools, unchanged, against three minikafka nodes: leaders, replicas, voters."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from support.clients import eventually
from support.clusters import PATIENCE_S, Topic
from support.oracle import kafka, needs_oracle, run_tool, tool

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client import TopicPartition
from minikafka.client.blocking import Admin

pytestmark = [pytest.mark.oracle, needs_oracle, pytest.mark.slow, pytest.mark.timeout(600)]


def ask(cluster: LocalCluster, name: str, *arguments: object) -> str:
    """The output of a tool that bootstraps from node 1."""
    return tool(name, "--bootstrap-server", cluster.address(1), *arguments)


def plan_of(topic: str, *replicas: list[int]) -> str:
    partitions = [{"topic": topic, "partition": index, "replicas": some} for index, some in enumerate(replicas)]
    return json.dumps({"version": 1, "partitions": partitions})


def test_reassign_partitions_plans_moves_verifies_and_lists(three: LocalCluster, name: str, tmp_path: Path) -> None:
    topic = Topic(three, name, [[1, 2], [2, 3]])
    plan, topics = tmp_path / "plan.json", tmp_path / "topics.json"
    plan.write_text(plan_of(name, [3, 2], [2, 3, 1]))
    topics.write_text(json.dumps({"topics": [{"topic": name}], "version": 1}))
    generated = ask(
        three, "reassign-partitions", "--generate", "--topics-to-move-json-file", topics, "--broker-list", "1,3"
    )
    assert "Proposed partition reassignment configuration" in generated
    done = ask(three, "reassign-partitions", "--execute", "--reassignment-json-file", plan)
    assert f"Successfully started partition reassignments for {name}-0,{name}-1" in done
    topic.until_told(lambda told: [one.replicas for one in told] == [(3, 2), (2, 3, 1)])
    verified = ask(three, "reassign-partitions", "--verify", "--reassignment-json-file", plan)
    for partition in (0, 1):
        assert f"Reassignment of partition {name}-{partition} is completed." in verified
    assert "No partition reassignments found." in ask(three, "reassign-partitions", "--list")


def test_reassign_partitions_cancels_a_reassignment(three: LocalCluster, name: str, tmp_path: Path) -> None:
    topic = Topic(three, name, [[1, 2]], {"min.insync.replicas": "1"})
    plan = tmp_path / "plan.json"
    plan.write_text(plan_of(name, [1, 3]))
    three.pause(3)
    tp = TopicPartition(name, 0)
    with Admin(three.address(1)) as admin:
        assert admin.alter_partition_reassignments({tp: [1, 3]}) == {tp: None}
        # The tools must not send a request to the paused broker.
        topic.until(lambda: sorted(one.node_id for one in admin.describe_cluster().brokers) == [1, 2])
    topic.asked = [1, 2]
    listed = ask(three, "reassign-partitions", "--list")
    assert re.search(rf"{name}-0: replicas: 1,3,2\. adding: 3\. removing: 2\.", listed), listed
    quick = ("--preserve-throttles", "--reassignment-json-file", plan)  # avoids another request to it
    cancelled = ask(three, "reassign-partitions", "--cancel", *quick)
    assert f"Successfully cancelled partition reassignment for: {name}-0" in cancelled
    topic.until_told(lambda told: told[0].replicas == (1, 2))


def test_leader_election_returns_leadership_to_the_preferred_replica(three: LocalCluster, name: str) -> None:
    topic = Topic(three, name, [[2, 1, 3]])
    three.restart(2)
    topic.until_in_sync(1, 2, 3)
    assert topic.leader() != 2
    said = ask(three, "leader-election", "--election-type", "preferred", "--topic", name, "--partition", 0)
    assert f"Successfully completed leader election (PREFERRED) for partitions {name}-0" in said
    topic.until_led_by(2)
    said = ask(three, "leader-election", "--election-type", "preferred", "--topic", name, "--partition", 0)
    assert f"Valid replica already elected for partitions {name}-0" in said


def test_metadata_quorum_names_leader_and_followers(three: LocalCluster) -> None:
    leader, status, replication = eventually(lambda: output_of_one_epoch(three), timeout_s=PATIENCE_S)
    assert int(re.search(r"LeaderId:\s+(\d)", status)[1]) == leader  # type: ignore[index]
    assert re.search(r"MaxFollowerLag:\s+\d+\n", status)
    voters = re.search(r"CurrentVoters:\s+\[(.*)\]", status)
    assert voters is not None
    assert re.findall(r'"id": (\d)', voters[1]) == ["1", "2", "3"]
    rows = {int(line.split()[0]): line.split()[-1] for line in replication.splitlines()[1:]}
    assert rows == {node_id: "Leader" if node_id == leader else "Follower" for node_id in (1, 2, 3)}


def output_of_one_epoch(cluster: LocalCluster) -> tuple[int, str, str] | None:
    """The leader according to our client, and the tool's output; None if another one was elected meanwhile."""
    with Admin(cluster.bootstrap) as admin:
        before = admin.describe_quorum()
        said = [ask(cluster, "metadata-quorum", "describe", what) for what in ("--status", "--replication")]
        after = admin.describe_quorum()
    return (before.leader_id, said[0], said[1]) if before.leader_epoch == after.leader_epoch else None


def test_topics_shows_under_replicated_and_leaderless_partitions(three: LocalCluster, name: str) -> None:
    topic = Topic(three, name, [[1, 2, 3]])
    alone = Topic(three, f"{name}-alone", [[3]], {"min.insync.replicas": "1"})
    assert name not in ask(three, "topics", "--describe", "--under-replicated-partitions")
    three.kill(3)
    topic.until_in_sync(1, 2)
    alone.until_led_by(-1)
    rows = re.findall(
        rf"Topic: {name}\s+Partition: (\d)\s+Leader: (\S+)\s+Replicas: (\S+)\s+Isr: (\S*)",
        ask(three, "topics", "--describe", "--under-replicated-partitions"),
    )
    assert ("0", "1", "1,2,3", "1,2") in rows
    unavailable = ask(three, "topics", "--describe", "--unavailable-partitions")
    assert re.search(rf"Topic: {alone.name}\s+Partition: 0\s+Leader: none", unavailable), unavailable
    assert f"Topic: {name}\tPartition: 0" not in unavailable


def test_cluster_shows_its_id_and_its_endpoints(three: LocalCluster) -> None:
    place = ("--bootstrap-server", three.bootstrap)
    assert re.search(r"Cluster ID: \S{22}$", tool("cluster", "cluster-id", *place).strip())
    rows = [line.split() for line in tool("cluster", "list-endpoints", *place).splitlines()[1:]]
    listed = {(int(row[0]), f"{row[1]}:{row[2]}", row[-1]) for row in rows}
    assert listed == {(node_id, three.address(node_id), "broker") for node_id in three.broker_ids}
    refused = run_tool("cluster", "unregister", *place, "--id", 77)
    assert "77" in refused.stdout + refused.stderr


def test_features_are_the_same_on_all_nodes(three: LocalCluster) -> None:
    said = {
        re.sub(r"Epoch: \d+", "", tool("features", "--bootstrap-server", three.address(node_id), "describe"))
        for node_id in three.broker_ids
    }
    assert len(said) == 1
    assert re.search(r"Feature: metadata.version\s.*FinalizedVersionLevel: ", said.pop())


def test_log_dirs_describes_every_broker(three: LocalCluster, name: str) -> None:
    topic = Topic(three, name, [[1, 2, 3]])
    topic.write(b"one")
    said = ask(three, "log-dirs", "--describe", "--topic-list", name)
    [told] = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    sizes: dict[int, Any] = {
        broker["broker"]: partition["size"]
        for broker in told["brokers"]
        for directory in broker["logDirs"]
        for partition in directory["partitions"]
    }
    assert set(sizes) == {1, 2, 3}
    assert len(set(sizes.values())) == 1
    assert min(sizes.values()) > 0


def test_replica_verification_finds_no_difference(three: LocalCluster, name: str) -> None:
    topic = Topic(three, name, [[1, 2, 3], [2, 3, 1]])
    for n in range(20):
        topic.write(b"%d" % n)
    words = ("--broker-list", three.bootstrap, "--topics-include", name, "--time", -2, "--report-interval-ms", 500)
    command = kafka("tool", "replica-verification", *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        try:
            verdicts = _verdicts(running, 3)
        finally:
            running.kill()
    assert all("max lag is 0 " in verdict for verdict in verdicts[1:]), verdicts


def _verdicts(running: subprocess.Popen[str], count: int) -> list[str]:
    """The reports of the tool, which does not exit by itself."""
    found: list[str] = []
    deadline = time.monotonic() + 180
    assert running.stdout is not None
    for line in running.stdout:
        assert time.monotonic() < deadline, found
        assert "Exception" not in line, line
        if "max lag is" in line:
            found.append(line)
        if len(found) == count:
            break
    return found
