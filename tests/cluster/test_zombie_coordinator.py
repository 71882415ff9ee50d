"""A coordinator that was paused until another node had taken its place, and then answers what it had been asked.

Committed offsets that are out of date do harm where a program reads them to repeat a transaction: it would process
records twice. Apache Kafka's coordinator has no lease, and answers from its memory.
"""

from __future__ import annotations

from contextlib import closing
from itertools import count
from typing import Any

import pytest
from support.clients import eventually
from support.clusters import PATIENCE_S, Topic, active_controller
from support.conversation_player import Connection

from minikafka.cli.clusters.cluster_layout import HOST
from minikafka.cli.local_cluster import LocalCluster
from minikafka.protocol.errors import ErrorCode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ANSWERED_S = 30
OLD, NEW = 10, 20


def connected(cluster: LocalCluster, node_id: int) -> closing[Connection]:
    return closing(Connection((HOST, cluster.nodes[node_id].port)))


def ask(cluster: LocalCluster, node_id: int, api: str, version: int, body: dict[str, Any]) -> Any:
    with connected(cluster, node_id) as connection:
        connection.send(api, version, body)
        answer = connection.receive(ANSWERED_S)
    assert not isinstance(answer, str), answer
    return answer[1]


def coordinator(cluster: LocalCluster, asked: int, group: str) -> int:
    """The node that coordinates a group according to one of the nodes; -1 if it knows none."""
    return int(ask(cluster, asked, "FindCoordinator", 2, {"key": group, "key_type": 0}).node_id)


def commit(cluster: LocalCluster, node_id: int, group: str, topic: str, offset: int) -> ErrorCode:
    """Commits an offset of partition 0; returns the error."""
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [partition]}]
    body = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
    answer = ask(cluster, node_id, "OffsetCommit", 7, body)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize("is_active", [False, True], ids=["a broker", "the active controller"])
def test_a_coordinator_that_was_replaced_while_it_was_paused_does_not_answer_with_old_offsets(
    three: LocalCluster, name: str, is_active: bool
) -> None:
    """The request lies in the socket when the node wakes up: it is answered before anything is learnt."""
    active = active_controller(three)
    paused, other, _ = sorted(three.broker_ids, key=lambda node_id: (node_id == active) is not is_active)
    Topic(three, name, [[other, paused]])
    eventually(lambda: coordinator(three, other, name) >= 0, timeout_s=PATIENCE_S)
    group = next(one for n in count() if coordinator(three, other, one := f"{name}-{n}") == paused)
    eventually(lambda: commit(three, paused, group, name, OLD) is ErrorCode.NONE, timeout_s=PATIENCE_S)
    body = {
        "group_id": group, "topics": [{"name": name, "partition_indexes": [0]}], "require_stable": True,
    }  # fmt: skip
    assert ask(three, paused, "OffsetFetch", 7, body).topics[0].partitions[0].committed_offset == OLD
    with connected(three, paused) as connection:
        three.pause(paused)
        connection.send("OffsetFetch", 7, body)
        eventually(lambda: coordinator(three, other, group) not in (paused, -1), timeout_s=PATIENCE_S)
        successor = coordinator(three, other, group)
        eventually(lambda: commit(three, successor, group, name, NEW) is ErrorCode.NONE, timeout_s=PATIENCE_S)
        three.resume(paused)
        answer = connection.receive(ANSWERED_S)
    assert not isinstance(answer, str), answer
    assert ErrorCode(answer[1].error_code) is ErrorCode.NOT_COORDINATOR
