"""CreatePartitions: adding partitions to topics."""

from typing import Any

import pytest
from support.images import broker, cluster, decided, name_of, with_topic

from minikafka.controller.decisions.create_partitions import decide
from minikafka.controller.metadata.image import Image
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)


def wanted(name: str, count: int, *assigned: list[int], by_hand: bool = False) -> CreatePartitionsTopic:
    assignments = [CreatePartitionsAssignment(broker_ids=ids) for ids in assigned]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments if by_hand or assigned else None)


def grow(image: Image, *topics: CreatePartitionsTopic, validate_only: bool = False) -> dict[str, str]:
    request: Any = CreatePartitionsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate_only)
    results = decided(decide, image, request).results
    assert len(results) == len({result.name for result in results})
    return {result.name: name_of(result.error_code) for result in results}


def test_new_partitions_have_as_many_replicas_as_the_old_ones() -> None:
    image = with_topic(cluster(broker(1), broker(2), broker(3)), "t", (1, 2))
    assert grow(image, wanted("t", 3)) == {"t": "NONE"}
    partitions = image.topics["t"].partitions
    assert [len(state.replicas) for state in partitions] == [2, 2, 2]
    assert all(state.leader == state.replicas[0] and state.leader_epoch == 0 for state in partitions)


def test_assignments_list_the_new_partitions_only() -> None:
    image = with_topic(cluster(broker(1), broker(2), broker(3, fenced=True)), "t", (1, 2))
    assert grow(image, wanted("t", 2, [3, 1])) == {"t": "NONE"}
    state = image.topics["t"].partitions[1]
    assert (state.leader, state.replicas, state.isr) == (1, (3, 1), (1,))


REFUSED: dict[str, tuple[CreatePartitionsTopic, str]] = {
    "an unknown topic": (wanted("x", 3), "UNKNOWN_TOPIC_OR_PARTITION"),
    "as many as there are": (wanted("t", 2), "INVALID_PARTITIONS"),
    "fewer": (wanted("t", 1), "INVALID_PARTITIONS"),
    "none": (wanted("t", 0), "INVALID_PARTITIONS"),
    "minus one": (wanted("t", -1), "INVALID_PARTITIONS"),
    "two billion": (wanted("t", 2**31 - 1), "POLICY_VIOLATION"),
    "too few assignments": (wanted("t", 4, [1]), "INVALID_REPLICA_ASSIGNMENT"),
    "too many assignments": (wanted("t", 3, [1], [1]), "INVALID_REPLICA_ASSIGNMENT"),
    "no assignments": (wanted("t", 3, by_hand=True), "INVALID_REPLICA_ASSIGNMENT"),
    "an unknown broker": (wanted("t", 3, [9]), "INVALID_REPLICA_ASSIGNMENT"),
    "nobody": (wanted("t", 3, []), "INVALID_REPLICA_ASSIGNMENT"),
    "a broker twice": (wanted("t", 3, [1, 1]), "INVALID_REPLICA_ASSIGNMENT"),
    "another number of replicas": (wanted("t", 3, [1, 2]), "INVALID_REPLICA_ASSIGNMENT"),
    "a dead broker": (wanted("t", 3, [2]), "INVALID_REPLICA_ASSIGNMENT"),
}


@pytest.mark.parametrize(("asked", "error"), REFUSED.values(), ids=REFUSED)
def test_invalid_new_partitions_are_rejected(asked: CreatePartitionsTopic, error: str) -> None:
    image = with_topic(cluster(broker(1), broker(2, fenced=True)), "t", (1,), (1,))
    assert grow(image, asked) == {asked.name: error}
    assert len(image.topics["t"].partitions) == 2


def test_validate_only_reports_errors_and_writes_nothing() -> None:
    image = with_topic(cluster(), "t", (1,))
    assert grow(image, wanted("t", 3), validate_only=True) == {"t": "NONE"}
    assert grow(image, wanted("t", 1), validate_only=True) == {"t": "INVALID_PARTITIONS"}
    assert len(image.topics["t"].partitions) == 1


def test_an_expired_request_adds_no_partitions() -> None:
    image = with_topic(cluster(), "t", (1,))
    request: Any = CreatePartitionsRequest(topics=[wanted("t", 3)], timeout_ms=0, validate_only=False)
    assert [name_of(one.error_code) for one in decided(decide, image, request).results] == ["REQUEST_TIMED_OUT"]
    assert len(image.topics["t"].partitions) == 1


def test_a_duplicate_topic_is_rejected_and_others_are_extended() -> None:
    image = with_topic(with_topic(cluster(), "t", (1,)), "u", (1,))
    assert grow(image, wanted("t", 2), wanted("u", 2), wanted("t", 3)) == {"t": "INVALID_REQUEST", "u": "NONE"}
    assert len(image.topics["t"].partitions) == 1


def test_topics_beyond_the_limit_of_records_are_rejected() -> None:
    image = with_topic(with_topic(cluster(), "t", (1,)), "u", (1,))
    assert grow(image, wanted("t", 6001), wanted("u", 6001)) == {"t": "NONE", "u": "POLICY_VIOLATION"}
