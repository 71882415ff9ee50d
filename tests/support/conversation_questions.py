"""Generates random requests, most of them valid, to compare the responses of two nodes.

A request is generated from its declaration: every field of the version takes a value from the pool of its name; most
values are valid, some are not. Requests that Apache Kafka never answers, or answers with UNKNOWN_SERVER_ERROR, are left
out. A seed reproduces the requests.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from minikafka.protocol.codec.schema import Field
from minikafka.protocol.message import fields_of
from support.conversation_values import API_BY_NAME

AREAS: dict[str, str] = {
    "topics": "Metadata DescribeCluster DescribeTopicPartitions CreateTopics DeleteTopics CreatePartitions",
    "settings": "CreateTopics DescribeConfigs DescribeConfigs AlterConfigs IncrementalAlterConfigs",
    "records": "Produce Produce Produce Fetch Fetch Fetch ListOffsets DeleteRecords OffsetForLeaderEpoch"
    " DescribeProducers DescribeLogDirs",
    "groups": "JoinGroup JoinGroup SyncGroup SyncGroup Heartbeat LeaveGroup OffsetCommit OffsetFetch ListGroups"
    " DescribeGroups DeleteGroups OffsetDelete FindCoordinator",
}
VERSIONS = {"Metadata": (4, 13)}
TOPICS = ["~a", "~a", "~b", "~b", "~c", "~none", "a b"]
GROUPS = ["~g", "~g", "~g", "~g", "~h"]
SETTINGS = [
    *("retention.ms", "cleanup.policy", "segment.bytes", "compression.type", "max.message.bytes", "nonsense"),
    *("flush.messages", "message.timestamp.type", "min.compaction.lag.ms", "max.compaction.lag.ms", "segment.ms"),
]
LEFT_OUT = frozenset(
    (
        *("cluster_id", "replica_state", "replica_directory_id", "log_start_offset", "high_watermark", "rack_id"),
        *("user_data", "member_epoch", "transactional_id", "replica_id", "include_documentation", "resource_name"),
    )
)

POOLS: dict[str, list[Any]] = {
    "topic": TOPICS,
    "topic_name": TOPICS,
    "topic_id": ["$topic_id.1", "$topic_id.2", "$topic_id.1", "00000000-0000-0000-0000-0000000000ff"],
    "partition": [0, 0, 0, 1, 2, -1],
    "partition_index": [0, 0, 0, 1, 2, -1],
    "index": [0, 0, 0, 1, 2, -1],
    "group_id": GROUPS,
    "key": GROUPS,
    "key_type": [0, 0, 0, 3],
    "fetch_offset": [0, 0, 1, 2, 5, -1, 100],
    "offset": [0, 1, 2, -1, -2, 100],
    "committed_offset": [0, 1, 7, -1],
    "committed_metadata": ["", "md", None],
    "timestamp": [-1, -2, -3, -4, -5, -7, 0, 1_700_000_000_000],
    "current_leader_epoch": [-1, -1, 0, 5],
    "leader_epoch": [-1, 0, 0, 1],
    "last_fetched_epoch": [-1, -1, 0, 5],
    "committed_leader_epoch": [-1, 0, 3],
    "max_wait_ms": [0, 20],
    "min_bytes": [0, 1, 100],
    "max_bytes": [0, 1, 150, 1 << 20],
    "partition_max_bytes": [0, 70, 150, 1 << 20],
    "isolation_level": [0, 1],
    "session_id": [0, "$session_id.1", "$session_id.1", "$session_id.2", 77],
    "session_epoch": [-1, 0, 0, 1, 1, 2, 3],
    "acks": [-1, -1, 1, 1, 2],
    "timeout_ms": [5000, 5000, 5000, 0],
    "num_partitions": [1, 2, -1, 0, -2],
    "replication_factor": [1, 1, -1, 0, 2],
    "count": [1, 2, 3, 5, 0, -1],
    "resource_type": [2, 2, 2, 32],
    "config_operation": [0, 0, 1, 2, 3],
    "value": ["1", "5000", "compact", "delete,compact", "gzip", "x", "", None, "-1", "CreateTime", "1048576"],
    "endpoint_type": [1, 2, 3],
    "response_partition_limit": [2000, 2000, 2, 1, 0],
    "member_id": ["", "$member_id.1", "$member_id.1", "$member_id.2", "$member_id.3", "nobody"],
    "group_instance_id": [None, None, None, None, "i"],
    "generation_id": [1, 1, 2, 2, 3, 0, -1],
    "generation_id_or_member_epoch": [1, 2, -1, -1],
    "session_timeout_ms": [10_000, 10_000, 10_000, 5, 100_000_000],
    "rebalance_timeout_ms": [900],
    "protocol_type": ["consumer", "consumer", "consumer", "consumer", "connect"],
    "protocol_name": ["range", "range", "range", None],
    "metadata": ["m", "n"],
    "assignment": ["x", "y", ""],
    "retention_time_ms": [-1, 5],
    "reason": [None, "because"],
}
LISTS: dict[str, list[Any]] = {
    "partition_indexes": [0, 0, 1, 2, -1],
    "partitions": [0, 0, 1, 2, -1],
    "groups_names": GROUPS,
    "groups": GROUPS,
    "coordinator_keys": GROUPS,
    "topic_names": TOPICS,
    "broker_ids": [1],
    "configuration_keys": SETTINGS,
    "states_filter": ["Stable", "empty", "Dead", "CompletingRebalance"],
    "types_filter": ["classic", "consumer"],
}


class Questions:
    """An endless sequence of requests, determined by the random numbers."""

    def __init__(self, rng: random.Random, area: str) -> None:
        self._rng = rng
        self._apis = AREAS[area].split()

    def next(self) -> tuple[str, int, dict[str, Any]]:
        """The next API, version and body, in the form of a conversation."""
        api = self._rng.choice(self._apis)
        declared = API_BY_NAME[api].versions
        version = self._rng.randint(*VERSIONS.get(api, (declared.first, declared.last)))
        body = self._struct(API_BY_NAME[api].request, version, api)
        REPAIRS.get(api, lambda *_: None)(body, self._rng)
        return api, version, body

    def _struct(self, cls: Any, version: int, path: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for field in fields_of(cls):
            if version in field.versions and field.name not in LEFT_OUT and not (field.struct and not field.is_array):
                out[field.name] = self._value(field, version, f"{path}.{field.name}")
        return out

    def _value(self, field: Field, version: int, path: str) -> Any:
        rng = self._rng
        if field.struct is not None:
            if version in field.nullable and (field.name == "assignments" or rng.random() < 0.3):
                return None
            sizes = (0,) if path == "CreateTopics.topics.assignments" else (0, 1, 1, 1, 2, 3)
            return [self._struct(field.struct, version, path) for _ in range(rng.choice(sizes))]
        if field.name == "records":
            return _records(rng)
        if field.is_array:
            return [rng.choice(LISTS[field.name]) for _ in range(rng.randint(field.name == "configuration_keys", 3))]
        if field.kind is not None and field.kind.name == "bool":
            return rng.random() < 0.4
        value = rng.choice(_pool(field.name, path))
        return "" if value is None and version not in field.nullable else value


def _pool(name: str, path: str) -> list[Any]:
    if name != "name":
        return POOLS[name]
    if "config" in path:
        return SETTINGS
    return ["range", "sticky"] if "protocols" in path else TOPICS


def _records(rng: random.Random) -> Any:
    records: list[Any] = [
        rng.choice((f"v{n}", {"key": "k", "value": "v"}, {"key": f"k{n}"}, {"value": "h", "headers": {"a": "b"}}))
        for n in range(rng.randint(1, 3))
    ]
    batch: dict[str, Any] = {"records": records}
    if rng.random() < 0.25:
        batch["codec"] = "gzip"
    if rng.random() < 0.4:
        batch |= {"producer_id": rng.choice((4242, 4243)), "producer_epoch": rng.choice((0, 0, 1, 2))}
        batch["base_sequence"] = rng.choice((0, 0, 1, 2, 3, 5, 2**31 - 1))
    if rng.random() < 0.12:
        batch |= rng.choice(({"corrupt_crc": True}, {"base_offset": 3}, {"count": 5}, {"control": True}, {"raw": "zz"}))
    return batch


def _first_of_each(elements: list[Any], *keys: str) -> list[Any]:
    """The elements without later duplicates, which conversations cover."""
    return list({tuple(element.get(key) for key in keys): element for element in reversed(elements)}.values())[::-1]


def _one_entry_each(array: str, inner: str, key: str) -> Callable[[dict[str, Any], random.Random], None]:
    def repair(body: dict[str, Any], _: random.Random) -> None:
        body[array] = _first_of_each(body[array] or [], "name", "topic", "topic_id")
        for element in body[array]:
            if all(isinstance(part, dict) for part in element[inner]):
                element[inner] = _first_of_each(element[inner], key)

    return repair


def _name_resources(body: dict[str, Any], rng: random.Random) -> None:
    for resource in body["resources"]:
        resource["resource_name"] = rng.choice(("~a", "~b", "~none", "a b")) if resource["resource_type"] == 2 else "~g"
    body["resources"] = _first_of_each(body["resources"], "resource_type", "resource_name")


def _name_protocols(body: dict[str, Any], _: random.Random) -> None:
    body["protocols"] = _first_of_each(body["protocols"], "name")


def _create_nothing(body: dict[str, Any], _: random.Random) -> None:
    body["allow_auto_topic_creation"] = False  # Kafka responds before it has created the topic, minikafka afterwards
    body["topics"] = body["topics"] or []  # null stands for all topics of a node


def _ask_for_something(body: dict[str, Any], rng: random.Random) -> None:
    body["topics"] = body["topics"] or [{"name": rng.choice(TOPICS)}]  # an empty list stands for all topics of a node


REPAIRS: dict[str, Callable[[dict[str, Any], random.Random], None]] = {
    "Produce": _one_entry_each("topic_data", "partition_data", "index"),
    "Fetch": _one_entry_each("topics", "partitions", "partition"),
    "ListOffsets": _one_entry_each("topics", "partitions", "partition_index"),
    "OffsetDelete": _one_entry_each("topics", "partitions", "partition_index"),
    "Metadata": _create_nothing,
    "DescribeTopicPartitions": _ask_for_something,
    "DescribeLogDirs": _one_entry_each("topics", "partitions", "partition_index"),
    "OffsetCommit": _one_entry_each("topics", "partitions", "partition_index"),
    "DeleteRecords": _one_entry_each("topics", "partitions", "partition_index"),
    "AlterConfigs": _name_resources,
    "IncrementalAlterConfigs": _name_resources,
    "DescribeConfigs": _name_resources,
    "JoinGroup": _name_protocols,
}
