"""Waiting requests in groups: one read for all, their deadlines, their ends, and requests that need a task."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from minikafka.broker.connections.long_polls import ENDED_GROUPS_MAX, LongPoll, LongPolls, Parked
from minikafka.broker.partitions.request_waiters import GrowthSignal
from minikafka.protocol.errors import NotLeaderOrFollowerError


class Client:
    """A connection whose request waits."""

    def __init__(self) -> None:
        self.delivered: list[bytes | None] = []

    def deliver(self, parts: list[Any] | None) -> None:
        self.delivered.append(None if parts is None else b"".join(parts))


class Partition:
    """What requests wait for; `again` tells how often it was read."""

    def __init__(self) -> None:
        self.grown = GrowthSignal()
        self.size_bytes = 0
        self.reads: list[bool] = []
        self.responses = 0
        self.error: Exception | None = None
        self.usual = True

    def poll(self, *, min_bytes: int = 1, wait_s: float = 5) -> LongPoll:
        def again(in_time: bool) -> Any:
            self.reads.append(in_time)
            if self.error is not None:
                raise self.error
            if not self.usual:
                return None
            if in_time and self.size_bytes < min_bytes:
                return LongPoll([self.grown], min_bytes - self.size_bytes, wait_s, again, self.sent)
            return f"{self.size_bytes} bytes"

        return LongPoll([self.grown], min_bytes - self.size_bytes, wait_s, again, self.sent)

    def sent(self, times: int) -> None:
        self.responses += times

    def grow(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        self.grown.grew(size_bytes)

    @property
    def is_watched(self) -> bool:
        return bool(self.grown._waiters)


def frame(correlation_id: int, body: bytes = b"the rest") -> bytearray:
    return bytearray(b"\0\1\0\x0c" + correlation_id.to_bytes(4, "big") + body)


def response(correlation_id: int, text: str) -> bytes:
    return b"size" + correlation_id.to_bytes(4, "big") + text.encode()


def encode(text: str) -> list[Any]:
    return [b"size\0\0\0\0" + text.encode()]


@asynccontextmanager
async def running() -> AsyncIterator[LongPolls]:
    polls = LongPolls()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(polls.run)
        await trio.testing.wait_all_tasks_blocked()
        yield polls
        nursery.cancel_scope.cancel()


def in_trio(story: Callable[[], Awaitable[None]]) -> None:
    trio.run(story, clock=trio.testing.MockClock(autojump_threshold=0))


def wait_together(polls: LongPolls, partition: Partition, clients: list[Client], **options: Any) -> list[Parked]:
    first, *others = clients
    parked = [polls.park(frame(0), first, partition.poll(**options), encode)]
    for number, client in enumerate(others, 1):
        joined = polls.join(frame(number), client)
        assert joined is not None
        parked.append(joined)
    return parked


def test_equal_requests_are_answered_by_one_read() -> None:
    async def story() -> None:
        async with running() as polls:
            partition, clients = Partition(), [Client() for _ in range(5)]
            wait_together(polls, partition, clients)
            assert polls.join(frame(9, b"another"), Client()) is None
            partition.grow(10)
            assert not clients[0].delivered, "delivered while the partition changes"
            assert polls.join(frame(9), Client()) is None, "joined a group that is being answered"
            await trio.testing.wait_all_tasks_blocked()
            assert [client.delivered for client in clients] == [[response(number, "10 bytes")] for number in range(5)]
            assert partition.reads == [True]
            assert not partition.is_watched

    in_trio(story)


def test_a_group_waits_until_enough_has_come() -> None:
    async def story() -> None:
        async with running() as polls:
            partition, clients = Partition(), [Client(), Client()]
            wait_together(polls, partition, clients, min_bytes=100)
            partition.grow(50)
            await trio.testing.wait_all_tasks_blocked()
            assert partition.reads == []
            partition.grown.grew(60)  # of which a part is not to be read yet
            await trio.testing.wait_all_tasks_blocked()
            assert partition.reads == [True]
            late = Client()
            assert polls.join(frame(2), late) is not None
            partition.grow(50)
            await trio.testing.wait_all_tasks_blocked()
            for number, client in enumerate([*clients, late]):
                assert client.delivered == [response(number, "100 bytes")]

    in_trio(story)


def test_each_request_is_answered_at_its_own_deadline() -> None:
    async def story() -> None:
        async with running() as polls:
            partition, clients = Partition(), [Client(), Client()]
            other, long_before = Partition(), Client()
            polls.park(frame(7, b"other"), long_before, other.poll(wait_s=100), encode)
            polls.park(frame(0), clients[0], partition.poll(wait_s=5), encode)
            await trio.sleep(2)
            assert polls.join(frame(1), clients[1]) is not None
            await trio.sleep(2.9)
            assert not clients[0].delivered
            await trio.sleep(0.2)
            assert clients[0].delivered == [response(0, "0 bytes")]
            assert not clients[1].delivered
            await trio.sleep(2)
            assert clients[1].delivered == [response(1, "0 bytes")]
            assert partition.reads == [False, False]
            assert not partition.is_watched
            assert not long_before.delivered
            assert other.is_watched

    in_trio(story)


class Steps(trio.abc.Instrument):
    """Counts the steps of the task that answers at deadlines."""

    def __init__(self) -> None:
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += "_expire" in task.name


def test_the_deadlines_of_requests_that_were_answered_wake_nobody() -> None:
    steps = Steps()

    async def story() -> None:
        async with running() as polls:
            partition, clients = Partition(), [Client() for _ in range(20)]
            for number, client in enumerate(clients):
                polls.park(frame(0, bytes([number])), client, partition.poll(wait_s=5 + number), encode)
            last = Client()
            polls.park(frame(0, b"last"), last, partition.poll(min_bytes=100, wait_s=100), encode)
            partition.grow(10)
            await trio.testing.wait_all_tasks_blocked()
            assert all(client.delivered for client in clients)
            before = steps.count
            await trio.sleep(90)
            assert steps.count - before == 1, "that of the first deadline"
            assert not last.delivered
            await trio.sleep(20)
            assert last.delivered

    trio.run(story, clock=trio.testing.MockClock(autojump_threshold=0), instruments=[steps])


def test_a_group_that_waits_on_keeps_its_deadline() -> None:
    async def story() -> None:
        async with running() as polls:
            partition, client = Partition(), Client()
            polls.park(frame(0), client, partition.poll(min_bytes=10, wait_s=5), encode)
            await trio.sleep(3)
            partition.grown.grew(10)
            await trio.sleep(1.9)
            assert not client.delivered
            await trio.sleep(0.2)
            assert client.delivered == [response(0, "0 bytes")]

    in_trio(story)


def test_a_request_with_another_response_than_the_usual_one_is_left_to_its_task() -> None:
    async def story() -> None:
        async with running() as polls:
            for failure in (NotLeaderOrFollowerError("gone"), ZeroDivisionError(), None):
                partition, clients = Partition(), [Client(), Client()]
                wait_together(polls, partition, clients)
                partition.error, partition.usual = failure, False
                partition.grown.wake()
                await trio.testing.wait_all_tasks_blocked()
                assert [client.delivered for client in clients] == [[None], [None]]
                assert not partition.is_watched

    in_trio(story)


def test_what_is_withdrawn_leaves_nothing_behind() -> None:
    async def story() -> None:
        async with running() as polls:
            partition, clients = Partition(), [Client(), Client(), Client()]
            one, two, three = wait_together(polls, partition, clients)
            one.withdraw()
            assert partition.is_watched
            partition.grow(1)
            two.withdraw()  # before the responses are sent
            await trio.testing.wait_all_tasks_blocked()
            assert [client.delivered for client in clients] == [[], [], [response(2, "1 bytes")]]
            three.withdraw()
            alone = polls.park(frame(0), clients[0], Partition().poll(), encode)
            alone.withdraw()
            for number in range(10 * ENDED_GROUPS_MAX):
                polls.park(frame(0, bytes(number)), clients[0], partition.poll(min_bytes=9), encode).withdraw()
            assert not partition.is_watched
            assert not polls._groups
            assert len(polls._deadlines) <= ENDED_GROUPS_MAX + 1

    in_trio(story)
