"""Standalone registration, producer ids, features, elections, reassignments and config resources."""

from dataclasses import replace
from typing import Any

import pytest
from support.images import applied, broker, cluster, context, decided, name_of, topic_id, with_topic

from minikafka.controller.decisions import (
    alter_partition_reassignments,
    elect_leaders,
    list_config_resources,
    list_partition_reassignments,
    producer_id_blocks,
    standalone_registration,
    unregister_broker,
    update_features,
)
from minikafka.controller.decisions.standalone_registration import Registration
from minikafka.controller.metadata.image import Image, PartitionState
from minikafka.controller.metadata.records import BrokerChange, ConfigRecord, PartitionChange
from minikafka.protocol.errors import BrokerIdNotRegisteredError, StaleBrokerEpochError
from minikafka.protocol.messages import alter_partition_reassignments as moving
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from minikafka.protocol.messages.list_config_resources import ListConfigResourcesRequest
from minikafka.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest
from minikafka.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


def three_brokers() -> Image:
    return cluster(broker(1), broker(2), broker(3))


def state(image: Image, name: str = "t", index: int = 0) -> PartitionState:
    return image.topics[name].partitions[index]


def registration(node_id: int) -> Registration:
    return Registration(node_id, bytes([node_id]) * 16, (("PLAINTEXT", "h", 1, "PLAINTEXT"),), "rack")


def test_a_standalone_broker_is_registered_unfenced_with_a_new_epoch() -> None:
    image = Image()
    epochs: list[int] = []
    for node_id in (1, 2, 1):
        decision = standalone_registration.decide(image, registration(node_id))
        applied(decision.records, image)
        epochs.append(decision.reply)
    assert epochs == [0, 1, 2]
    assert image.live_brokers() == [1, 2]
    assert image.brokers[1].endpoints == (("PLAINTEXT", "h", 1, "PLAINTEXT"),)
    assert image.brokers[1].rack == "rack"


def test_a_standalone_broker_leads_again_in_a_new_leader_epoch() -> None:
    image = with_topic(with_topic(three_brokers(), "t", (1, 2), (2, 1)), "u", (1,))
    applied([PartitionChange(topic_id("u"), 0, leader=-1)], image)
    applied(standalone_registration.decide(image, registration(1)).records, image)
    assert (state(image).leader, state(image).leader_epoch) == (1, 1)
    assert (state(image, index=1).leader, state(image, index=1).leader_epoch) == (2, 0)
    assert (state(image, "u").leader, state(image, "u").leader_epoch) == (1, 2)


def test_after_a_clean_shutdown_leader_epochs_are_kept() -> None:
    image = with_topic(with_topic(three_brokers(), "t", (1, 2)), "u", (1,))
    applied([PartitionChange(topic_id("u"), 0, leader=-1)], image)
    applied(standalone_registration.decide(image, replace(registration(1), clean=True)).records, image)
    assert (state(image).leader, state(image).leader_epoch) == (1, 0)
    assert (state(image, "u").leader, state(image, "u").leader_epoch) == (1, 2)


def test_blocks_of_producer_ids_are_distinct() -> None:
    image = three_brokers()
    firsts: list[int] = []
    for _ in range(3):
        decision = producer_id_blocks.decide(image, node_id=1, broker_epoch=0)
        applied(decision.records, image)
        firsts.append(decision.reply.first)
        assert decision.reply.size == 1000
    assert firsts == [0, 1000, 2000]
    with pytest.raises(StaleBrokerEpochError):
        producer_id_blocks.decide(image, node_id=1, broker_epoch=9)
    with pytest.raises(BrokerIdNotRegisteredError):
        producer_id_blocks.decide(image, node_id=9, broker_epoch=0)


def update(image: Image, *levels: tuple[str, int, int], validate_only: bool = False) -> str:
    updates = [
        FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind) for feature, level, kind in levels
    ]
    request: Any = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
    return name_of(decided(update_features.decide, image, request).error_code)


UPGRADE, SAFE, UNSAFE = 1, 2, 3
LEVELS: dict[str, tuple[list[tuple[str, int, int]], str]] = {
    "nothing": ([], "NONE"),
    "the level it has": ([("metadata.version", 30, UPGRADE)], "NONE"),
    "the level it has, downwards": ([("group.version", 1, SAFE)], "NONE"),
    "a safe step down": ([("transaction.version", 1, SAFE)], "NONE"),
    "an unsafe step down": ([("transaction.version", 0, UNSAFE)], "NONE"),
    "a feature switched off": ([("group.version", 0, SAFE)], "NONE"),
    "a feature that is off switched on": ([("kraft.version", 1, UPGRADE)], "NONE"),
    "an unknown feature": ([("no.such.feature", 1, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "no name": ([("", 1, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "a level too high": ([("metadata.version", 999, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "a level too low": ([("metadata.version", 1, SAFE)], "INVALID_UPDATE_VERSION"),
    "less than nothing": ([("group.version", -1, SAFE)], "INVALID_UPDATE_VERSION"),
    "a step down called a step up": ([("transaction.version", 1, UPGRADE)], "INVALID_UPDATE_VERSION"),
    "a step up called a step down": ([("kraft.version", 1, SAFE)], "INVALID_UPDATE_VERSION"),
    "older metadata": ([("metadata.version", 29, SAFE)], "INVALID_UPDATE_VERSION"),
    "older metadata by force": ([("metadata.version", 7, UNSAFE)], "INVALID_UPDATE_VERSION"),
    "an unknown kind of step": ([("group.version", 1, 0)], "INVALID_UPDATE_VERSION"),
    "one right, one wrong": ([("group.version", 0, SAFE), ("no.such", 1, UPGRADE)], "INVALID_UPDATE_VERSION"),
}


FEATURES = {
    "group.version": (0, 1, 1),
    "kraft.version": (0, 1, 0),
    "metadata.version": (7, 30, 30),
    "transaction.version": (0, 2, 2),
}


@pytest.mark.parametrize(("levels", "error"), LEVELS.values(), ids=LEVELS)
def test_feature_updates(
    levels: list[tuple[str, int, int]], error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, bounds in FEATURES.items():
        monkeypatch.setitem(update_features.FEATURES, name, bounds)
    image, untouched = cluster(), cluster()
    assert update(image, *levels, validate_only=True) == error
    assert image == untouched
    assert update(image, *levels) == error
    changed = {name: level for name, level, _ in levels} if error == "NONE" else {}
    wanted = {name: level for name, level in {**untouched.features, **changed}.items() if level}
    assert image.features == wanted


def elect(image: Image, kind: int, partitions: dict[str, list[int]] | None) -> tuple[str, dict[str, list[str]]]:
    asked = [TopicPartitions(topic=name, partitions=ids) for name, ids in (partitions or {}).items()]
    request: Any = ElectLeadersRequest(election_type=kind, topic_partitions=None if partitions is None else asked)
    response = decided(elect_leaders.decide, image, request)
    results = {
        one.topic: [name_of(partition.error_code) for partition in one.partition_result]
        for one in response.replica_election_results
    }
    return name_of(response.error_code), results


PREFERRED, UNCLEAN = 0, 1


def test_the_preferred_replica_is_elected_if_it_is_unfenced_and_in_sync() -> None:
    image = with_topic(three_brokers(), "t", (1, 2), (1, 2), (2, 1), isr=(2, 1))
    applied([PartitionChange(topic_id("t"), 1, isr=(2,))], image)
    told = elect(image, PREFERRED, {"t": [0, 1, 2, 9], "x": [0]})
    assert told == (
        "NONE",
        {
            "t": ["NONE", "PREFERRED_LEADER_NOT_AVAILABLE", "ELECTION_NOT_NEEDED", "UNKNOWN_TOPIC_OR_PARTITION"],
            "x": ["UNKNOWN_TOPIC_OR_PARTITION"],
        },
    )
    assert (state(image).leader, state(image).leader_epoch, state(image).partition_epoch) == (1, 1, 1)


def test_an_unclean_election_elects_any_unfenced_replica_of_a_leaderless_partition() -> None:
    image = with_topic(three_brokers(), "t", (1, 2), (1, 2), (1, 2))
    for index, isr in enumerate([(1, 2), (2,), (1, 2)]):
        applied([PartitionChange(topic_id("t"), index, isr=isr, leader=-1)], image)
    applied([BrokerChange(2, 0, fenced=True)], image)
    assert elect(image, UNCLEAN, {"t": [0, 1]})[1] == {"t": ["NONE", "NONE"]}
    assert (state(image).leader, state(image).isr) == (1, (1, 2))
    assert (state(image, index=1).leader, state(image, index=1).isr) == (1, (1,))
    applied([BrokerChange(1, 0, fenced=True)], image)
    assert elect(image, UNCLEAN, {"t": [0, 2]})[1] == {"t": ["ELECTION_NOT_NEEDED", "ELIGIBLE_LEADERS_NOT_AVAILABLE"]}


def test_a_request_for_all_partitions_returns_elections_only() -> None:
    image = with_topic(with_topic(three_brokers(), "t", (1, 2), isr=(2, 1)), "u", (1,))
    assert elect(image, PREFERRED, None) == ("NONE", {"t": ["NONE"], "u": []})


def test_an_unknown_election_type_is_rejected() -> None:
    assert elect(with_topic(cluster(), "t", (1,)), 7, {"t": [0]}) == ("INVALID_REQUEST", {"t": ["INVALID_REQUEST"]})
    assert elect(cluster(), 7, None) == ("INVALID_REQUEST", {})
    assert elect(cluster(), 7, {}) == ("NONE", {})


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
    response = list_partition_reassignments.describe(image, ListPartitionReassignmentsRequest(topics=None))
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


def test_a_fenced_broker_can_be_unregistered() -> None:
    image = cluster(broker(1), broker(2, fenced=True))
    codes = [
        name_of(decided(unregister_broker.decide, image, UnregisterBrokerRequest(broker_id=node_id)).error_code)
        for node_id in (77, -1, 1, 2, 2)
    ]
    unknown = "BROKER_ID_NOT_REGISTERED"
    assert codes == [unknown, unknown, "INVALID_REQUEST", "NONE", unknown]
    assert list(image.brokers) == [1]


def listed(image: Image, *kinds: int, version: int = 1) -> Any:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    response = list_config_resources.describe(image, request, version)
    resources = [(one.resource_name, one.resource_type) for one in response.config_resources]
    return name_of(response.error_code) if response.error_code else resources


def test_resources_are_listed_by_type() -> None:
    image = with_topic(cluster(), "t", (1,))
    applied([ConfigRecord(16, "m", "interval.ms", "1000"), ConfigRecord(32, "g", "a", "1")], image)
    assert listed(image) == [("g", 32), ("m", 16), ("1", 8), ("1", 4), ("t", 2)]
    assert listed(image, 2, 4) == [("1", 4), ("t", 2)]
    assert listed(image, version=0) == [("m", 16)]
    assert listed(image, 4, 3) == listed(image, 0) == "UNSUPPORTED_VERSION"


def test_ids_do_not_start_with_a_dash() -> None:
    assert all(context(seed=seed).new_id()[0] >> 2 != 62 for seed in range(500))
