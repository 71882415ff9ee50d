"""The methods of `Admin` for topics: create, delete, list, describe, add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from minikafka.client.admin.admin_requests import ask_about, item_error, result_of
from minikafka.client.admin.admin_types import NewTopic
from minikafka.client.admin.item_errors import ask_each
from minikafka.client.argument_kinds import Int16, Int32
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.cluster_metadata import Metadata, Topic, missing_topics
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from minikafka.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

_FIRST_VERSION_WITH_STATES = 6


async def create_topic(
    admin: ClusterClient,
    name: str,
    *,
    partitions: Int32 = -1,
    replication_factor: Int16 = -1,
    assignments: Mapping[Int32, Sequence[Int32]] | None = None,
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> None:
    """Create a topic; -1 means the cluster's default.

    Raises TopicAlreadyExistsError, InvalidTopicError, InvalidPartitionsError, InvalidReplicationFactorError,
    InvalidConfigError …
    """
    topic = NewTopic(name, partitions, replication_factor, assignments, configs)
    _raise((await create_topics(admin, [topic], validate_only=validate_only))[name])


async def create_topics(
    admin: ClusterClient, topics: Iterable[NewTopic], *, validate_only: bool = False
) -> dict[str, KafkaError | None]:
    """Create several topics. Return, by topic name, None or the KafkaError."""
    wanted: dict[str, list[CreatableTopic]] = {}
    for topic in topics:
        wanted.setdefault(topic.name, []).append(_creatable(topic))

    async def ask(names: list[str]) -> dict[str, KafkaError | None]:
        request = CreateTopicsRequest(
            topics=[one for name in names for one in wanted[name]],
            timeout_ms=admin.cluster.request_timeout_ms,
            validate_only=validate_only,
        )
        response = await admin.cluster.request(request)
        return {one.name: item_error(one, f"topic {one.name!r}") for one in response.topics}

    return await ask_each(admin.cluster, wanted, ask, "creating topics")


async def delete_topic(admin: ClusterClient, name: str) -> None:
    """Delete a topic and its records. Raises UnknownTopicOrPartitionError …"""
    _raise((await delete_topics(admin, [name]))[name])


async def delete_topics(admin: ClusterClient, names: Iterable[str]) -> dict[str, KafkaError | None]:
    """Delete several topics. Return, by topic name, None or the KafkaError."""

    async def ask(names: list[str]) -> dict[str, KafkaError | None]:
        connection = await admin.cluster.any_connection()
        request = DeleteTopicsRequest(topic_names=names, timeout_ms=admin.cluster.request_timeout_ms)
        if connection.version_for(DeleteTopicsRequest) >= _FIRST_VERSION_WITH_STATES:
            request.topics = [DeleteTopicState(name=name) for name in names]
        response = await admin.cluster.request(request)
        return {one.name or "": item_error(one, f"topic {one.name!r}") for one in response.responses}

    return await ask_each(admin.cluster, names, ask, "deleting topics")


async def list_topics(admin: ClusterClient, *, include_internal: bool = False) -> list[str]:
    """The names of all topics, sorted; `include_internal` adds internal ones."""
    request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
    response = await ask_about(admin.cluster, request, "listing topics")
    return sorted(one.name for one in response.topics if one.name and (include_internal or not one.is_internal))


async def describe_topic(admin: ClusterClient, name: str) -> Topic:
    """Describe a topic: its id, partitions, leaders and replicas. Raises UnknownTopicOrPartitionError …"""
    described = (await describe_topics(admin, [name]))[name]
    if isinstance(described, KafkaError):
        raise described
    return described


async def describe_topics(admin: ClusterClient, names: Iterable[str] | None = None) -> dict[str, Topic | KafkaError]:
    """Describe several topics (None: all), from the metadata cache of whichever broker responds.

    A broker that is cut off from the controller may lack topics and partitions that other brokers know, as in
    Kafka.
    """
    if names is None:
        return await _describe(admin.cluster, None)
    return await ask_each(admin.cluster, names, partial(_describe, admin.cluster), "describing topics")


async def _describe(cluster: Cluster, names: list[str] | None) -> dict[str, Topic | KafkaError]:
    topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    metadata = Metadata()
    metadata.apply(await ask_about(cluster, request, "describing topics"), names)
    for name in names or ():
        if name not in metadata.topics:
            metadata.errors.setdefault(name, missing_topics([name]))
    return {**metadata.topics, **metadata.errors}


async def create_partitions(
    admin: ClusterClient, name: str, total: Int32, *, assignments: Sequence[Sequence[Int32]] | None = None
) -> None:
    """Increase a topic's number of partitions to `total`. Raises InvalidPartitionsError …"""
    placed = None
    if assignments is not None:
        placed = [CreatePartitionsAssignment(broker_ids=list(one)) for one in assignments]
    topic = CreatePartitionsTopic(name=name, count=total, assignments=placed)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=admin.cluster.request_timeout_ms)
    await result_of(admin.cluster, request, "creating partitions", f"topic {name!r}")


def _creatable(topic: NewTopic) -> CreatableTopic:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
        for index, replicas in (topic.assignments or {}).items()
    ]
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=assignments,
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in (topic.configs or {}).items()],
    )


def _raise(error: KafkaError | None) -> None:
    if error is not None:
        raise error
