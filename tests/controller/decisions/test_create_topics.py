"""CreateTopics: the records of new topics, and the order of errors."""

from typing import Any

import pytest
from support.images import applied, broker, cluster, context, decided, name_of, static, with_topic

from minikafka.controller.decisions.create_topics import decide
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ConfigRecord, PartitionRecord, TopicRecord
from minikafka.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.protocol.types import NIL_UUID
from minikafka.storage.directories.directory_ids import UNASSIGNED


def topic(
    name: str, partitions: int = 1, factor: int = 1, *, assigned: dict[int, list[int]] | None = None, **settings: Any
) -> CreatableTopic:
    """A requested topic; configs with underscores for dots."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=ids) for index, ids in (assigned or {}).items()
        ],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()],
    )


def create(image: Image, *topics: CreatableTopic, validate_only: bool = False, **known: Any) -> CreateTopicsResponse:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return decided(decide, image, request, **known)


def errors(response: CreateTopicsResponse) -> dict[str, str]:
    return {result.name: name_of(result.error_code) for result in response.topics}


def test_the_records_are_the_topic_its_configs_and_its_partitions() -> None:
    request = CreateTopicsRequest(topics=[topic("t", 2, retention_ms="5")])
    first, second, *rest = decide(cluster(), request, context()).records
    assert isinstance(first, TopicRecord)
    assert second == ConfigRecord(2, "t", "retention.ms", "5")
    unassigned = (UNASSIGNED,)
    assert rest == [
        PartitionRecord(first.topic_id, index, (1,), (1,), 1, directories=unassigned) for index in range(2)
    ]


def test_the_response_has_id_counts_and_all_configs() -> None:
    image = cluster()
    (result,) = create(image, topic("t", 2, retention_ms=" +5 ")).topics
    assert result.topic_id == image.topics["t"].id != NIL_UUID
    assert (result.num_partitions, result.replication_factor) == (2, 1)
    told = {config.name: (config.value, config.config_source) for config in result.configs or []}
    assert len(told) == 33
    assert told["retention.ms"] == (" +5 ", 1)
    assert told["min.insync.replicas"] == ("1", 3)
    assert told["segment.ms"] == ("604800000", 5)


def test_a_static_default_has_the_source_static_broker_config() -> None:
    node = static(log_retention_hours="5", log_segment_bytes="2000000")
    (result,) = create(cluster(), topic("t"), node=node).topics
    told = {config.name: (config.value, config.config_source) for config in result.configs or []}
    assert told["retention.ms"] == ("18000000", 4)
    assert told["segment.bytes"] == ("2000000", 4)


def test_validate_only_returns_an_unused_id() -> None:
    image = cluster()
    (result,) = create(image, topic("t"), validate_only=True).topics
    assert result.error_code == 0
    assert result.topic_id != NIL_UUID
    assert not image.topics


def test_minus_one_stands_for_the_defaults_of_the_broker() -> None:
    image = cluster(broker(1), broker(2))
    node = static(num_partitions="3", default_replication_factor="2")
    (result,) = create(image, topic("t", -1, -1), node=node).topics
    assert (result.num_partitions, result.replication_factor) == (3, 2)


def test_the_last_of_duplicate_configs_wins() -> None:
    image, twice = cluster(), topic("t", retention_ms="1")
    twice.configs.append(CreatableTopicConfig(name="retention.ms", value="2"))
    create(image, twice)
    assert image.config(2, "t") == {"retention.ms": "2"}


REFUSED: dict[str, tuple[CreatableTopic, str]] = {
    "an empty name": (topic(""), "INVALID_TOPIC_EXCEPTION"),
    "two points": (topic(".."), "INVALID_TOPIC_EXCEPTION"),
    "a slash": (topic("a/b"), "INVALID_TOPIC_EXCEPTION"),
    "250 letters": (topic("x" * 250), "INVALID_TOPIC_EXCEPTION"),
    "a name that is there": (topic("old.one"), "TOPIC_ALREADY_EXISTS"),
    "a name that is there, and all else wrong": (topic("old.one", 0, 0, no_such="1"), "TOPIC_ALREADY_EXISTS"),
    "a name that differs in a point": (topic("old_one"), "INVALID_TOPIC_EXCEPTION"),
    "the name of the metadata": (topic("__cluster_metadata"), "INVALID_REQUEST"),
    "an unknown setting": (topic("t", no_such="1"), "INVALID_CONFIG"),
    "a wrong value": (topic("t", retention_ms="soon"), "INVALID_CONFIG"),
    "a null value": (topic("t", retention_ms=None), "INVALID_CONFIG"),
    "lags that contradict": (topic("t", min_compaction_lag_ms="5", max_compaction_lag_ms="4"), "INVALID_CONFIG"),
    "remote storage": (topic("t", remote_storage_enable="true"), "INVALID_CONFIG"),
    "a wrong value and no partitions": (topic("t", 0, retention_ms="x"), "INVALID_CONFIG"),
    "no partitions": (topic("t", 0), "INVALID_PARTITIONS"),
    "minus two partitions": (topic("t", -2), "INVALID_PARTITIONS"),
    "no replicas": (topic("t", 1, 0), "INVALID_REPLICATION_FACTOR"),
    "minus two replicas": (topic("t", 1, -2), "INVALID_REPLICATION_FACTOR"),
    "two replicas on one broker": (topic("t", 1, 2), "INVALID_REPLICATION_FACTOR"),
    "neither partitions nor replicas": (topic("t", 0, 0), "INVALID_REPLICATION_FACTOR"),
    "no partitions, too many replicas": (topic("t", 0, 5), "INVALID_PARTITIONS"),
    "a gap": (topic("t", -1, -1, assigned={0: [1], 2: [1]}), "INVALID_REPLICA_ASSIGNMENT"),
    "partitions from one": (topic("t", -1, -1, assigned={1: [1]}), "INVALID_REPLICA_ASSIGNMENT"),
    "an unknown broker": (topic("t", -1, -1, assigned={0: [7]}), "INVALID_REPLICA_ASSIGNMENT"),
    "nobody": (topic("t", -1, -1, assigned={0: []}), "INVALID_REPLICA_ASSIGNMENT"),
    "a broker twice": (topic("t", -1, -1, assigned={0: [1, 1]}), "INVALID_REPLICA_ASSIGNMENT"),
    "assigned and counted": (topic("t", 1, -1, assigned={0: [1]}), "INVALID_REQUEST"),
    "assigned with a factor": (topic("t", -1, 1, assigned={0: [1]}), "INVALID_REQUEST"),
}


@pytest.mark.parametrize(("asked", "error"), REFUSED.values(), ids=REFUSED)
def test_invalid_topics_are_rejected(asked: CreatableTopic, error: str) -> None:
    image = with_topic(cluster(), "old.one", (1,))
    (result,) = create(image, asked).topics
    assert (name_of(result.error_code), result.topic_id) == (error, NIL_UUID)
    assert result.error_message
    assert list(image.topics) == ["old.one"]


def test_assignments_of_unequal_length_are_rejected() -> None:
    image = cluster(broker(1), broker(2))
    response = create(image, topic("t", -1, -1, assigned={0: [1, 2], 1: [1]}))
    assert errors(response) == {"t": "INVALID_REPLICA_ASSIGNMENT"}


def test_the_first_unfenced_broker_leads_an_assigned_partition() -> None:
    image = cluster(broker(1, fenced=True), broker(2))
    assert errors(create(image, topic("t", -1, -1, assigned={0: [1, 2]}))) == {"t": "NONE"}
    state = image.topics["t"].partitions[0]
    assert (state.leader, state.replicas, state.isr) == (2, (1, 2), (2,))
    assert errors(create(image, topic("u", -1, -1, assigned={0: [1]}))) == {"u": "INVALID_REPLICA_ASSIGNMENT"}


def test_an_invalid_topic_does_not_affect_the_others() -> None:
    image = cluster()
    response = create(image, topic("a"), topic("b", 0), topic("c"))
    assert errors(response) == {"a": "NONE", "b": "INVALID_PARTITIONS", "c": "NONE"}
    assert list(image.topics) == ["a", "c"]


def test_a_duplicate_name_gets_one_error_and_is_not_created() -> None:
    image = cluster()
    response = create(image, topic("a"), topic("b"), topic("a", 2))
    assert errors(response) == {"b": "NONE", "a": "INVALID_REQUEST"}
    assert len(response.topics) == 2
    assert list(image.topics) == ["b"]


def test_colliding_names_are_accepted_within_a_request_and_after_deletion() -> None:
    image = cluster()
    assert errors(create(image, topic("a.b"), topic("a_b"))) == {"a.b": "NONE", "a_b": "NONE"}
    assert errors(create(image, topic("a-b"))) == {"a-b": "NONE"}


def test_more_than_ten_thousand_partitions_reject_all_topics() -> None:
    image = cluster()
    assert errors(create(image, topic("a", 10_001), topic("b"))) == dict.fromkeys("ab", "POLICY_VIOLATION")
    assert errors(create(image, topic("a", 6000), topic("b", 6000))) == dict.fromkeys("ab", "POLICY_VIOLATION")
    assert errors(create(image, topic("a", 10_000))) == {"a": "POLICY_VIOLATION"}  # with the topic's own record
    assert errors(create(image, topic("a", 2**31 - 1), topic("b", -(2**31)))) == dict.fromkeys("ab", "POLICY_VIOLATION")
    assert errors(create(image, topic("a", 9999))) == {"a": "NONE"}


def test_an_expired_request_creates_nothing() -> None:
    image = cluster()
    request = CreateTopicsRequest(topics=[topic("a"), topic("b", 0)], timeout_ms=0)
    assert errors(decided(decide, image, request)) == dict.fromkeys("ab", "REQUEST_TIMED_OUT")
    request.topics = [topic("a"), topic("a")]
    assert errors(decided(decide, image, request)) == {"a": "INVALID_REQUEST"}
    assert not image.topics


def test_an_empty_request_gets_an_empty_response() -> None:
    assert create(cluster()).topics == []


def test_ids_and_placement_are_determined_by_the_random_source() -> None:
    request = CreateTopicsRequest(topics=[topic("a", 5, 2)])
    brokers = [broker(node_id) for node_id in range(1, 5)]
    one, same, other = (decide(cluster(*brokers), request, context(seed=seed)).records for seed in (1, 1, 2))
    assert one == same != other
    assert applied(one, cluster(*brokers)).topics["a"].id
