"""Followers at work: one task for each broker that leads partitions of this node, over one connection to it.

    metadata ──follow / leave──► Replication ──► Fetcher of the leader ──Fetch──► leader
                                                    └─ `copying.py` says what to ask and what to do with the answer

The leader answers as soon as it has something, and lets a fetch wait for at most `replica.fetch.wait.max.ms` else. A
partition that comes while a fetch is waiting must not wait with it, or an election would cost that much: the fetcher
hangs up and begins a new session. Trio is imported for the tasks.
"""

from collections.abc import Callable
from typing import Any

import structlog
import trio

from minikafka.broker.partitions.fetch_wait import steady_ms
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.replication.fetch_state import Copy, Copying, Settings
from minikafka.broker.replication.replication_throttle import UNLIMITED, Throttle
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.client.connections.connection import Connection, open_connection
from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.connections.seams import Seams
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import KafkaError, NetworkError, OffsetOutOfRangeError, error_for
from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.messages.fetch import FetchRequest, FetchResponse
from minikafka.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minikafka.protocol.settings.dataclass_fields import from_values

log = structlog.get_logger("minikafka.replication")

LATEST, EARLIEST = -1, -2
RECONNECT_MS = 20
REGISTRATION_CHECK_S = 0.02
HANG_UP_AT_MOST_EVERY_S = 0.1
"""However many topics are created one after the other."""
ANSWER_GRACE_S = 0.005
CONNECTION_TIMEOUT_MS = 3_000
LOST_LATELY_S = 2
NEVER = float("-inf")


class Replication:
    """All fetchers of a node.

    Args:
        config: For `replica.fetch.*` and the listener among brokers.
        image: Where the leaders are.
        broker_epoch: Of this node's registration, -1 before: nothing is fetched until then, since an unnamed
            incarnation would be let into the in-sync replicas unchecked (KIP-903).
        seams: Clock, randomness and network of the connections.
        throttle: For what all fetchers copy.
    """

    def __init__(
        self,
        config: NodeConfig,
        image: Image,
        broker_epoch: Callable[[], int],
        seams: Seams,
        throttle: Throttle = UNLIMITED,
    ) -> None:
        number = config.number
        self._settings = from_values(Settings, config.values, node_id=config.node_id)
        self._timeout_ms = number("replica.socket.timeout.ms")
        self._listener = config.listeners.inter_broker
        self._image = image
        self._broker_epoch = broker_epoch
        self._seams = seams
        self._throttle = throttle
        self._fetchers: dict[int, Fetcher] = {}
        self._of: dict[Partition, Fetcher] = {}
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Copy until cancelled."""
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
        """Copy a partition from its leader, as `become` has just told it; from nobody while there is none."""
        self.leave(partition)
        leader_id = partition.leader_id
        if leader_id < 0:
            return
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            copying = Copying(self._settings, self._throttle)
            fetcher = Fetcher(
                leader_id, copying, self._settings, self._endpoint, self._broker_epoch, self._seams, self._timeout_ms
            )
            self._fetchers[leader_id] = fetcher
            if self._nursery is not None:
                self._nursery.start_soon(fetcher.run)
        self._of[partition] = fetcher
        fetcher.add(partition)

    def leave(self, partition: Partition) -> None:
        """Copy it no longer: this node leads it, or has no replica any more. At once: nothing under way is applied."""
        fetcher = self._of.pop(partition, None)
        if fetcher is None:
            return
        fetcher.remove(partition)
        if not fetcher.copying.copies:
            fetcher.scope.cancel()
            del self._fetchers[fetcher.leader_id]

    def lost_lately(self, node_id: int) -> bool:
        """Whether the connection to a broker has just broken and could not be made again.

        It is the first sign that the broker is gone, some tenths of a second before the controller says so. Later the
        controller knows better: it may be this node that is cut off.
        """
        fetcher = self._fetchers.get(node_id)
        return fetcher is not None and trio.current_time() - fetcher.lost_at < LOST_LATELY_S

    def broker_changed(self, node_id: int) -> None:
        """A broker registered or came back: whoever could not reach it tries again now."""
        fetcher = self._fetchers.get(node_id)
        if fetcher is not None:
            fetcher.try_now()

    def _endpoint(self, node_id: int) -> tuple[str, int]:
        """Where a broker listens for other brokers. Raises NetworkError."""
        broker = self._image.brokers.get(node_id)
        for name, host, port, _ in broker.endpoints if broker is not None else ():
            if name == self._listener:
                return host, port
        raise NetworkError(f"broker {node_id} has no listener {self._listener}")


class Fetcher:
    """What copies all partitions that one broker leads.

    Attributes:
        copying: The questions and the answers.
        scope: Cancelled, the fetcher is done.
        lost_at: When the connection was lost, on trio's clock; long ago while there is one.
    """

    def __init__(
        self,
        leader_id: int,
        copying: Copying,
        settings: Settings,
        endpoint: Callable[[int], tuple[str, int]],
        broker_epoch: Callable[[], int],
        seams: Seams,
        timeout_ms: int,
    ) -> None:
        self.leader_id = leader_id
        self.copying = copying
        self.scope = trio.CancelScope()
        self._settings = settings
        self._endpoint = endpoint
        self._broker_epoch = broker_epoch
        self._seams = seams
        self._timeout_ms = timeout_ms
        self._backoff = Backoff(RECONNECT_MS, settings.backoff_ms, seams.random)
        self._failures = 0
        self.lost_at = NEVER
        self._news = trio.Event()
        self._wanted = False
        self._hung_up_at = NEVER

    def add(self, partition: Partition) -> None:
        self.copying.add(partition)
        self._wanted = True
        self._news.set()

    def remove(self, partition: Partition) -> None:
        self.copying.remove(partition)

    def try_now(self) -> None:
        """Do not sit out a pause."""
        self._failures = 0
        self._news.set()

    async def run(self) -> None:
        """Until `scope` is cancelled."""
        with self.scope:
            while True:
                try:
                    async with trio.open_nursery() as nursery:
                        await self._fetch_over_one_connection(nursery)
                        nursery.cancel_scope.cancel()
                except* (KafkaError, MalformedMessage) as group:
                    self._failures += 1
                    if self._failures == 1:
                        self.lost_at = trio.current_time()
                        reason = str(group.exceptions[0])
                        log.info("a leader cannot be reached", leader=self.leader_id, reason=reason)
                self.copying.disconnected()
                if self._failures:
                    await self._until_news(trio.current_time() + self._backoff.delay_ms(self._failures) / 1000)

    async def _fetch_over_one_connection(self, nursery: trio.Nursery) -> None:
        """Until there are partitions that a waiting fetch holds up. Raises NetworkError."""
        while self._broker_epoch() < 0:
            await trio.sleep(REGISTRATION_CHECK_S)
        host, port = self._endpoint(self.leader_id)
        connection = await open_connection(
            host,
            port,
            client_id=f"broker-{self._settings.node_id}-fetcher",
            seams=self._seams,
            task_group=nursery,
            timeout_ms=min(CONNECTION_TIMEOUT_MS, self._timeout_ms),
        )
        try:
            while await self._fetch(connection):
                self._failures, self.lost_at = 0, NEVER
        finally:
            connection.close()

    async def _fetch(self, connection: Connection) -> bool:
        due_ms = self.copying.due_ms(steady_ms())
        if due_ms is None or due_ms > 0:
            pause_ms = self._settings.wait_max_ms if due_ms is None else due_ms
            await self._until_news(trio.current_time() + pause_ms / 1000)
            return True
        self._wanted = False
        request = self.copying.request(steady_ms(), self._broker_epoch())
        response = await self._answer(connection, request)
        if response is None:
            return False
        outcome = self.copying.answered(response, steady_ms())
        for partition in outcome.flush:
            await partition.flushed()
        for copy in outcome.out_of_range:
            await self._find_place(connection, copy)
        return True

    async def _answer(self, connection: Connection, request: FetchRequest) -> FetchResponse | None:
        """The response; None if partitions came meanwhile that it would hold up. Raises NetworkError."""
        replies: list[FetchResponse | KafkaError] = []

        def on_reply(reply: Any) -> None:
            replies.append(reply)
            self._news.set()

        deadline = trio.current_time() + (request.max_wait_ms + self._timeout_ms) / 1000
        connection.post(request, on_reply, deadline=deadline)
        while not replies:
            await self._until_news(deadline)
            if self._wanted and not replies:
                await self._last_chance(replies)
                if not replies:
                    self._hung_up_at = trio.current_time()
                    return None
            if trio.current_time() >= deadline and not replies:
                raise NetworkError(f"no answer from {connection.address}")
        if isinstance(replies[0], KafkaError):
            raise replies[0]
        return replies[0]

    async def _last_chance(self, replies: list[FetchResponse | KafkaError]) -> None:
        """Under load the answer is on its way, and where topics come one after the other it should not be given up for
        each."""
        now = trio.current_time()
        until = max(now + ANSWER_GRACE_S, self._hung_up_at + HANG_UP_AT_MOST_EVERY_S)
        while not replies and trio.current_time() < until:
            await self._until_news(until)

    async def _until_news(self, deadline: float) -> None:
        self._news = trio.Event()
        with trio.move_on_at(deadline):
            await self._news.wait()

    async def _find_place(self, connection: Connection, copy: Copy) -> None:
        """The leader does not have the offset that comes next here.

        Its log ends before: it was elected uncleanly, and what is beyond is lost. Or it begins behind: everything here
        has been deleted there. Else the two will agree at the next fetch.
        """
        partition, epoch = copy.partition, copy.leader_epoch
        try:
            latest = await self._list_offset(connection, copy, LATEST)
            if latest < partition.log.end_offset:
                partition.truncate_to(latest, leader_epoch=epoch)
                return
            earliest = await self._list_offset(connection, copy, EARLIEST)
            if earliest > partition.log.end_offset:
                partition.start_anew_at(earliest, leader_epoch=epoch)
                return
            self.copying.pause(copy, steady_ms(), OffsetOutOfRangeError("the leader has the offset after all"))
        except NetworkError:
            raise
        except KafkaError as error:
            if self.copying.copies.get(copy.key) is copy:
                self.copying.pause(copy, steady_ms(), error)

    async def _list_offset(self, connection: Connection, copy: Copy, which: int) -> int:
        topic, index = copy.partition.topic_partition
        asked = ListOffsetsPartition(
            partition_index=index, current_leader_epoch=copy.leader_epoch, timestamp=which
        )
        request = ListOffsetsRequest(
            replica_id=self._settings.node_id, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
        )
        response = await connection.request(request, timeout_ms=self._timeout_ms)
        answer = response.topics[0].partitions[0]
        if answer.error_code:
            raise error_for(answer.error_code, "the leader could not say where its log begins and ends")
        return int(answer.offset)
