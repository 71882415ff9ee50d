"""Generates random requests, most of them valid, to compare the responses of two nodes.

A request is generated from its declaration: every field of the version takes a value from the pool of its name; most
values are valid, some are not. Producers and members mostly go on with the ids and epochs of their last response.
Requests that Apache Kafka never answers, or answers with UNKNOWN_SERVER_ERROR, are left out. A seed reproduces the
requests.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from minikafka.protocol.codec.schema import Field
from minikafka.protocol.message import fields_of
from support.conversation_areas import (
    AREAS,
    AREAS_OF_CLUSTERS,
    AREAS_OF_NODES,
    CONTROLLER,
    LEFT_OUT,
    LISTS,
    MARKERS,
    ONLY_IN,
    POOLS,
    REPLICAS,
    RESOURCES,
    SETTINGS,
    SETTINGS_OF_NODES,
    TOPICS,
    VERSIONS,
    VERSIONS_IN,
)
from support.conversation_values import API_BY_NAME


class Questions:
    """An endless sequence of requests, determined by the random numbers and the responses."""

    def __init__(self, rng: random.Random, area: str) -> None:
        self._rng = rng
        self._area = area
        self._apis = {**AREAS, **AREAS_OF_NODES, **AREAS_OF_CLUSTERS}[area].split()
        self._values = ONLY_IN.get(area, {})
        self._left_out = LEFT_OUT - set(self._values)
        self._known = Known(rng, area)

    def next(self) -> tuple[str, int, dict[str, Any]]:
        """The next API, version and body, in the form of a conversation."""
        api = self._rng.choice(self._apis)
        declared = API_BY_NAME[api].versions
        versions = {**VERSIONS, **VERSIONS_IN.get(self._area, {})}
        version = self._rng.randint(*versions.get(api, (declared.first, declared.last)))
        body = self._struct(API_BY_NAME[api].request, version, api)
        REPAIRS.get(api, lambda *_: None)(body, self._rng)
        REPAIRS_OF_AREAS.get(self._area, {}).get(api, lambda *_: None)(body, self._rng)
        self._known.use(api, version, body)
        return api, version, body

    def learn(self, api: str, body: dict[str, Any], response: Any) -> None:
        """The response of both nodes to the last request."""
        if isinstance(response, dict):
            self._known.learn(api, body, response)

    def _struct(self, cls: Any, version: int, path: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for field in fields_of(cls):
            left_out = field.name in self._left_out or (field.struct and not field.is_array)
            if version in field.versions and not left_out:
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
            if version in field.nullable and rng.random() < 0.3:
                return None
            pool = self._values.get(field.name) or LISTS[field.name]
            return [rng.choice(pool) for _ in range(rng.randint(field.name == "configuration_keys", 3))]
        if field.kind is not None and field.kind.name == "bool":
            return rng.random() < 0.4
        value = rng.choice(self._pool(field.name.removeprefix("v3_and_below_"), path))
        return "" if value is None and version not in field.nullable else value

    def _pool(self, name: str, path: str) -> list[Any]:
        for key in (f"{path.partition('.')[0]}.{name}", name):
            if key in self._values:
                return self._values[key]
        if name != "name":
            return POOLS[name]
        if "config" in path:
            return SETTINGS
        return ["range", "sticky"] if "protocols" in path else TOPICS


class Known:
    """Ids, epochs and sequence numbers of the last responses.

    Most requests take these; the others keep their random values.
    """

    def __init__(self, rng: random.Random, area: str) -> None:
        self._rng = rng
        self._area = area
        self._producers: dict[str, tuple[Any, int]] = {}
        self._sequences: dict[tuple[Any, int, str, int], int] = {}
        self._members: dict[tuple[str, str], tuple[int, list[dict[str, Any]]]] = {}
        self._classic: dict[str, tuple[str, int]] = {}

    def use(self, api: str, version: int, body: dict[str, Any]) -> None:
        """Put known values into a request."""
        if self._area == MARKERS and api in ("AddPartitionsToTxn", "WriteTxnMarkers"):
            self._use_producers(body.get("transactions", []), body.get("markers", []))
        elif self._area in ("transactions", MARKERS):
            self._use_producer(api, version, body)
        elif api == "ConsumerGroupHeartbeat":
            self._use_member(body)
        elif self._area == "consumer groups" and api in ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"):
            self._use_classic_member(body)

    def learn(self, api: str, body: dict[str, Any], response: dict[str, Any]) -> None:
        """Remember the values of a response."""
        failed = "error_code" in response
        if api in ("InitProducerId", "EndTxn") and not failed and "producer_id" in response:
            self._producers[body["transactional_id"]] = (response["producer_id"], response.get("producer_epoch", 0))
        elif api == "ConsumerGroupHeartbeat" and not failed:
            owned = response.get("assignment", {}).get("topic_partitions")
            key = (body["group_id"], response.get("member_id", body["member_id"]))
            before = self._members.get(key, (0, []))[1]
            self._members[key] = (response.get("member_epoch", 0), before if owned is None else owned)
        elif api == "JoinGroup" and response.get("member_id"):
            self._classic[body["group_id"]] = (response["member_id"], response.get("generation_id", -1))
        elif api == "Produce":
            self._count_sequences(body, response)

    def _use_producer(self, api: str, version: int, body: dict[str, Any]) -> None:
        prefix = "v3_and_below_" if api == "AddPartitionsToTxn" else ""
        producer = self._producers.get(body.get(f"{prefix}transactional_id", ""))
        if producer is not None and api == "Produce":
            for topic in body["topic_data"]:
                for partition in topic["partition_data"]:
                    self._use_sequence(partition, producer, topic.get("name", topic.get("topic_id")))
        elif producer is not None and f"{prefix}producer_id" in body and self._rng.random() < 0.8:
            body[f"{prefix}producer_id"], body[f"{prefix}producer_epoch"] = producer
        if api == "InitProducerId" and version >= 3 and self._rng.random() < 0.6:
            body["producer_id"], body["producer_epoch"] = -1, -1

    def _use_producers(self, transactions: list[dict[str, Any]], markers: list[dict[str, Any]]) -> None:
        for one in [*transactions, *markers]:
            known = self._producers.get(one.get("transactional_id", "~t"))
            if known is not None and self._rng.random() < 0.8:
                one["producer_id"], one["producer_epoch"] = known
        for marker in markers:
            marker["producer_epoch"] += self._rng.choice((0, 0, 1))

    def _use_sequence(self, partition: dict[str, Any], producer: tuple[Any, int], topic: str) -> None:
        batch = partition["records"]
        if self._rng.random() < 0.15:
            return
        known = self._sequences.get((*producer, topic, partition["index"]), 0)
        sequence = known if self._rng.random() < 0.85 else self._rng.choice((0, known + 1))
        batch |= {"producer_id": producer[0], "producer_epoch": producer[1], "base_sequence": sequence}
        batch["transactional"] = self._rng.random() < 0.9

    def _count_sequences(self, body: dict[str, Any], response: dict[str, Any]) -> None:
        answers = {
            (topic.get("name", topic.get("topic_id")), partition.get("index", 0)): partition
            for topic in response.get("responses", [])
            for partition in topic.get("partition_responses", [])
        }
        for topic in body["topic_data"]:
            name = topic.get("name", topic.get("topic_id"))
            for partition in topic["partition_data"]:
                batch = partition["records"]
                answer = answers.get((name, partition["index"]), {"error_code": 0})
                if "error_code" not in answer and "base_sequence" in batch:
                    key = (batch["producer_id"], batch["producer_epoch"], name, partition["index"])
                    self._sequences[key] = batch["base_sequence"] + len(batch["records"])

    def _use_member(self, body: dict[str, Any]) -> None:
        known = self._members.get((body["group_id"], body["member_id"]))
        if known is None:
            if self._rng.random() < 0.7:
                body["member_epoch"], body["topic_partitions"] = 0, []
                body["rebalance_timeout_ms"] = 45_000
                body["subscribed_topic_names"] = body["subscribed_topic_names"] or ["~a"]
        elif self._rng.random() < 0.75:
            body["member_epoch"] = known[0]
            body["topic_partitions"] = self._rng.choice((None, known[1], known[1], []))

    def _use_classic_member(self, body: dict[str, Any]) -> None:
        known = self._classic.get(body["group_id"])
        if known is not None and "member_id" in body and self._rng.random() < 0.75:
            body["member_id"] = known[0]
            if "generation_id" in body:
                body["generation_id"] = known[1]


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


NAMES_OF_RESOURCES = {2: ("~a", "~b", "~none", "a b"), 4: ("1", "1", "1", "", "", "7", "x"), 8: ("1", "1", "7", "")}


def _name_resources(body: dict[str, Any], rng: random.Random) -> None:
    for resource in body["resources"]:
        names = NAMES_OF_RESOURCES.get(resource["resource_type"])
        resource["resource_name"] = rng.choice(names) if names else "~g"
        if resource["resource_type"] in NAMES_OF_RESOURCES and resource["resource_type"] != 2:
            _name_keys(resource, rng)
    body["resources"] = _first_of_each(body["resources"], "resource_type", "resource_name")


def _name_keys(resource: dict[str, Any], rng: random.Random) -> None:
    """Names configs of a broker: which loggers there are, and where a node has its files, differs."""
    if "configuration_keys" in resource:
        resource["configuration_keys"] = resource["configuration_keys"] or rng.sample(SETTINGS_OF_NODES, 2)
    if resource["resource_type"] == 8:
        for config in resource.get("configs", []):
            config["name"] = rng.choice(("root", "root", "nonsense", ""))
        if "configuration_keys" in resource:
            resource["configuration_keys"] = [rng.choice(("root", "nonsense"))]


def _name_protocols(body: dict[str, Any], _: random.Random) -> None:
    body["protocols"] = _first_of_each(body["protocols"], "name")


def _create_nothing(body: dict[str, Any], _: random.Random) -> None:
    body["allow_auto_topic_creation"] = False  # Kafka responds before it has created the topic, minikafka afterwards
    body["topics"] = body["topics"] or []  # null stands for all topics of a node


def _ask_for_something(body: dict[str, Any], rng: random.Random) -> None:
    body["topics"] = body["topics"] or [{"name": rng.choice(TOPICS)}]  # an empty list stands for all topics of a node


def _listen_once(body: dict[str, Any], _: random.Random) -> None:
    body["listeners"] = [{"name": "CONTROLLER", "host": "127.0.0.1", "port": 9}]  # others end Kafka's process


def _name_transactions(body: dict[str, Any], rng: random.Random) -> None:
    """Kafka does not answer a broker that names no transaction."""
    if "transactions" in body and not body["transactions"]:
        one = {"transactional_id": "~t", "producer_id": 7, "producer_epoch": 0, "verify_only": rng.random() < 0.5}
        body["transactions"] = [one | {"topics": [{"name": "~a", "partitions": [0]}]}]


def _mark_once(body: dict[str, Any], rng: random.Random) -> None:
    """Kafka does not always answer if a marker has no partitions, or if markers are of the same producer."""
    commit = {"producer_id": "$producer_id.1", "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0}
    body["markers"] = body["markers"][:1] or [commit | {"topics": []}]
    for marker in body["markers"]:
        marker["topics"] = _first_of_each(marker["topics"], "name") or [{"name": "~a", "partition_indexes": [0]}]
        for topic in marker["topics"]:
            topic["partition_indexes"] = sorted(set(topic["partition_indexes"])) or [rng.choice((0, 1))]


REPAIRS: dict[str, Callable[[dict[str, Any], random.Random], None]] = {
    "Produce": _one_entry_each("topic_data", "partition_data", "index"),
    "Fetch": _one_entry_each("topics", "partitions", "partition"),
    "ListOffsets": _one_entry_each("topics", "partitions", "partition_index"),
    "TxnOffsetCommit": _one_entry_each("topics", "partitions", "partition_index"),
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
    "AddRaftVoter": _listen_once,
    "AddPartitionsToTxn": _name_transactions,
    "WriteTxnMarkers": _mark_once,
}


BROKERS_OF_PARTITIONS = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2], [2, 3], [3, 1], [1], [2], [3]]
TOPICS_THAT_GROW = ["~d", "~e"]
WRONG_BROKERS = [[], [1, 1], [4], [2, -1], [2, 4]]


def _brokers(rng: random.Random) -> list[int]:
    return list(rng.choice(BROKERS_OF_PARTITIONS if rng.random() < 0.9 else WRONG_BROKERS))


def _assign(body: dict[str, Any], rng: random.Random) -> None:
    """Names the brokers of each partition: where they are is up to the controller otherwise."""
    body["topics"] = _first_of_each(body["topics"], "name")
    for topic in body["topics"]:
        size = len(rng.choice(BROKERS_OF_PARTITIONS))
        topic["assignments"] = [
            {"partition_index": index, "broker_ids": _sized(rng, size)} for index in range(rng.choice((1, 1, 2, 3)))
        ]
        topic["configs"] = []


def _sized(rng: random.Random, size: int) -> list[int]:
    """Mostly of this size, since the partitions of a topic have equally many replicas at first."""
    fitting = [brokers for brokers in BROKERS_OF_PARTITIONS if len(brokers) == size]
    return list(rng.choice(fitting)) if rng.random() < 0.95 else _brokers(rng)


def _assign_new(body: dict[str, Any], rng: random.Random) -> None:
    """The topics are those that are never reassigned: which of several numbers of replicas counts differs
    (DECISIONS 25)."""
    body["topics"] = body["topics"][:1]
    for topic in body["topics"]:
        topic["name"] = rng.choice(TOPICS_THAT_GROW)
        topic["count"] = rng.choice((1, 2, 3, 4))
        new = rng.choice((1, 1, 2))
        topic["assignments"] = [{"broker_ids": _sized(rng, 3)} for _ in range(new)]


def _reassign(body: dict[str, Any], rng: random.Random) -> None:
    some = _first_of_each(body["topics"] or [], "name")
    body["topics"] = [topic for topic in some if topic["name"] not in TOPICS_THAT_GROW]
    for topic in body["topics"]:
        topic["partitions"] = _first_of_each(topic["partitions"], "partition_index")
        for partition in topic["partitions"]:
            partition["replicas"] = None if rng.random() < 0.1 else _brokers(rng)


def _elect(body: dict[str, Any], _: random.Random) -> None:
    body["topic_partitions"] = _first_of_each(body["topic_partitions"] or [{"topic": "~a", "partitions": [0]}], "topic")
    for topic in body["topic_partitions"]:
        topic["partitions"] = sorted(set(topic["partitions"]))


def _set_least_in_sync(body: dict[str, Any], _: random.Random) -> None:
    """The only config that concerns replicas."""
    for resource in body["resources"]:
        resource["resource_type"], names = 2, resource.get("configs", [])
        for config in names:
            config["name"], config["config_operation"] = "min.insync.replicas", 0
        if "configs" in resource:
            resource["configs"] = names[:1]
    body["resources"] = _first_of_each(body["resources"], "resource_name")


def _list(body: dict[str, Any], _: random.Random) -> None:
    body["topics"] = _first_of_each(body["topics"] or [{"name": "~a", "partition_indexes": [0]}], "name")


def _alter_at_controller(body: dict[str, Any], rng: random.Random) -> None:
    """Kafka's controller accepts all values for brokers, which minikafka checks (DECISIONS 25), steps down if null is
    appended to a list, and takes a logger twice."""
    for resource in body["resources"]:
        if resource["resource_type"] == 8:
            resource["configs"] = resource["configs"][:1]
        for config in resource["configs"]:
            if resource["resource_type"] == 4:
                config["name"], config["value"] = rng.choice(VALID_OF_BROKERS)
                if config.get("config_operation", 0) > 1:
                    config["config_operation"] = rng.choice((0, 1))
            elif config.get("config_operation", 0) > 1:
                config["value"] = config["value"] or "x"


def _alter_known(body: dict[str, Any], _: random.Random) -> None:
    """Kafka's broker does not answer an AlterConfigs that has nothing to forward."""
    for resource in body["resources"]:
        if resource["resource_type"] not in (2, 4, 16, 32):
            resource["resource_type"], resource["resource_name"] = 16, "~g"
    body["resources"] = _first_of_each(body["resources"], "resource_type", "resource_name")


VALID_OF_BROKERS = [("log.cleaner.threads", "2"), ("compression.type", "gzip"), ("log.retention.ms", "-1"), ("x", "")]
REPAIRS_OF_AREAS: dict[str, dict[str, Callable[[dict[str, Any], random.Random], None]]] = {
    REPLICAS: {
        "CreateTopics": _assign,
        "CreatePartitions": _assign_new,
        "AlterPartitionReassignments": _reassign,
        "ListPartitionReassignments": _list,
        "ElectLeaders": _elect,
        "IncrementalAlterConfigs": _set_least_in_sync,
        "DescribeConfigs": _set_least_in_sync,
    },
    RESOURCES: {"AlterConfigs": _alter_known},
    CONTROLLER: {"AlterConfigs": _alter_at_controller, "IncrementalAlterConfigs": _alter_at_controller},
}
