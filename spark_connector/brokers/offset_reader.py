"""Reads metadata and offsets from the brokers, and commits offsets. Blocking, with retries.

Each process keeps one `OffsetReader` per set of Kafka options (`offset_reader_for`): a Spark worker runs one task after
another and reuses its connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from minikafka.client.connections.cluster_metadata import Metadata
from minikafka.client.option_checks import parse_addresses
from minikafka.protocol.errors import (
    KafkaError,
    LeaderNotAvailableError,
    NetworkError,
    RequestTimedOutError,
    UnknownTopicOrPartitionError,
    error_for,
)
from minikafka.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.brokers import sockets
from minikafka.spark_connector.brokers.refusals import refusal
from minikafka.spark_connector.brokers.waiting import waiting
from minikafka.spark_connector.options.offsets import EARLIEST, LATEST
from minikafka.spark_connector.options.source_options import KafkaOptions

T = TypeVar("T")
GROUP, TRANSACTION = 0, 1
"""The types of coordinators in FindCoordinator requests."""
_NO_OFFSET = -1
"""The offset in a response if no record is at or after the requested timestamp."""
_TOPIC_RESOURCE = 2
_PAUSE_S, _PAUSE_MAX_S = 0.05, 1.0
_OFFSET_COMMIT_VERSION_MAX = 9
"""Later versions identify topics by id."""
_COORDINATOR_KEYS_VERSION = 4
_COORDINATORS_MAX = 1000
_READERS: dict[tuple[int, KafkaOptions], OffsetReader] = {}


class PartitionGone(UnknownTopicOrPartitionError):
    """New metadata do not have a partition whose offset is looked up: it was deleted, or the broker is behind.

    The caller decides how often to ask again (`fetchOffset.numRetries`).
    """

    @property
    def retriable(self) -> bool:
        return False


def offset_reader_for(options: KafkaOptions) -> OffsetReader:
    """Returns the reader of this process for these options."""
    key = (sockets.process_id(), options)
    if key not in _READERS:
        _READERS.clear()
        _READERS[key] = OffsetReader(options)
    return _READERS[key]


class OffsetReader:
    """Connections to the brokers of a cluster, its metadata, and requests with retries.

    Attributes:
        metadata: the metadata of the latest responses.
        request_count: the number of requests sent.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self.metadata = Metadata()
        self.request_count = 0
        self.options = options
        self._bootstrap = parse_addresses(options.bootstrap_servers)
        self._connections: dict[tuple[str, int], sockets.BrokerConnection] = {}
        self._lent: dict[str, sockets.BrokerConnection] = {}
        self._coordinators: dict[tuple[str, int], int] = {}
        self._failed: dict[str, None] = {}
        """The addresses whose last request or connection attempt failed, the latest last: others are asked first."""

    def close(self) -> None:
        """Closes all connections except those that are currently lent."""
        for connection in (*self._connections.values(), *self._lent.values()):
            connection.close()
        self._connections.clear()
        self._lent.clear()

    def retry(self, attempt: Callable[[], T], action: str, timeout_s: float | None = None) -> T:
        """Calls `attempt` until it succeeds, with exponential backoff. A long wait is logged as `action`.

        Raises the first error that is not retriable; RequestTimedOutError after the timeout, by default
        `kafka.default.api.timeout.ms`.
        """
        limit_s = self.options.api_timeout_s if timeout_s is None else timeout_s
        deadline, pause_s = sockets.now_s() + limit_s, _PAUSE_S
        last: KafkaError | None = None
        with waiting(action, lambda: str(last or "no response yet")):
            while True:
                try:
                    return attempt()
                except KafkaError as error:
                    if not error.retriable:
                        raise
                    if sockets.now_s() + pause_s >= deadline:
                        text = f"{action} did not succeed within {limit_s:.0f} s: {error}"
                        raise RequestTimedOutError(text) from error
                    last = error
                sockets.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def connection_to(self, node_id: int) -> sockets.BrokerConnection:
        """Returns a connection without outstanding responses. Raises LeaderNotAvailableError, NetworkError."""
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            raise LeaderNotAvailableError(f"broker {node_id} is not in the metadata")
        return self._open(broker.host, broker.port)

    def lend(self, node_id: int) -> sockets.BrokerConnection:
        """Returns a connection for the caller alone until `give_back`. Raises LeaderNotAvailableError, NetworkError."""
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            raise LeaderNotAvailableError(f"broker {node_id}, a partition's leader, is not in the metadata")
        existing = self._lent.pop(f"{broker.host}:{broker.port}", None)
        return self._connect(broker.host, broker.port) if existing is None else existing

    def give_back(self, connection: sockets.BrokerConnection) -> None:
        """Keeps a connection for the next `lend`, or closes it if a response is outstanding."""
        if connection.closed or connection.busy or connection.address in self._lent:
            connection.close()
        else:
            self._lent[connection.address] = connection

    def _open(self, host: str, port: int) -> sockets.BrokerConnection:
        existing = self._connections.get((host, port))
        if existing is not None and not existing.closed and not existing.busy:
            return existing
        if existing is not None:
            existing.close()
        address = f"{host}:{port}"
        self._failed.pop(address, None)
        try:
            self._connections[host, port] = self._connect(host, port)
        except NetworkError:
            self._failed[address] = None
            raise
        return self._connections[host, port]

    def _connect(self, host: str, port: int) -> sockets.BrokerConnection:
        options = self.options
        return sockets.BrokerConnection(
            host,
            port,
            client_id=options.client_id,
            timeout_s=options.request_timeout_s,
            security=options.security.connection_security(),
        )

    def _any_connection(self) -> sockets.BrokerConnection:
        known = [(one.host, one.port) for one in self.metadata.brokers.values()]
        errors: list[str] = []
        last_failed = {address: number for number, address in enumerate(self._failed, 1)}
        addresses = dict.fromkeys([*known, *self._bootstrap])
        for host, port in sorted(addresses, key=lambda one: last_failed.get(f"{one[0]}:{one[1]}", 0)):
            try:
                return self._open(host, port)
            except NetworkError as error:
                errors.append(error.message)
        raise NetworkError("; ".join(errors) + "; check kafka.bootstrap.servers")

    def request(self, message: Any, node_id: int | None = None, *, highest: int | None = None) -> Any:
        """Sends a request to a broker (`node_id` None: any broker), without retries. Raises KafkaError."""
        self.request_count += 1
        connection = self._any_connection() if node_id is None else self.connection_to(node_id)
        try:
            return connection.request(message, highest=highest)
        except NetworkError:
            self._failed.pop(connection.address, None)
            self._failed[connection.address] = None
            raise

    def refresh(self, topics: Iterable[str] | None, *, create: bool = False) -> None:
        """Fetches metadata of these topics (None: all topics), with retries.

        With `create`, brokers with auto.create.topics.enable create topics that do not exist, as for Java's producer.
        """
        names = None if topics is None else list(topics)

        def attempt() -> None:
            requested = None if names is None else [MetadataRequestTopic(name=name) for name in names]
            response = self.request(MetadataRequest(topics=requested, allow_auto_topic_creation=create))
            self.metadata.apply(response, names)

        self.retry(attempt, "fetching metadata")

    def list_offsets(
        self, requested: Mapping[TopicPartition, int], *, read_committed: bool = True, wait_for_gone: bool = True
    ) -> dict[TopicPartition, int]:
        """Returns the first offset of each partition at or after a timestamp in ms, -1 if there is none.

        EARLIEST is the log start offset; LATEST the last stable offset, or without `read_committed` the high watermark.

        Raises the leader's error if it is not retriable, otherwise RequestTimedOutError; without `wait_for_gone`,
        PartitionGone at the first metadata that lack one of the partitions.
        """
        found: dict[TopicPartition, int] = {}

        def attempt() -> None:
            missing = {tp: time for tp, time in requested.items() if tp not in found}
            try:
                for leader, times in self._by_leader(missing).items():
                    found.update(self._list_at(leader, times, int(read_committed)))
            except KafkaError:
                self.refresh({tp.topic for tp in requested})
                gone = next(filter(None, (self.metadata.missing(*tp) for tp in missing)), None)
                if gone is not None and not wait_for_gone:
                    raise PartitionGone(gone.message) from None
                raise

        self.retry(attempt, "looking up offsets")
        return {tp: found[tp] for tp in requested}

    def topic_config(self, topic: str, name: str) -> str:
        """Returns the value of a setting of a topic. Raises KafkaError."""
        resource = DescribeConfigsResource(
            resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=[name]
        )
        for result in self.request(DescribeConfigsRequest(resources=[resource])).results:
            if result.error_code:
                raise error_for(result.error_code, result.error_message or "")
            for one in result.configs:
                if one.name == name:
                    return str(one.value)
        raise NetworkError(f"a response lacks the setting {name} of topic {topic!r}")

    def _by_leader(self, requested: Mapping[TopicPartition, int]) -> dict[int, dict[TopicPartition, int]]:
        leaders: dict[int, dict[TopicPartition, int]] = {}
        for tp, time in requested.items():
            leader = self.metadata.leader(*tp)
            if leader < 0:
                raise self.metadata.missing(*tp) or LeaderNotAvailableError(f"{tp} has no leader")
            leaders.setdefault(leader, {})[tp] = time
        return leaders

    def _list_at(self, leader: int, times: Mapping[TopicPartition, int], isolation: int) -> dict[TopicPartition, int]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for tp, time in times.items():
            topics.setdefault(tp.topic, []).append(ListOffsetsPartition(partition_index=tp.partition, timestamp=time))
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsTopic(name=name, partitions=some) for name, some in topics.items()],
        )
        response = self.request(request, leader)
        found: dict[TopicPartition, int] = {}
        for topic in response.topics:
            for one in topic.partitions:
                tp = TopicPartition(topic.name, one.partition_index)
                if one.error_code:
                    raise error_for(one.error_code, f"{tp}: {error_for(one.error_code)}")
                found[tp] = one.offset
        for tp, time in times.items():
            if tp not in found:
                raise NetworkError(f"a response lacks the offset of {tp}")
            if found[tp] < (0 if time in (EARLIEST, LATEST) else _NO_OFFSET):
                raise NetworkError(f"a response names the offset {found[tp]} of {tp}, which cannot be")
        return found

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
        """Commits offsets to a group without members. Raises KafkaError."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for tp, offset in offsets.items():
            one = OffsetCommitRequestPartition(
                partition_index=tp.partition, committed_offset=offset, committed_metadata=metadata
            )
            topics.setdefault(tp.topic, []).append(one)
        request = OffsetCommitRequest(
            group_id=group_id,
            topics=[OffsetCommitRequestTopic(name=name, partitions=some) for name, some in topics.items()],
        )

        def attempt() -> None:
            response = self.request(request, self.coordinator(group_id), highest=_OFFSET_COMMIT_VERSION_MAX)
            for topic in response.topics:
                for one in topic.partitions:
                    if one.error_code:
                        raise error_for(one.error_code, f"committing offsets of {topic.name} to group {group_id!r}")

        self.retry(attempt, f"committing offsets to group {group_id!r}")

    def known_coordinator(self, key: str, key_type: int) -> int:
        """Returns the node id as `coordinator` does, but caches it until `forget_coordinators`."""
        if (key, key_type) not in self._coordinators:
            if len(self._coordinators) >= _COORDINATORS_MAX:
                self._coordinators.clear()
            self._coordinators[key, key_type] = self.coordinator(key, key_type)
        return self._coordinators[key, key_type]

    def forget_coordinators(self, key: str) -> None:
        """Removes the cached coordinators of a key, which may have moved, after an error."""
        for key_type in (GROUP, TRANSACTION):
            self._coordinators.pop((key, key_type), None)

    def coordinator(self, key: str, key_type: int = GROUP) -> int:
        """Returns the node id of the coordinator of a group or of a transactional id. Raises KafkaError."""
        request = FindCoordinatorRequest(key_type=key_type)
        if self._any_connection().version_for(FindCoordinatorRequest) >= _COORDINATOR_KEYS_VERSION:
            request.coordinator_keys = [key]
        else:
            request.key = key
        response = self.request(request)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            kind = "group" if key_type == GROUP else "transactional id"
            raise refusal(found.error_code, f"the coordinator of {kind} {key!r}", found.error_message)
        if found.node_id not in self.metadata.brokers:
            self.refresh([])
        return int(found.node_id)
