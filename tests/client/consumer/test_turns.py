"""A loop over buffered records requests them: other tasks get a turn, the group and automatic commits know of it."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import trio
from support.group_members import fill
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer, TopicPartition, blocking
from minikafka.client.consumer.iteration import Iterations
from minikafka.protocol.messages.join_group import JoinGroupRequest
from minikafka.protocol.messages.leave_group import LeaveGroupRequest

T0 = TopicPartition("t", 0)
TURN_S, COUNT = 0.01, 2_000


class Requests(trio.abc.Clock):
    """The owner of a loop, and its clock, which only the work moves; notes what was processed at each request."""

    def __init__(self) -> None:
        self.now = self.last = 0.0
        self.gaps: list[float] = []
        self.marked: list[int] = []
        self.chunk: Any = SimpleNamespace(records=list(range(COUNT)), taken=0, by_list=True)
        self.fetcher: Any = SimpleNamespace(current=self.chunk, readable_chunk=self._readable)

    def loop(self) -> Iterations:
        return Iterations(self.fetcher, (), self._mark, self._request, lambda: self.last + TURN_S, lambda: None)

    def start_clock(self) -> None:
        """It stands still."""

    def current_time(self) -> float:
        return self.now

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return 0

    def _readable(self) -> Any:
        return self.chunk if self.chunk.taken < COUNT else None

    def _mark(self) -> None:
        self.marked.append(self.chunk.taken)

    async def _request(self, look: Callable[[], Any]) -> Any:
        self.gaps.append(self.now - self.last)
        self.last = self.now
        return look()


WORK: dict[str, Callable[[int], float]] = {
    **{f"{cost_s} s": lambda number, cost_s=cost_s: cost_s for cost_s in (0, 1e-7, 1e-5, 1e-3, 0.009, 0.1, 20)},  # type: ignore[misc]
    "slower": lambda number: number * 1e-6,
    "faster": lambda number: (COUNT - number) * 1e-6,
    "one of ten slow": lambda number: 0.5 if number % 10 == 9 else 1e-4,
    "slow from the middle": lambda number: 0.05 if number > COUNT // 2 else 1e-4,
}


def looped(work: Callable[[Any], float]) -> Requests:
    """A whole loop, each of whose records takes as long as `work` says."""
    requests, seen = Requests(), []

    async def story() -> None:
        async for record in requests.loop().records(nullcontext()):
            seen.append(record)
            requests.now += work(record)

    trio.run(story, clock=requests)
    assert seen == list(range(COUNT))
    return requests


@pytest.mark.parametrize(("pace_s", "late"), [(0.0, 32), (1e-7, 32), (2e-6, 16), (1e-5, 4), (1e-4, 1), (1e-3, 1)])
def test_after_any_number_of_quick_records_few_slow_ones_delay_a_request(pace_s: float, late: int) -> None:
    for quick in range(0, 600, 7):
        requests = looped(lambda number, quick=quick: pace_s if number < quick else 5)  # type: ignore[misc]
        assert max(requests.gaps) < 5 * late + 2 * TURN_S, quick


@pytest.mark.parametrize("work", WORK)
def test_a_loop_makes_a_request_soon_after_it_is_due_however_long_the_work_takes(work: str) -> None:
    requests = looped(WORK[work])
    slowest = max(WORK[work](number) for number in range(COUNT))
    late = 32 if "middle" in work else 2  # Only what was faster before delays a request by a portion.
    assert max(requests.gaps) <= 4 * TURN_S + late * slowest
    assert requests.marked[0] == 0
    assert len(requests.marked) >= len(requests.gaps) - 1  # what was returned before a request is processed
    if slowest < 1e-6:
        assert len(requests.gaps) == 2  # fast work pays for no request before the end of the chunk


@pytest.mark.anyio
async def test_another_task_runs_and_cancels_a_loop_that_never_waits_itself(
    minikafka_bootstrap: str, topic: str
) -> None:
    await fill(minikafka_bootstrap, topic, 1, 3_000)
    begun, seen = anyio.Event(), 0
    async with Consumer(topic, bootstrap_servers=minikafka_bootstrap, auto_offset_reset="earliest") as consumer:
        async with anyio.create_task_group() as tasks:

            async def stop() -> None:
                await begun.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(stop)
            async for _ in consumer:
                begun.set()
                seen += 1
                time.sleep(0.001)
        assert seen < 200
        assert consumer.positions() == {TopicPartition(topic, 0): seen}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("fast", [0, 300])
def test_a_member_that_requests_each_record_in_time_stays_in_its_group(protocol: str, fast: int) -> None:
    """Of a chunk of records that takes several times max_poll_interval_ms; also after some that take no time."""

    async def story() -> None:
        cluster, seen = ScriptedCluster(t=1), 0
        cluster.assigned = [T0]
        cluster.append(T0, 500)
        options = {"group_id": "g", "group_protocol": protocol, "max_poll_interval_ms": 2_000}
        async with cluster.consumer("t", **options) as consumer:
            async for record in consumer:
                assert record.offset == seen
                seen += 1
                if seen == 500:
                    break
                await trio.sleep(0 if seen < fast else 0.1)
            assert len(cluster.of(JoinGroupRequest)) == (protocol == "classic")
            assert cluster.of(LeaveGroupRequest) == []

    on_virtual_time(story)


@pytest.mark.parametrize("before", range(1, 10))
def test_what_is_polled_within_a_loop_does_not_come_again_in_it(before: int) -> None:
    """Wherever in a portion of buffered records the loop is."""

    async def story() -> None:
        cluster, seen = ScriptedCluster(t=1), list[int]()
        cluster.append(T0, 30)
        async with cluster.consumer("t") as consumer:
            async for record in consumer:
                seen.append(record.offset)
                if len(seen) == before:
                    seen += [one.offset for one in await consumer.poll(0, 3)]
                if len(seen) == 30:
                    break
        assert seen == list(range(30))

    on_virtual_time(story)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_was_late_joins_again_with_its_next_request(protocol: str) -> None:
    async def story() -> float:
        cluster = ScriptedCluster(t=1)
        cluster.assigned = [T0]
        cluster.append(T0, 5)
        own = {"heartbeat_interval_ms": 14_000, "session_timeout_ms": 45_000} if protocol == "classic" else {}
        options = {"group_id": "g", "group_protocol": protocol, "max_poll_interval_ms": 2_000, **own}
        async with cluster.consumer("t", enable_auto_commit=False, **options) as consumer:
            assert await consumer.poll(5_000)
            await trio.sleep(15.55 if own else 2.55)
            began = trio.current_time()
            assert await consumer.poll(30_000)
            return trio.current_time() - began

    assert on_virtual_time(story) < 0.05


def committed(bootstrap: str, group: str) -> int:
    with blocking.Admin(bootstrap) as admin:
        return sum(one.offset for one in admin.list_group_offsets(group).values())


AUTO = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 50, "heartbeat_interval_ms": 50}


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("at", [1, 2, 40, 100])
def test_automatic_commits_include_what_a_blocking_loop_has_processed(
    minikafka_bootstrap: str, topic: str, at: int, partitions: int
) -> None:
    """All records were taken at once; the one in process is not included, however long it takes."""
    anyio.run(fill, minikafka_bootstrap, topic, partitions, 100)
    options: Any = {"bootstrap_servers": minikafka_bootstrap, "group_id": topic, **AUTO}
    with blocking.Consumer(topic, **options) as consumer:
        for number, _ in enumerate(consumer, 1):
            if number == at:
                deadline = time.monotonic() + 60
                while committed(minikafka_bootstrap, topic) < at - 1 and time.monotonic() < deadline:
                    time.sleep(0.02)
                time.sleep(0.2)
                assert committed(minikafka_bootstrap, topic) == at - 1
                break


def test_a_blocking_loop_that_takes_each_record_in_time_stays_in_its_group(
    minikafka_bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    anyio.run(fill, minikafka_bootstrap, topic, 1, 100)
    options: Any = {"bootstrap_servers": minikafka_bootstrap, "group_id": topic, "max_poll_interval_ms": 700, **AUTO}
    with caplog.at_level(logging.WARNING, "minikafka"), blocking.Consumer(topic, **options) as consumer:
        for record in consumer:
            time.sleep(0.02)
            if record.offset == 99:
                break
    assert "poll interval exceeded" not in caplog.text


def test_records_of_a_list_do_not_count_as_processed_while_the_application_has_it(
    minikafka_bootstrap: str, topic: str
) -> None:
    anyio.run(fill, minikafka_bootstrap, topic, 1, 100)
    options: Any = {"bootstrap_servers": minikafka_bootstrap, "group_id": topic, **AUTO}
    with blocking.Consumer(topic, **options) as consumer:
        for record in consumer:
            if record.offset == 9:
                break
        assert [one.offset for one in consumer.poll(60_000, 20)] == list(range(10, 30))
        time.sleep(0.3)
        assert committed(minikafka_bootstrap, topic) == 10


@pytest.mark.parametrize("moved_to", [None, 0, 30, 90])
@pytest.mark.parametrize("ahead", [[], [T0], [T0, ("t", 1)]])
def test_what_a_loop_has_yielded_is_never_marked_beyond_the_position(moved_to: int | None, ahead: list[Any]) -> None:
    """A partition may have moved meanwhile, as after a truncation: records that were taken before say nothing of it."""
    consumer: Any = blocking.Consumer("t")
    fetcher = consumer._consumer._fetcher
    fetcher.assign([T0, TopicPartition("t", 1)])
    for state in fetcher.states.values():
        state.position = state.processed = 20
        state.position = 60
    if moved_to is not None:
        fetcher.states[T0].move(moved_to)
    consumer._yielded = SimpleNamespace(topic="t", partition=0, offset=40)
    consumer._taken = deque(SimpleNamespace(topic=tp[0], partition=tp[1], offset=50) for tp in ahead)
    assert fetcher.positions(processed_only=True) == {
        T0: 40 if moved_to is None else moved_to,
        TopicPartition("t", 1): 50 if len(ahead) == 2 else 60,
    }
