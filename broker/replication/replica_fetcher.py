"""The follower side of replication: a task and a connection per leader; handles unreachable leaders, and those whose
log begins or ends elsewhere.

    metadata ──follow / unfollow──► ReplicaFetcherManager ──► ReplicaFetcher of the leader ──Fetch──► leader
                                                                   └─ `follower_fetch_state.py`: requests and responses

The leader responds as soon as it has records, else after `replica.fetch.wait.max.ms`. A partition that is added while
a fetch waits at the leader must not wait for that fetch, which would slow down elections: the fetcher closes the
connection and begins a new session. Uses trio for the tasks. Source: Kafka's `ReplicaFetcherManager`,
`ReplicaFetcherThread`.
"""

from collections.abc import Callable, Iterator
from typing import Any

import structlog
import trio

from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.request_waiters import steady_ms
from minikafka.broker.replication.fetch_backoff import LeaderBackoff
from minikafka.broker.replication.follower_fetch_state import FetchSettings, FollowerFetchState, PartitionFetchState
from minikafka.broker.replication.replication_throttle import UNLIMITED, Throttle
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.client.connections.connection import Connection, open_connection
from minikafka.client.connections.seams import Seams
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import (
    AuthenticationError,
    KafkaError,
    NetworkError,
    OffsetOutOfRangeError,
    again,
    error_for,
)
from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.messages.fetch import FetchRequest, FetchResponse
from minikafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minikafka.protocol.settings.dataclass_fields import from_values
from minikafka.storage.steps import in_steps

log = structlog.get_logger("minikafka.replication")

LATEST, EARLIEST = -1, -2
REGISTRATION_CHECK_S = 0.02
DISCONNECT_INTERVAL_MIN_S = 0.1
"""Limits reconnections when many topics are created one after the other."""
ANSWER_GRACE_S = 0.005
CONNECTION_TIMEOUT_MS = 3_000
CONNECTION_LOST_S = 2
NEVER = float("-inf")


class ReplicaFetcherManager:
    """The replica fetchers of a node, one per leader.

    Args:
        config: The settings `replica.fetch.*`, and the inter-broker listener.
        image: The metadata, with the endpoints of the leaders.
        broker_epoch: Returns the epoch of this node's registration, -1 before. Nothing is fetched before the
            registration: with a fetch without a broker epoch, a replica could enter the ISR unchecked (KIP-903).
        seams: Clock, randomness and network of the connections.
        throttle: The limit for all fetchers together.
    """

    def __init__(
        self,
        config: NodeConfig,
        image: Image,
        broker_epoch: Callable[[], int],
        seams: Seams,
        throttle: Throttle = UNLIMITED,
    ) -> None:
        self._settings = from_values(FetchSettings, config.values, node_id=config.node_id)
        self._listener = config.listeners.inter_broker
        self._image = image
        self._broker_epoch = broker_epoch
        self._seams = seams
        self._throttle = throttle
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._fetcher_of: dict[Partition, ReplicaFetcher] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run all fetchers until cancelled."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for fetcher in self._fetchers.values():
                    nursery.start_soon(fetcher.run)
                task_status.started()
                await trio.sleep_forever()
        finally:
            self._nursery = None

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its current leader, if it has one."""
        self.unfollow(partition)
        leader_id = partition.leader_id
        if leader_id < 0:
            return
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            state = FollowerFetchState(self._settings, self._throttle)
            fetcher = ReplicaFetcher(
                leader_id, state, self._settings, self._endpoint, self._broker_epoch, self._seams
            )
            self._fetchers[leader_id] = fetcher
            if self._nursery is not None:
                self._nursery.start_soon(fetcher.run)
        self._fetcher_of[partition] = fetcher
        fetcher.add(partition)

    def unfollow(self, partition: Partition) -> None:
        """Stop fetching a partition: this node leads it or has no replica. Responses that are under way are dropped."""
        fetcher = self._fetcher_of.pop(partition, None)
        if fetcher is None:
            return
        fetcher.remove(partition)
        # The fetcher may have ended before: a partition whose log is offline is no longer in its state.
        if not fetcher.state.partitions and self._fetchers.get(fetcher.leader_id) is fetcher:
            fetcher.scope.cancel()
            del self._fetchers[fetcher.leader_id]

    def fetched(self) -> Iterator[tuple[int, PartitionFetchState]]:
        """Yield each fetched partition with the node id of the leader: (leader, state)."""
        for leader_id, fetcher in list(self._fetchers.items()):
            for state in list(fetcher.state.partitions.values()):
                yield leader_id, state

    def recently_lost(self, node_id: int) -> bool:
        """Whether the connection to a broker was lost in the last seconds and not restored.

        A lost connection is the first sign of a failed broker, some tenths of a second before the controller fences it.
        After `CONNECTION_LOST_S` the controller's view counts: it may be this node that is disconnected.
        """
        fetcher = self._fetchers.get(node_id)
        return fetcher is not None and trio.current_time() - fetcher.lost_at < CONNECTION_LOST_S

    def broker_changed(self, node_id: int) -> None:
        """Retry the connection to a broker now: the broker has registered or was unfenced."""
        fetcher = self._fetchers.get(node_id)
        if fetcher is not None:
            fetcher.retry_now()

    def _endpoint(self, node_id: int) -> tuple[str, int]:
        """Return a broker's inter-broker endpoint (host, port). Raises NetworkError."""
        broker = self._image.brokers.get(node_id)
        for name, host, port, _ in broker.endpoints if broker is not None else ():
            if name == self._listener:
                return host, port
        raise NetworkError(f"broker {node_id} has no listener {self._listener}")


class ReplicaFetcher:
    """Fetches all partitions that one broker leads.

    Attributes:
        state: The fetch session.
        scope: The scope to cancel in order to stop the fetcher.
        lost_at: When the connection was lost, on trio's clock; -inf while connected.
    """

    def __init__(
        self,
        leader_id: int,
        state: FollowerFetchState,
        settings: FetchSettings,
        endpoint: Callable[[int], tuple[str, int]],
        broker_epoch: Callable[[], int],
        seams: Seams,
    ) -> None:
        self.leader_id = leader_id
        self.state = state
        self.scope = trio.CancelScope()
        self._settings = settings
        self._endpoint = endpoint
        self._broker_epoch = broker_epoch
        self._seams = seams
        self._backoff = LeaderBackoff(settings.backoff_ms, seams.random)
        self.lost_at = NEVER
        self._wakeup = trio.Event()
        self._added = False
        self._disconnected_at = NEVER

    def add(self, partition: Partition) -> None:
        self.state.add(partition)
        self._added = True
        self._wakeup.set()

    def remove(self, partition: Partition) -> None:
        self.state.remove(partition)

    def retry_now(self) -> None:
        """Skip the remaining backoff."""
        self._backoff.reset()
        self._wakeup.set()

    async def run(self) -> None:
        """Fetch until `scope` is cancelled."""
        with self.scope:
            while True:
                try:
                    async with trio.open_nursery() as nursery:
                        await self._fetch_over_one_connection(nursery)
                        nursery.cancel_scope.cancel()
                except* (KafkaError, MalformedMessage) as group:
                    self._backoff.failed()
                    if self._backoff.failures == 1:
                        self.lost_at = trio.current_time()
                    self._report(group.exceptions[0])
                self.state.disconnected()
                if self._backoff.failures:
                    await self._wait_wakeup(trio.current_time() + self._backoff.delay_ms() / 1000)

    def _report(self, error: Exception) -> None:
        """Log the first failure in a row. A leader is often away for a moment; a refused login, which lasts until
        somebody mends it, is a warning, repeated ever more rarely."""
        failures = self._backoff.failures
        if isinstance(error, AuthenticationError):
            if failures.bit_count() == 1:
                log.warning("leader refuses this node", leader=self.leader_id, error=str(error), failures=failures)
        elif failures == 1:
            log.info("leader unreachable", leader=self.leader_id, error=str(error))

    async def _fetch_over_one_connection(self, nursery: trio.Nursery) -> None:
        """Fetch until a partition is added that would have to wait for a fetch. Raises NetworkError."""
        while self._broker_epoch() < 0:
            await trio.sleep(REGISTRATION_CHECK_S)
        host, port = self._endpoint(self.leader_id)
        connection = await open_connection(
            host,
            port,
            client_id=f"broker-{self._settings.node_id}-fetcher",
            seams=self._seams,
            task_group=nursery,
            timeout_ms=min(CONNECTION_TIMEOUT_MS, self._settings.timeout_ms),
            security=self._seams.security,
        )
        try:
            while await self._fetch(connection):
                self._backoff.reset()
                self.lost_at = NEVER
        finally:
            connection.close()

    async def _fetch(self, connection: Connection) -> bool:
        now_ms = await self._flush()
        due_ms = self.state.due_ms(now_ms)
        if due_ms is None or due_ms > 0:
            delay_ms = self._settings.wait_max_ms if due_ms is None else due_ms
            await self._wait_wakeup(trio.current_time() + delay_ms / 1000)
            return True
        self._added = False
        request = self.state.request(now_ms, self._broker_epoch())
        response = await self._response(connection, request)
        if response is None:
            return False
        outcome = await in_steps(self.state.handle_response(response, steady_ms()))
        for state in outcome.out_of_range:
            await self._handle_out_of_range(connection, state)
        return True

    async def _flush(self) -> int:
        """Flush the partitions that the next request may contain, as `flush.messages` requires.

        Partitions that cannot be flushed are delayed.

        Returns:
            The time in milliseconds at which all partitions due were flushed; the request must be made for this time.
        """
        while unflushed := self.state.unflushed(now_ms := steady_ms()):
            for state in unflushed:
                try:
                    await state.partition.flushed()
                except KafkaError as error:
                    self.state.delay(state, steady_ms(), error)
        return now_ms

    async def _response(self, connection: Connection, request: FetchRequest) -> FetchResponse | None:
        """Send a request and return the response; None if waiting would delay added partitions. Raises NetworkError."""
        replies: list[FetchResponse | KafkaError] = []

        def on_reply(reply: Any) -> None:
            replies.append(reply)
            self._wakeup.set()

        deadline = trio.current_time() + (request.max_wait_ms + self._settings.timeout_ms) / 1000
        connection.post(request, on_reply, deadline=deadline)
        while not replies:
            await self._wait_wakeup(deadline)
            if self._added and not replies:
                await self._wait_briefly(replies)
                if not replies:
                    self._disconnected_at = trio.current_time()
                    return None
            if trio.current_time() >= deadline and not replies:
                raise NetworkError(f"no response from {connection.address}")
        if isinstance(replies[0], KafkaError):
            raise again(replies[0])
        return replies[0]

    async def _wait_briefly(self, replies: list[FetchResponse | KafkaError]) -> None:
        """Give a response that is under way time to arrive, and limit how often the connection is closed."""
        now = trio.current_time()
        until = max(now + ANSWER_GRACE_S, self._disconnected_at + DISCONNECT_INTERVAL_MIN_S)
        while not replies and trio.current_time() < until:
            await self._wait_wakeup(until)

    async def _wait_wakeup(self, deadline: float) -> None:
        self._wakeup = trio.Event()
        with trio.move_on_at(deadline):
            await self._wakeup.wait()

    async def _handle_out_of_range(self, connection: Connection, state: PartitionFetchState) -> None:
        """Adapt the log of a partition whose next offset the leader does not have.

        If the leader's log ends before that offset, the leader was elected uncleanly and the records beyond are lost:
        truncate. If the leader's log starts after that offset, all records of this log are deleted there: restart at
        the leader's log start. Otherwise fetch again after a delay.
        """
        partition, epoch = state.partition, state.leader_epoch
        try:
            latest = await self._list_offset(connection, state, LATEST)
            if latest < partition.log.end_offset:
                partition.truncate_to(latest, leader_epoch=epoch)
                return
            earliest = await self._list_offset(connection, state, EARLIEST)
            if earliest > partition.log.end_offset:
                partition.truncate_fully_and_start_at(earliest, leader_epoch=epoch)
                return
            self.state.delay(state, steady_ms(), OffsetOutOfRangeError("the leader now has the offset"))
        except NetworkError:
            raise
        except KafkaError as error:
            if self.state.partitions.get(state.key) is state:
                self.state.delay(state, steady_ms(), error)

    async def _list_offset(self, connection: Connection, state: PartitionFetchState, timestamp: int) -> int:
        topic, index = state.partition.topic_partition
        requested = ListOffsetsPartition(
            partition_index=index, current_leader_epoch=state.leader_epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._settings.node_id, topics=[ListOffsetsTopic(name=topic, partitions=[requested])]
        )
        response = await connection.request(request, timeout_ms=self._settings.timeout_ms)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise error_for(answer.error_code, "ListOffsets request to the leader failed")
        return int(answer.offset)
