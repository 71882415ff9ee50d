"""ListPartitionReassignments after AlterPartitionReassignments: errors, progress, cancellation."""

from typing import Any

import pytest
from support.images import decided, name_of, state, three_brokers, with_topic

from minikafka.controller.decisions import alter_partition_reassignments, list_partition_reassignments
from minikafka.controller.metadata.image import Image
from minikafka.protocol.messages import alter_partition_reassignments as moving
from minikafka.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest


def reassign(image: Image, *moves: tuple[str, int, list[int] | None], any_number: bool = True) -> list[str]:
    topics = [
        moving.ReassignableTopic(
            name=name, partitions=[moving.ReassignablePartition(partition_index=index, replicas=replicas)]
        )
        for name, index, replicas in moves
    ]
    request: Any = moving.AlterPartitionReassignmentsRequest(topics=topics, allow_replication_factor_change=any_number)
    response = decided(alter_partition_reassignments.decide, image, request)
    assert response.allow_replication_factor_change == any_number
    return [name_of(partition.error_code) for topic in response.responses for partition in topic.partitions]


def ongoing(image: Image) -> dict[str, list[tuple[int, list[int], list[int], list[int]]]]:
    response = list_partition_reassignments.describe(image, ListPartitionReassignmentsRequest(topics=None), 0)
    return {
        topic.name: [
            (one.partition_index, one.replicas, one.adding_replicas, one.removing_replicas) for one in topic.partitions
        ]
        for topic in response.topics
    }


MOVES = [
    (("t", 0, [1, 9]), "INVALID_REPLICA_ASSIGNMENT"),
    (("t", 0, [-1]), "INVALID_REPLICA_ASSIGNMENT"),
    (("t", 0, []), "INVALID_REPLICA_ASSIGNMENT"),
    (("t", 0, [1, 1]), "INVALID_REPLICA_ASSIGNMENT"),
    (("t", 0, None), "NO_REASSIGNMENT_IN_PROGRESS"),
    (("t", 5, [1]), "UNKNOWN_TOPIC_OR_PARTITION"),
    (("t", -1, None), "UNKNOWN_TOPIC_OR_PARTITION"),
    (("x", 0, [1]), "UNKNOWN_TOPIC_OR_PARTITION"),
    (("t", 0, [1, 2]), "NONE"),
]


@pytest.mark.parametrize(("move", "error"), MOVES)
def test_the_error_of_a_reassignment(move: tuple[str, int, list[int] | None], error: str) -> None:
    image = with_topic(three_brokers(), "t", (1, 2))
    untouched = state(image)
    assert reassign(image, move) == [error]
    assert state(image) == untouched
    assert ongoing(image) == {}


def test_new_replicas_are_added_and_the_reassignment_can_be_cancelled() -> None:
    image = with_topic(three_brokers(), "t", (1, 2))
    before = state(image)
    assert reassign(image, ("t", 0, [3, 1])) == ["NONE"]
    assert ongoing(image) == {"t": [(0, [3, 1, 2], [3], [2])]}
    assert (state(image).leader, state(image).isr) == (1, (1, 2))
    assert reassign(image, ("t", 0, None)) == ["NONE"]
    assert (state(image).replicas, state(image).isr, ongoing(image)) == (before.replicas, before.isr, {})


def test_a_new_order_of_replicas_applies_at_once_and_keeps_the_leader() -> None:
    image = with_topic(three_brokers(), "t", (1, 2))
    assert reassign(image, ("t", 0, [2, 1])) == ["NONE"]
    assert (state(image).replicas, state(image).leader, state(image).leader_epoch) == ((2, 1), 1, 0)


def test_fewer_replicas_apply_at_once_in_a_new_leader_epoch() -> None:
    image = with_topic(three_brokers(), "t", (1, 2, 3))
    assert reassign(image, ("t", 0, [1, 3])) == ["NONE"]
    assert (state(image).replicas, state(image).isr) == ((1, 3), (1, 3))
    assert (state(image).leader, state(image).leader_epoch) == (1, 1)
    assert reassign(image, ("t", 0, [3])) == ["NONE"]
    assert (state(image).leader, state(image).leader_epoch) == (3, 2)


def test_a_change_of_the_replication_factor_can_be_forbidden() -> None:
    image = with_topic(three_brokers(), "t", (1, 2))
    assert reassign(image, ("t", 0, [1, 2, 3]), any_number=False) == ["INVALID_REPLICATION_FACTOR"]
    assert reassign(image, ("t", 0, [1, 3]), any_number=False) == ["NONE"]
