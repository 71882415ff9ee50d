"""The error messages of responses, which conversations do not compare, are Kafka's where its tools print them.

Recorded with Apache Kafka 4.3.1. Where Kafka has null, a client prints its own words for the code; an empty string
and "NONE" are what Kafka has without an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.conversation_player import ANSWER_TIMEOUT_S, Connection
from support.node import NodeProcess

from minikafka.protocol.message import fields_of

pytestmark = pytest.mark.slow
Question = tuple[str, int, dict[str, Any]]


def describing(kind: int, name: str) -> Question:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": ["retention.ms"]}
    return "DescribeConfigs", 4, {"resources": [resource]}


def altering(kind: int, name: str, config: str, operation: int, value: str) -> Question:
    change = {"name": config, "config_operation": operation, "value": value}
    resource = {"resource_type": kind, "resource_name": name, "configs": [change]}
    return "IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": True}


def reassigning(*topics: dict[str, Any]) -> Question:
    return "AlterPartitionReassignments", 0, {"timeout_ms": 5000, "topics": list(topics)}


def producing(*records: dict[str, str]) -> Question:
    partitions = [{"index": 0, "records": list(records)}]
    return "Produce", 9, {"acks": -1, "timeout_ms": 5000, "topic_data": [{"name": "t", "partition_data": partitions}]}


NOT_HOSTED = "This server does not host this topic-partition."
NO_KEY = "Compacted topic cannot accept message without key in topic partition t-0"
COMPACTED = [{"name": "cleanup.policy", "value": "compact"}]
TOPICS = [{"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": COMPACTED}]
UNKNOWN = [{"name": "none"}, {"name": None, "topic_id": "00000000-0000-0000-0000-0000000000ff"}]
UPDATE = {"feature": "transaction.version", "max_version_level": 2, "upgrade_type": 1}
OF_QUORUM = [{"topic_name": "t", "partitions": [{"partition_index": 0}]}]
ANY_ACL = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
CASES: dict[str, tuple[Question, list[str | None]]] = {
    "a coordinator that is found": (("FindCoordinator", 4, {"coordinator_keys": ["g"]}), [""]),
    "a coordinator that is found, before version 4": (("FindCoordinator", 3, {"key": "g"}), ["NONE"]),
    "configs of a topic": (describing(2, "t"), [""]),
    "configs of an unknown topic": (describing(2, "none"), [""]),
    "log levels of another broker": (describing(8, "9"), ["Unexpected broker id, expected 1 but received 9"]),
    "configs of another broker": (
        describing(4, "9"),
        ["Unexpected broker id, expected 1 or empty string, but received 9"],
    ),
    "appending to a number of a broker": (
        altering(4, "1", "log.retention.ms", 2, "1"),
        ["Config value append is not allowed for config key: log.retention.ms"],
    ),
    "appending to a number of a topic": (
        altering(2, "t", "retention.ms", 2, "1"),
        ["Can't APPEND to key retention.ms because its type is not LIST."],
    ),
    "a local retention without limit": (
        altering(4, "1", "log.local.retention.ms", 0, "-1"),
        [
            "Invalid value -1 for configuration log.local.retention.ms: "
            "Value must not be -1 as log.retention.ms value is set as 604800000."
        ],
    ),
    "a creation without time": (("CreateTopics", 7, {"topics": TOPICS, "timeout_ms": 0}), [None]),
    "a deletion without time": (("DeleteTopics", 6, {"topics": UNKNOWN, "timeout_ms": 0}), [None, None]),
    "deletion of unknown topics": (
        ("DeleteTopics", 6, {"topics": UNKNOWN, "timeout_ms": 5000}),
        ["This server does not host this topic ID.", NOT_HOSTED],
    ),
    "growth of an unknown topic": (
        ("CreatePartitions", 3, {"topics": [{"name": "none", "count": 2, "assignments": None}], "timeout_ms": 5000}),
        [None],
    ),
    "a reassignment that is not there": (
        reassigning({"name": "t", "partitions": [{"partition_index": 0, "replicas": None}]}),
        [None, None],
    ),
    "no reassignment at all": (reassigning(), [""]),
    "quotas": (("DescribeClientQuotas", 1, {"components": [], "strict": False}), [""]),
    "credentials of nobody": (
        ("DescribeUserScramCredentials", 0, {"users": [{"name": "nobody"}]}),
        ["", "Attempt to describe a user credential that does not exist: nobody"],
    ),
    "an update of a feature": (
        ("UpdateFeatures", 1, {"feature_updates": [UPDATE], "validate_only": True}),
        [None, "NONE"],
    ),
    "controllers asked of a broker": (
        ("DescribeCluster", 1, {"endpoint_type": 2}),
        ["The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"],
    ),
    "the quorum of another topic": (("DescribeQuorum", 2, {"topics": OF_QUORUM}), ["", NOT_HOSTED]),
    "a heartbeat to an unknown group": (
        ("ConsumerGroupHeartbeat", 1, {"group_id": "none", "member_id": "m", "member_epoch": 3}),
        ["Consumer group none not found."],
    ),
    "access control": (("DescribeAcls", 3, ANY_ACL), ["No Authorizer is configured on the broker"]),
    "records without key": (
        producing({"key": "k", "value": "a"}, {"value": "b"}, {"value": "c"}),
        [
            NO_KEY,
            NO_KEY,
            "One or more records have been rejected due to 2 record errors in total, "
            "and only showing the first three errors at most: "
            f"[RecordError(batchIndex=1, message='{NO_KEY}'), RecordError(batchIndex=2, message='{NO_KEY}')]",
        ],
    ),
}


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with NodeProcess(tmp_path_factory.mktemp("messages") / "data") as node:
        connection = Connection(node.address)
        ask(connection, ("CreateTopics", 7, {"topics": TOPICS}))
        yield connection
        connection.close()


def ask(connection: Connection, question: Question) -> Any:
    connection.send(*question)
    received = connection.receive(ANSWER_TIMEOUT_S)
    assert not isinstance(received, str), received
    return received[1]


def messages(answer: Any, version: int) -> Iterator[str | None]:
    """All error messages of a response, in the order of its fields."""
    for field in fields_of(type(answer)):
        value = getattr(answer, field.name) if version in field.versions else None
        if field.name.endswith("error_message") and version in field.versions:
            yield value
        for element in value if isinstance(value, list) else ():
            if not isinstance(element, int | str | bytes):
                yield from messages(element, version)


@pytest.mark.parametrize("name", CASES)
def test_the_messages_are_those_of_kafka(name: str, connection: Connection) -> None:
    question, expected = CASES[name]
    assert list(messages(ask(connection, question), question[1])) == expected
