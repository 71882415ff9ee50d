"""ReplicaFetcher and its connection: whom it fetches from, when it disconnects, and an unreachable leader."""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import trio
import trio.testing
from structlog.testing import capture_logs
from support.images import broker, cluster

from minikafka.broker.partitions.partition import Partition
from minikafka.broker.replication.replica_fetcher import ReplicaFetcherManager
from minikafka.broker.settings.node_config import load_config
from minikafka.client.connections.seams import Seams
from minikafka.client.connections.stream import Receiver
from minikafka.controller.metadata.image import PartitionState
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import SaslAuthenticationFailedError
from minikafka.protocol.headers import parse_request_header, response_parts
from minikafka.protocol.message import decode
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from minikafka.protocol.messages.fetch import FetchRequest, FetchResponse
from minikafka.protocol.names import TopicPartition
from minikafka.storage import Log, LogConfig, MemoryDisk
from minikafka.storage.logs.log_context import Checkpointed, LogContext

NODE, LEADER = 1, 2
API_VERSIONS, FETCH = 18, 1


class Broker:
    """A leader at the other end: it notes what it is asked, and answers a fetch when the test says so.

    Attributes:
        connections: When each was made, on trio's clock.
        fetches: (connection number, request) of each.
        answers: What to say to the next fetches; a fetch without one waits for ever.
        refuses, distrusts: Whether nobody listens there, or whether logins fail.
    """

    def __init__(self) -> None:
        self.connections: list[float] = []
        self.fetches: list[tuple[int, FetchRequest]] = []
        self.answers: list[FetchResponse] = []
        self.refuses = False
        self.distrusts = False

    async def open_stream(self, host: str, port: int, receiver: Receiver, task_group: Any) -> "Wire":
        if self.distrusts:
            raise SaslAuthenticationFailedError("leader refused SCRAM-SHA-512 for user 'broker'")
        if self.refuses:
            raise ConnectionRefusedError("nobody listens")
        self.connections.append(trio.current_time())
        return Wire(self, len(self.connections), receiver)


class Wire:
    """One connection; answers come at once."""

    is_full = False

    def __init__(self, leader: Broker, number: int, receiver: Receiver) -> None:
        self._leader = leader
        self._number = number
        self._receiver = receiver

    def write(self, data: bytes) -> None:
        header, body = parse_request_header(bytearray(data[4:]))
        if header.api_key == API_VERSIONS:
            offered = [ApiVersion(api_key=FETCH, min_version=4, max_version=18)]
            self._reply(ApiVersionsResponse(api_keys=offered), header)
            return
        self._leader.fetches.append((self._number, decode(FetchRequest, header.api_version, data[4:], body)))
        if self._leader.answers:
            self._reply(self._leader.answers.pop(0), header)

    def _reply(self, response: Any, header: Any) -> None:
        frame = b"".join(response_parts(response, header.api_version, header.correlation_id))
        self._receiver.on_frame(bytearray(frame[4:]))

    def close(self) -> None:
        self._receiver.on_lost("closed")


def partition(index: int = 0) -> Partition:
    name = TopicPartition("t", index)
    log = Log.open(LogContext(MemoryDisk(), lambda: 0), f"/data/t-{index}", name, LogConfig(), Checkpointed(clean=True))
    made = Partition(NODE, b"topic-id-of-16-b", name, log)
    made.become(PartitionState(LEADER, 3, 0, (LEADER, NODE), (LEADER, NODE)))
    return made


Story = Callable[[Broker, ReplicaFetcherManager], Awaitable[None]]


def play(story: Story, *, broker_epoch: Callable[[], int] = lambda: 7) -> Broker:
    leader = Broker()

    async def main() -> None:
        config = load_config(settings={"node.id": str(NODE)})
        image = cluster(broker(NODE), broker(LEADER))
        seams = Seams(random=Random(1), open_stream=leader.open_stream)
        replication = ReplicaFetcherManager(config, image, broker_epoch, seams)
        async with trio.open_nursery() as nursery:
            await nursery.start(replication.run)
            await story(leader, replication)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return leader


def test_a_partition_added_during_a_waiting_fetch_is_fetched_at_once() -> None:
    async def story(leader: Broker, replication: ReplicaFetcherManager) -> None:
        replication.follow(partition(0))
        await trio.testing.wait_all_tasks_blocked()
        replication.follow(partition(1))
        await trio.sleep(0.05)

    leader = play(story)
    assert [number for number, _ in leader.fetches] == [1, 2]
    assert [one.partition for one in leader.fetches[1][1].topics[0].partitions] == [0, 1]


def test_partitions_added_in_a_row_cause_few_connections() -> None:
    async def story(leader: Broker, replication: ReplicaFetcherManager) -> None:
        for index in range(20):
            replication.follow(partition(index))
            await trio.sleep(0.01)
        await trio.sleep(0.2)

    leader = play(story)
    assert len(leader.connections) <= 4
    assert len(leader.fetches[-1][1].topics[0].partitions) == 20


def test_a_partition_whose_log_is_offline_can_be_unfollowed_after_the_others() -> None:
    async def story(leader: Broker, replication: ReplicaFetcherManager) -> None:
        offline, other, third = partition(0), partition(1), partition(2)
        replication.follow(offline)
        replication.follow(other)
        await trio.testing.wait_all_tasks_blocked()
        offline.log.fail(OSError("the disk has failed"))
        (fetcher,) = replication._fetchers.values()
        (state,) = (one for one in fetcher.state.partitions.values() if one.partition is offline)
        fetcher.state.delay(state, 0, offline.log.guard.offline())
        replication.unfollow(other)
        replication.follow(third)
        replication.unfollow(offline)
        assert [one.leader_id for one in replication._fetchers.values()] == [LEADER], "that of the third partition"

    play(story)


def test_nothing_is_fetched_before_registration() -> None:
    async def story(leader: Broker, replication: ReplicaFetcherManager) -> None:
        replication.follow(partition())
        await trio.sleep(1)

    epochs = iter([-1] * 20)
    leader = play(story, broker_epoch=lambda: next(epochs, 9))
    assert leader.fetches[0][1].replica_state.replica_epoch == 9


def test_an_unreachable_leader_is_retried_and_recently_lost_for_a_while() -> None:
    async def story(leader: Broker, replication: ReplicaFetcherManager) -> None:
        leader.refuses = True
        replication.follow(partition())
        await trio.testing.wait_all_tasks_blocked()
        assert replication.recently_lost(LEADER)
        await trio.sleep(3)
        assert not replication.recently_lost(LEADER), "now the controller's view counts"
        leader.refuses = False
        replication.broker_changed(LEADER)
        began = trio.current_time()
        await trio.testing.wait_all_tasks_blocked()
        assert leader.connections == [began], "at once"

    play(story)


def test_a_refused_login_is_a_warning_that_is_repeated_ever_more_rarely() -> None:
    """Also if the leader was only away at first."""

    async def story(leader: Broker, replication: ReplicaFetcherManager) -> None:
        with capture_logs() as lines:
            leader.refuses = True
            replication.follow(partition())
            await trio.testing.wait_all_tasks_blocked()
            leader.distrusts = True
            await trio.sleep(60)
        said = [(one["log_level"], one["event"], one.get("failures")) for one in lines if one.get("leader") == LEADER]
        assert said[0] == ("info", "leader unreachable", None)
        refused = [failures for *kind, failures in said if kind == ["warning", "leader refuses this node"]]
        assert refused[:4] == [2, 4, 8, 16]
        assert len(said) == len(refused) + 1 <= 8
        assert all("user 'broker'" in one["error"] for one in lines if one.get("failures"))

    play(story)


def test_a_request_level_error_only_closes_the_connection() -> None:
    async def story(leader: Broker, replication: ReplicaFetcherManager) -> None:
        leader.answers = [FetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)]
        replication.follow(partition())
        await trio.sleep(0.5)

    assert [number for number, _ in play(story).fetches] == [1, 2]


def test_partitions_no_longer_followed_are_not_fetched() -> None:
    async def story(leader: Broker, replication: ReplicaFetcherManager) -> None:
        followed = partition()
        replication.follow(followed)
        await trio.testing.wait_all_tasks_blocked()
        replication.unfollow(followed)
        await trio.sleep(2)
        assert not replication.recently_lost(LEADER)

    assert len(play(story).fetches) == 1
