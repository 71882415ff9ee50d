"""A `Listener` is called where the application requests records, and nothing is lost that it has not processed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import anyio
import pytest
import trio
from support.scripted_coordinator import TP, ScriptedCoordinator, member
from trio.testing import MockClock

from minikafka.client import Admin, Consumer, Listener, Producer, TopicPartition
from minikafka.protocol.error_codes import ErrorCode


class Recording(Listener):
    """Records calls; those that a test names wait, or raise."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.consumer: Consumer | None = None
        self.takes_s = 0.0
        self.error: Exception | None = None

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append("assigned")

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append("revoked")
        await trio.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        if self.consumer is not None:
            await self.consumer.poll()
        self.calls.append("done")

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.calls.append("lost")


def run(story: Any) -> ScriptedCoordinator:
    """Run a story with a coordinator, on virtual time."""
    coordinator = ScriptedCoordinator()
    trio.run(story, coordinator, clock=MockClock(autojump_threshold=0))
    return coordinator


def test_a_revocation_waits_for_the_application_and_heartbeats_keep_the_membership() -> None:
    async def story(coordinator: ScriptedCoordinator) -> None:
        recording = Recording()
        async with member(coordinator, recording) as consumer:
            coordinator.heartbeats = ErrorCode.REBALANCE_IN_PROGRESS
            seen = coordinator.heartbeats_seen
            await trio.sleep(60)
            assert recording.calls == ["assigned"], "called beside the application"
            assert coordinator.heartbeats_seen - seen > 100
            assert coordinator.joins == 1
            await consumer.poll()
            assert recording.calls == ["assigned", "revoked", "done"]
            assert consumer.assignment() == []
            await consumer.poll(1000)
            assert recording.calls == ["assigned", "revoked", "done", "assigned"]
            assert consumer.assignment() == [TP]

    assert run(story).joins == 2


def test_the_timeout_of_a_poll_does_not_limit_a_callback() -> None:
    async def story(coordinator: ScriptedCoordinator) -> None:
        recording = Recording()
        recording.takes_s = 20
        async with member(coordinator, recording) as consumer:
            coordinator.heartbeats = ErrorCode.REBALANCE_IN_PROGRESS
            await trio.sleep(1)
            await consumer.poll(0)
            assert recording.calls == ["assigned", "revoked", "done"]
            assert coordinator.left == 0
            recording.takes_s = 0

    run(story)


def test_a_cancelled_callback_is_called_again_by_the_next_poll() -> None:
    async def story(coordinator: ScriptedCoordinator) -> None:
        recording = Recording()
        recording.takes_s = 20
        async with member(coordinator, recording) as consumer:
            coordinator.heartbeats = ErrorCode.REBALANCE_IN_PROGRESS
            await trio.sleep(1)
            with trio.move_on_after(1) as scope:
                await consumer.poll(0)
            assert scope.cancelled_caught
            assert consumer.assignment() == [TP]
            recording.takes_s = 0
            await consumer.poll(0)
            assert recording.calls == ["assigned", "revoked", "revoked", "done"]

    run(story)


def test_what_a_callback_raises_reaches_the_application_and_the_rebalance_goes_on() -> None:
    async def story(coordinator: ScriptedCoordinator) -> None:
        recording = Recording()
        async with member(coordinator, recording) as consumer:
            recording.error = ZeroDivisionError()
            coordinator.heartbeats = ErrorCode.REBALANCE_IN_PROGRESS
            await trio.sleep(1)
            with pytest.raises(ZeroDivisionError):
                await consumer.poll(0)
            assert consumer.assignment() == []
            recording.error = None
            await consumer.poll(1000)
            assert recording.calls == ["assigned", "revoked", "assigned"]

    assert run(story).joins == 2


def test_a_callback_must_not_request_records() -> None:
    async def story(coordinator: ScriptedCoordinator) -> None:
        recording = Recording()
        async with member(coordinator, recording) as consumer:
            recording.consumer = consumer
            coordinator.heartbeats = ErrorCode.REBALANCE_IN_PROGRESS
            await trio.sleep(1)
            with pytest.raises(RuntimeError, match="must not request records"):
                await consumer.poll(0)
            recording.consumer = None

    run(story)


def test_another_task_that_polls_waits_for_the_callback() -> None:
    """Or it would be given records of partitions that are being revoked."""

    async def story(coordinator: ScriptedCoordinator) -> None:
        recording = Recording()
        async with member(coordinator, recording) as consumer:
            recording.takes_s = 10
            coordinator.heartbeats = ErrorCode.REBALANCE_IN_PROGRESS
            await trio.sleep(1)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(consumer.poll, 0)
                await trio.sleep(1)
                await consumer.poll(0)
                assert recording.calls == ["assigned", "revoked", "done"]
            recording.takes_s = 0

    run(story)


@pytest.mark.parametrize("error", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_partitions_that_are_lost_while_their_revocation_waits_are_lost(error: ErrorCode) -> None:
    async def story(coordinator: ScriptedCoordinator) -> None:
        recording = Recording()
        async with member(coordinator, recording) as consumer:
            coordinator.heartbeats = ErrorCode.REBALANCE_IN_PROGRESS
            await trio.sleep(1)
            coordinator.heartbeats = error
            await trio.sleep(1)
            await consumer.poll(1000)
            assert recording.calls == ["assigned", "lost", "assigned"]

    run(story)


def test_a_member_that_does_not_poll_leaves_while_its_revocation_waits() -> None:
    async def story(coordinator: ScriptedCoordinator) -> None:
        recording = Recording()
        async with member(coordinator, recording, max_poll_interval_ms=10_000) as consumer:
            await consumer.poll()
            coordinator.heartbeats = ErrorCode.REBALANCE_IN_PROGRESS
            await trio.sleep(20)
            assert (coordinator.left, coordinator.joins) == (1, 1)
            await consumer.poll(1000)
            assert recording.calls == ["assigned", "lost", "assigned"]

    run(story)


def test_no_records_are_returned_between_leaving_and_losing_the_partitions() -> None:
    async def story(coordinator: ScriptedCoordinator) -> None:
        recording = Recording()
        async with member(coordinator, recording, max_poll_interval_ms=10_000) as consumer:
            coordinator.leaves_answered = False
            while not coordinator.left:
                await trio.sleep(0.01)
            await consumer.poll(0)
            assert recording.calls == ["assigned", "lost"]
            assert consumer.assignment() == []

    run(story)


@pytest.mark.parametrize("how", ["leave", "unsubscribe"])
def test_who_leaves_the_group_is_called_before(how: str) -> None:
    recording = Recording()

    async def story(coordinator: ScriptedCoordinator) -> None:
        async with member(coordinator, recording) as consumer:
            if how == "unsubscribe":
                await consumer.unsubscribe()
                assert recording.calls == ["assigned", "revoked", "done"]

    assert run(story).left == 1
    assert recording.calls == ["assigned", "revoked", "done"]


# -- with a broker ----------------------------------------------------------------------------------------------------

PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"heartbeat_interval_ms": 100, "session_timeout_ms": 60_000, "metadata_max_age_ms": 500},
    "consumer": {"group_protocol": "consumer", "metadata_max_age_ms": 500},
}
RECORDS = 200


class Committing(Listener):
    """Commits where partitions are revoked, as its docstring invites to."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._consumer.commit()


async def fill(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topic(topic, partitions=2)
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(RECORDS):
            await producer.send(topic, b"%d" % number, partition=number % 2)


async def rebalance_begun(bootstrap: str, group: str) -> None:
    """Wait until the group is no longer stable, which it is again only when the first member has polled."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        while (await admin.describe_group(group)).state == "Stable":
            await anyio.sleep(0.05)


def committing(bootstrap: str, group: str, protocol: str) -> Consumer:
    return Consumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest",
        max_poll_records=RECORDS, **PROTOCOLS[protocol],
    )  # fmt: skip


@pytest.mark.anyio
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("by_poll", [True, False])
async def test_a_crash_after_a_rebalance_loses_nothing(
    bootstrap: str, topic: str, protocol: str, *, by_poll: bool
) -> None:
    """A listener commits, another member joins while records are processed, and the process crashes at one of them."""
    await fill(bootstrap, topic)
    processed: set[bytes] = set()
    joined, crashed = anyio.Event(), anyio.Event()

    async def process(value: bytes) -> None:
        if len(processed) == RECORDS // 6:
            joined.set()
            await rebalance_begun(bootstrap, topic)
        if len(processed) >= RECORDS // 6 + 10:
            raise ZeroDivisionError
        processed.add(value)

    async def crash() -> None:
        async with committing(bootstrap, topic, protocol) as consumer:
            await consumer.subscribe([topic], listener=Committing(consumer))
            while by_poll:
                for record in await consumer.poll(60_000):
                    await process(record.value)
            async for record in consumer:
                await process(record.value)

    async def go_on() -> None:
        await joined.wait()
        async with committing(bootstrap, topic, protocol) as consumer:
            await consumer.subscribe([topic], listener=Committing(consumer))
            while len(processed) < RECORDS:
                for record in await consumer.poll(200):
                    processed.add(record.value)
                if crashed.is_set():
                    await consumer.commit()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go_on)
            with pytest.raises(ZeroDivisionError):
                await crash()
            crashed.set()
    assert len(processed) == RECORDS


LEAVINGS: dict[str, tuple[BaseException | None, list[str]]] = {
    "end": (None, ["assigned", "revoked", "done"]),
    "crash": (ZeroDivisionError(), ["assigned", "revoked", "done"]),
    "cancelled within the block": (trio.TooSlowError(), ["assigned", "revoked"]),
    "cancelled within the listener": (trio.TooSlowError(), ["assigned", "revoked"]),
}


@pytest.mark.parametrize("leaving", LEAVINGS)
def test_a_listener_takes_as_long_as_it_needs_when_the_block_is_left(
    leaving: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Cancellation ends it: at once in the listener, and after five seconds if it is why the block was left."""
    error, calls = LEAVINGS[leaving]

    async def story(coordinator: ScriptedCoordinator) -> None:
        recording = Recording()
        recording.takes_s = 20
        began = trio.current_time()
        raises = nullcontext() if error is None else pytest.raises(type(error))
        limit = trio.fail_after(10) if isinstance(error, trio.TooSlowError) else nullcontext()
        with raises, limit:
            async with member(coordinator, recording):
                if leaving == "crash":
                    raise ZeroDivisionError
                if leaving == "cancelled within the block":
                    await trio.sleep_forever()
        assert recording.calls == calls
        took = {"cancelled within the block": 15, "cancelled within the listener": 10}.get(leaving, 20)
        assert took - 1 <= trio.current_time() - began <= took + 1

    coordinator = run(story)
    assert coordinator.left == 1
    assert ("listener was cancelled" in caplog.text) == (leaving == "cancelled within the block")
    assert "still waiting: leaving the group: the listener has not returned" in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_listener_that_is_called_by_a_crash_commits_what_was_processed(
    bootstrap: str, topic: str, protocol: str
) -> None:
    await fill(bootstrap, topic)

    async def crash() -> None:
        async with committing(bootstrap, topic, protocol) as consumer:
            await consumer.subscribe([topic], listener=Committing(consumer))
            async for record in consumer:
                if record.offset == 20:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await crash()
    async with Admin(bootstrap_servers=bootstrap) as admin:
        committed = await admin.list_group_offsets(topic)
    assert sorted(one.offset for one in committed.values()) in ([20], [20, 100], [0, 20])
