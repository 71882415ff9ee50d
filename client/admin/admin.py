"""The admin client's public class: topics, configs, records, the cluster; inherits groups, replicas, transactions.

    async with Admin(bootstrap_servers="localhost:9092") as admin:
        await admin.create_topic("flights", partitions=6, configs={"retention.ms": "3600000"})

A method for a single resource raises its KafkaError. A method for several returns a result or a KafkaError for each, as
some may fail while others succeed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from minikafka.client.admin.admin_cluster import ClusterAdmin, resource_type
from minikafka.client.admin.admin_types import (
    ClusterDescription,
    ConfigEntry,
    ConfigSynonym,
    LogDirectory,
    NewTopic,
    ReplicaSize,
)
from minikafka.client.admin.item_errors import ask_each, ask_one
from minikafka.client.argument_checks import checks_arguments
from minikafka.client.argument_kinds import Int16, Int32
from minikafka.client.arguments import AdminArguments
from minikafka.client.connections.answers import answer_to
from minikafka.client.connections.cluster_metadata import Broker, Metadata, Topic, missing_topics
from minikafka.client.connections.seams import Seams
from minikafka.client.offset_queries import list_offsets, list_offsets_of_each
from minikafka.client.offsets import OffsetAndTimestamp
from minikafka.client.option_checks import DEFAULT_BOOTSTRAP_SERVERS, BootstrapServers
from minikafka.client.options import AdminOptions, IsolationLevel, make
from minikafka.protocol.errors import KafkaError, LeaderNotAvailableError, error_for
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
from minikafka.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest
from minikafka.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from minikafka.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from minikafka.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.names import TopicPartition

_OPERATIONS = {"set": 0, "delete": 1, "append": 2, "subtract": 3}
_RESOURCES_AT_ONCE = 1000
"""The number of resources in one request. minikafka's brokers close connections whose requests name over 10,000."""
_FIRST_VERSION_WITH_STATES = 6
_FIRST_VERSION_WITH_FENCED_BROKERS = 2


@checks_arguments()
class Admin(ClusterAdmin):
    """Manages topics, configs, groups and the cluster.

    Args:
        bootstrap_servers: "host1:9092,host2:9092", or a list of such addresses.
        options: Kafka's admin settings with underscores, each described in `AdminArguments`: request_timeout_ms …
        seams: clock, randomness and network, for tests.

    Every method retries after retriable errors for `default_api_timeout_ms`, then raises or returns them. An
    UnknownTopicOrPartitionError about a topic, and a broker's RequestTimedOutError, are raised or returned at once.
    Cancellation: a request that was sent is not withdrawn.
    """

    def __init__(
        self,
        bootstrap_servers: BootstrapServers = DEFAULT_BOOTSTRAP_SERVERS,
        *,
        seams: Seams | None = None,
        **options: Unpack[AdminArguments],
    ) -> None:
        self._options = make(AdminOptions, {**options, "bootstrap_servers": bootstrap_servers}, "Admin")
        super().__init__(self._options, seams)

    # Topics.

    async def create_topic(
        self,
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
        _raise((await self.create_topics([topic], validate_only=validate_only))[name])

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Create several topics. Return, by topic name, None or the KafkaError."""
        wanted: dict[str, list[CreatableTopic]] = {}
        for topic in topics:
            wanted.setdefault(topic.name, []).append(_creatable(topic))

        async def ask(names: list[str]) -> dict[str, KafkaError | None]:
            request = CreateTopicsRequest(
                topics=[one for name in names for one in wanted[name]],
                timeout_ms=self._options.request_timeout_ms,
                validate_only=validate_only,
            )
            response = await self.cluster.request(request)
            return {one.name: _error(one, f"topic {one.name!r}") for one in response.topics}

        return await ask_each(self.cluster, wanted, ask, "creating topics")

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and its records. Raises UnknownTopicOrPartitionError …"""
        _raise((await self.delete_topics([name]))[name])

    async def delete_topics(self, names: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete several topics. Return, by topic name, None or the KafkaError."""

        async def ask(names: list[str]) -> dict[str, KafkaError | None]:
            connection = await self.cluster.any_connection()
            request = DeleteTopicsRequest(topic_names=names, timeout_ms=self._options.request_timeout_ms)
            if connection.version_for(DeleteTopicsRequest) >= _FIRST_VERSION_WITH_STATES:
                request.topics = [DeleteTopicState(name=name) for name in names]
            response = await self.cluster.request(request)
            return {one.name or "": _error(one, f"topic {one.name!r}") for one in response.responses}

        return await ask_each(self.cluster, names, ask, "deleting topics")

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """The names of all topics, sorted; `include_internal` adds internal ones."""
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        response = await self._ask_about(request, "listing topics")
        return sorted(one.name for one in response.topics if include_internal or not one.is_internal)

    async def describe_topic(self, name: str) -> Topic:
        """Describe a topic: its id, partitions, leaders and replicas. Raises UnknownTopicOrPartitionError …"""
        described = (await self.describe_topics([name]))[name]
        if isinstance(described, KafkaError):
            raise described
        return described

    async def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, Topic | KafkaError]:
        """Describe several topics (None: all), from the metadata cache of whichever broker responds.

        A broker that is cut off from the controller may lack topics and partitions that other brokers know, as in
        Kafka.
        """
        if names is None:
            return await self._describe(None)
        return await ask_each(self.cluster, names, self._describe, "describing topics")

    async def _describe(self, names: list[str] | None) -> dict[str, Topic | KafkaError]:
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        metadata = Metadata()
        metadata.apply(await self._ask_about(request, "describing topics"), names)
        for name in names or ():
            if name not in metadata.topics:
                metadata.errors.setdefault(name, missing_topics([name]))
        return {**metadata.topics, **metadata.errors}

    async def create_partitions(
        self, name: str, total: Int32, *, assignments: Sequence[Sequence[Int32]] | None = None
    ) -> None:
        """Increase a topic's number of partitions to `total`. Raises InvalidPartitionsError …"""
        placed = None
        if assignments is not None:
            placed = [CreatePartitionsAssignment(broker_ids=list(one)) for one in assignments]
        topic = CreatePartitionsTopic(name=name, count=total, assignments=placed)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=self._options.request_timeout_ms)
        await self._result(request, "creating partitions", f"topic {name!r}")

    # Configs.

    async def describe_configs(
        self, kind: str, name: str, *, keys: Iterable[str] | None = None, synonyms: bool = False
    ) -> dict[str, ConfigEntry]:
        """The configs of a "topic", "broker" (name: its id, "" for the cluster-wide default) or "group".

        With `synonyms`, each config also lists all values set for it, by source.

        Raises KafkaError, and ValueError for an unknown kind.
        """
        request = _configs_request(kind, [name], keys, synonyms=synonyms)
        named = f"{kind} {name!r}"
        return _entries(await self._result(request, "describing configs", named, _node_of(kind, name)))

    async def describe_topic_configs(
        self, names: Iterable[str], *, keys: Iterable[str] | None = None
    ) -> dict[str, dict[str, ConfigEntry] | KafkaError]:
        """The configs of several topics, by requests for a thousand each."""
        found: dict[str, dict[str, ConfigEntry] | KafkaError] = {}
        rest, chosen = list(names), None if keys is None else list(keys)

        async def ask(some: list[str]) -> dict[str, dict[str, ConfigEntry] | KafkaError]:
            response = await self.cluster.request(_configs_request("topic", some, chosen, synonyms=False))
            return {
                one.resource_name: _error(one, f"topic {one.resource_name!r}") or _entries(one)
                for one in response.results
            }

        while rest:
            found |= await ask_each(self.cluster, rest[:_RESOURCES_AT_ONCE], ask, "describing configs")
            del rest[:_RESOURCES_AT_ONCE]
        return found

    async def alter_configs(
        self,
        kind: str,
        name: str,
        *,
        set: Mapping[str, str] | None = None,  # noqa: A002 (Kafka's word for it)
        delete: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Change some configs and keep the others (KIP-339); `delete` resets to the default.

        Raises InvalidConfigError …, and ValueError for an unknown kind.
        """
        changes: dict[str, Mapping[str, str | None]] = {
            "set": set or {},
            "delete": dict.fromkeys(delete),
            "append": append or {},
            "subtract": subtract or {},
        }
        configs = [
            AlterableConfig(name=key, config_operation=_OPERATIONS[operation], value=value)
            for operation, values in changes.items()
            for key, value in values.items()
        ]
        resource = AlterConfigsResource(resource_type=resource_type(kind), resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        await self._result(request, "altering configs", f"{kind} {name!r}", _node_of(kind, name))

    # Records and offsets.

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        """Delete records before an offset (-1: the high watermark); return each partition's new first offset."""
        offsets = {TopicPartition(*tp): offset for tp, offset in before.items()}

        async def ask(some: list[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
            return await self._delete_records({tp: offsets[tp] for tp in some})

        return await ask_each(self.cluster, offsets, ask, "deleting records", final=())

    async def _delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | KafkaError]:
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        await self._find_leaders(before)
        for tp, offset in before.items():
            by_leader.setdefault(self.cluster.metadata.leader(*tp), {})[tp] = offset
        results: dict[TopicPartition, int | KafkaError] = {}
        for leader, some in by_leader.items():
            topics: dict[str, DeleteRecordsTopic] = {}
            for tp, offset in some.items():
                topic = topics.setdefault(tp.topic, DeleteRecordsTopic(name=tp.topic, partitions=[]))
                topic.partitions.append(DeleteRecordsPartition(partition_index=tp.partition, offset=offset))
            request = DeleteRecordsRequest(
                topics=list(topics.values()), timeout_ms=self._options.request_timeout_ms
            )
            response = await self.cluster.request(request, leader)
            for topic in response.topics:
                for one in topic.partitions:
                    tp = TopicPartition(topic.name, one.partition_index)
                    results[tp] = _error(one, str(tp)) or one.low_watermark
        return results

    async def list_offsets(
        self, times: Mapping[TopicPartition, int], *, isolation_level: IsolationLevel = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The first offset at or after each time: ms since 1970, or LATEST, EARLIEST, MAX_TIMESTAMP.

        Raises the KafkaError of one partition. `list_offsets_of_each` returns the other partitions' offsets even then.
        """

        async def attempt() -> dict[TopicPartition, OffsetAndTimestamp]:
            return await list_offsets(
                self.cluster,
                {TopicPartition(*tp): time for tp, time in times.items()},
                isolation_level=int(isolation_level == "read_committed"),
                timeout_ms=self._options.request_timeout_ms,
            )

        return await self.cluster.retry(attempt, "listing offsets")

    async def list_offsets_of_each(
        self, times: Mapping[TopicPartition, int], *, isolation_level: IsolationLevel = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        """As `list_offsets`, but return the KafkaError of each partition that fails, like Kafka's `Admin.listOffsets`.

        A partition without a leader is asked for until `default_api_timeout_ms` has passed.
        """
        wanted = {TopicPartition(*tp): time for tp, time in times.items()}

        async def ask(some: list[TopicPartition]) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
            return await list_offsets_of_each(
                self.cluster,
                {tp: wanted[tp] for tp in some},
                isolation_level=int(isolation_level == "read_committed"),
                timeout_ms=self._options.request_timeout_ms,
            )

        try:
            return await ask_each(self.cluster, wanted, ask, "listing offsets", final=())
        except KafkaError as error:
            return dict.fromkeys(wanted, error)

    async def _find_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        if self.cluster.topics is not None:
            self.cluster.topics |= dict.fromkeys(tp.topic for tp in partitions)
        await self.cluster.refresh()
        for tp in partitions:
            if self.cluster.metadata.leader(*tp) < 0:
                raise self.cluster.metadata.errors.get(tp.topic) or LeaderNotAvailableError(
                    f"{tp} has no leader, or does not exist"
                )

    # The cluster.

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Describe the cluster: its id, controller and brokers; `include_fenced` adds fenced ones (Kafka 4.0)."""
        connection = await self.cluster.retry(self.cluster.any_connection, "describing the cluster")
        request = DescribeClusterRequest()
        if connection.version_for(DescribeClusterRequest) >= _FIRST_VERSION_WITH_FENCED_BROKERS:
            request.include_fenced_brokers = include_fenced
        response = await self._ask_about(request, "describing the cluster")
        brokers = [Broker(one.broker_id, one.host, one.port, one.rack) for one in response.brokers]
        fenced = frozenset(one.broker_id for one in response.brokers if one.is_fenced)
        return ClusterDescription(response.cluster_id, response.controller_id, brokers, fenced)

    async def describe_log_dirs(self, node_ids: Iterable[Int32] | None = None) -> dict[int, list[LogDirectory]]:
        """The log directories of brokers (None: all), with the size of each replica."""
        await self.cluster.retry(self.cluster.refresh, "finding brokers")
        chosen = sorted(self.cluster.metadata.brokers) if node_ids is None else list(node_ids)
        directories: dict[int, list[LogDirectory]] = {}
        for node_id in chosen:
            response = await self._ask_about(
                DescribeLogDirsRequest(topics=None), "describing log directories", node_id
            )
            directories[node_id] = [
                LogDirectory(
                    one.log_dir,
                    _error(one, one.log_dir),
                    one.total_bytes,
                    one.usable_bytes,
                    {
                        TopicPartition(topic.name, part.partition_index): ReplicaSize(
                            part.partition_size, part.offset_lag, part.is_future_key
                        )
                        for topic in one.topics
                        for part in topic.partitions
                    },
                )
                for one in response.results
            ]
        return directories

    async def _result(self, request: Any, what: str, named: str, node_id: int | None = None) -> Any:
        """The result for the single item of a request, `named`. Raises its KafkaError."""

        async def ask() -> Any:
            one = answer_to(request, await self.cluster.request(request, node_id))
            return _error(one, named) or one

        return await ask_one(self.cluster, ask, what)


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


def _configs_request(
    kind: str, names: Iterable[str], keys: Iterable[str] | None, *, synonyms: bool
) -> DescribeConfigsRequest:
    chosen = None if keys is None else list(keys)
    resources = [
        DescribeConfigsResource(resource_type=resource_type(kind), resource_name=name, configuration_keys=chosen)
        for name in names
    ]
    return DescribeConfigsRequest(resources=resources, include_synonyms=synonyms)


def _entries(result: Any) -> dict[str, ConfigEntry]:
    return {
        one.name: ConfigEntry(
            one.name,
            one.value,
            one.config_source,
            one.read_only,
            one.is_sensitive,
            tuple(ConfigSynonym(some.name, some.value, some.source) for some in one.synonyms),
        )
        for one in result.configs
    }


def _error(result: Any, what: str) -> KafkaError | None:
    """The KafkaError of a result, with the broker's error message if it has one."""
    if not result.error_code:
        return None
    message = getattr(result, "error_message", None)
    return error_for(result.error_code, f"{what}: {message or error_for(result.error_code)}")


def _raise(error: KafkaError | None) -> None:
    if error is not None:
        raise error


def _node_of(kind: str, name: str) -> int | None:
    """The broker to which a configs request is sent: the named broker for its own configs; else None, any broker."""
    is_number = name.isascii() and name.isdigit() and len(name) <= 10
    return int(name) if kind in ("broker", "broker-logger") and is_number else None
