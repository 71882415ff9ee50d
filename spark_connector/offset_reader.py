"""The cluster as the connector sees it: who leads what, where partitions begin and end. Blocking, with retries.

One `Cluster` per process and set of Kafka options (`cluster_for`), because workers run one task after another: the
next task finds its connections open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from minikafka.client.connections.cluster_metadata import Metadata
from minikafka.client.options import parse_addresses
from minikafka.protocol.errors import (
    BrokerNotAvailableError,
    KafkaError,
    LeaderNotAvailableError,
    NetworkError,
    RequestTimedOutError,
    error_for,
)
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
from minikafka.spark_connector import sockets
from minikafka.spark_connector.options import KafkaOptions

T = TypeVar("T")
EARLIEST, LATEST = -2, -1
_PAUSE_S, _PAUSE_MAX_S = 0.05, 1.0
_OFFSET_COMMIT_VERSION_MAX = 9
"""Later versions name topics by id."""
_FIND_BY_LIST = 4
_CLUSTERS: dict[tuple[int, KafkaOptions], Cluster] = {}


def cluster_for(options: KafkaOptions) -> Cluster:
    """This process's cluster for these options."""
    key = (sockets.process_id(), options)
    if key not in _CLUSTERS:
        _CLUSTERS.clear()
        _CLUSTERS[key] = Cluster(options)
    return _CLUSTERS[key]


class Cluster:
    """Connections and metadata.

    Attributes:
        metadata: what the last answers said.
        requests: how many requests were sent, for whoever watches the cost of being idle.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self.metadata = Metadata()
        self.requests = 0
        self.options = options
        self._bootstrap = parse_addresses(options.bootstrap_servers)
        self._wires: dict[tuple[str, int], sockets.Wire] = {}

    def close(self) -> None:
        """Hang up on everyone."""
        for one in self._wires.values():
            one.close()
        self._wires.clear()

    def retry(self, attempt: Callable[[], T], what: str, timeout_s: float | None = None) -> T:
        """`attempt` until it succeeds or fails for good, with growing pauses.

        Raises its last error: the first that is not retriable, or RequestTimedOutError past the time limit
        (`kafka.default.api.timeout.ms` by default).
        """
        limit_s = self.options.api_timeout_s if timeout_s is None else timeout_s
        deadline, pause_s = sockets.now_s() + limit_s, _PAUSE_S
        while True:
            try:
                return attempt()
            except KafkaError as error:
                if not error.retriable:
                    raise
                if sockets.now_s() + pause_s >= deadline:
                    raise RequestTimedOutError(f"{what} did not succeed within {limit_s:.0f} s: {error}") from error
            sockets.pause(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def wire_to(self, node_id: int) -> sockets.Wire:
        """A connection to a broker with nothing under way. Raises BrokerNotAvailableError, NetworkError."""
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            raise BrokerNotAvailableError(f"no broker with the id {node_id} is known")
        return self._open(broker.host, broker.port)

    def _open(self, host: str, port: int) -> sockets.Wire:
        known = self._wires.get((host, port))
        if known is not None and not known.closed and not known.busy:
            return known
        if known is not None:
            known.close()
        options = self.options
        self._wires[host, port] = sockets.Wire(
            host, port, client_id=options.client_id, timeout_s=options.request_timeout_s
        )
        return self._wires[host, port]

    def _any_wire(self) -> sockets.Wire:
        known = [(one.host, one.port) for one in self.metadata.brokers.values()]
        faults: list[str] = []
        for host, port in dict.fromkeys([*known, *self._bootstrap]):
            try:
                return self._open(host, port)
            except NetworkError as error:
                faults.append(error.message)
        raise NetworkError("; ".join(faults) + "; is a broker running there? (kafka.bootstrap.servers)")

    def ask(self, message: Any, node_id: int | None = None, *, highest: int | None = None) -> Any:
        """Ask a broker, any one for `node_id` None, once. Raises NetworkError and the like."""
        self.requests += 1
        one = self._any_wire() if node_id is None else self.wire_to(node_id)
        return one.request(message, highest=highest)

    def refresh(self, topics: Iterable[str] | None) -> None:
        """Ask for metadata of these topics, of all for None; with retries."""
        asked = None if topics is None else list(topics)

        def attempt() -> None:
            wanted = None if asked is None else [MetadataRequestTopic(name=name) for name in asked]
            response = self.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
            self.metadata.apply(response, asked)

        self.retry(attempt, "asking for metadata")

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, read_committed: bool = True
    ) -> dict[TopicPartition, int]:
        """The first offset at or after a time in ms (EARLIEST, LATEST: the ends of the log), -1 where there is none.

        LATEST means the last stable offset, or the high watermark for `read_committed` False.

        Raises what a leader says for good, RequestTimedOutError otherwise.
        """
        found: dict[TopicPartition, int] = {}

        def attempt() -> None:
            missing = {tp: time for tp, time in wanted.items() if tp not in found}
            try:
                for leader, times in self._by_leader(missing).items():
                    found.update(self._list_at(leader, times, int(read_committed)))
            except KafkaError:
                self.refresh({tp.topic for tp in wanted})
                raise

        self.retry(attempt, "looking up offsets")
        return {tp: found[tp] for tp in wanted}

    def _by_leader(self, wanted: Mapping[TopicPartition, int]) -> dict[int, dict[TopicPartition, int]]:
        leaders: dict[int, dict[TopicPartition, int]] = {}
        for tp, time in wanted.items():
            leader = self.metadata.leader(*tp)
            if leader < 0:
                raise LeaderNotAvailableError(f"{tp} has no leader now")
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
        response = self.ask(request, leader)
        found: dict[TopicPartition, int] = {}
        for topic in response.topics:
            for one in topic.partitions:
                tp = TopicPartition(topic.name, one.partition_index)
                if one.error_code:
                    raise error_for(one.error_code, f"{tp}: {error_for(one.error_code)}")
                found[tp] = one.offset
        return found

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Have a group without members remember offsets, for lag tools. Raises KafkaError."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for tp, offset in offsets.items():
            one = OffsetCommitRequestPartition(
                partition_index=tp.partition, committed_offset=offset, committed_metadata=""
            )
            topics.setdefault(tp.topic, []).append(one)
        request = OffsetCommitRequest(
            group_id=group_id,
            topics=[OffsetCommitRequestTopic(name=name, partitions=some) for name, some in topics.items()],
        )

        def attempt() -> None:
            response = self.ask(request, self._coordinator(group_id), highest=_OFFSET_COMMIT_VERSION_MAX)
            for topic in response.topics:
                for one in topic.partitions:
                    if one.error_code:
                        raise error_for(one.error_code, f"committing offsets of {topic.name} to group {group_id!r}")

        self.retry(attempt, f"committing offsets to group {group_id!r}")

    def _coordinator(self, group_id: str) -> int:
        request = FindCoordinatorRequest(key_type=0)
        if self._any_wire().version_for(FindCoordinatorRequest) >= _FIND_BY_LIST:
            request.coordinator_keys = [group_id]
        else:
            request.key = group_id
        response = self.ask(request)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code:
            raise error_for(found.error_code, found.error_message or "")
        if found.node_id not in self.metadata.brokers:
            self.refresh([])
        return int(found.node_id)
