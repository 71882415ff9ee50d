"""What is subscribed or assigned before an `unsubscribe` has ended is refused: its end would drop it without a word.

An `unsubscribe` that fails gives up the partitions as well; a `subscribe` that fails without a group changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

import pytest
import trio
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer, Listener, TopicPartition
from minikafka.protocol.errors import UnknownTopicOrPartitionError

T0, U0 = TopicPartition("t", 0), TopicPartition("u", 0)
STEPS = 60
"""More than an `unsubscribe` takes in these tests."""


async def subscribe(consumer: Consumer) -> None:
    await consumer.subscribe(["u"])


async def subscribe_pattern(consumer: Consumer) -> None:
    await consumer.subscribe(pattern="u")


async def assign(consumer: Consumer) -> None:
    consumer.assign([U0])


CHOICES: dict[str, Callable[[Consumer], Any]] = {
    "subscribe": subscribe, "pattern": subscribe_pattern, "assign": assign,
}  # fmt: skip
BEFORE: dict[str, tuple[Callable[[Consumer], Any], dict[str, Any]]] = {
    "subscription": (lambda consumer: consumer.subscribe(["t"]), {"group_id": "g"}),
    "consumer protocol": (lambda consumer: consumer.subscribe(["t"]), {"group_id": "g", "group_protocol": "consumer"}),
    "assignment": (lambda consumer: trio.to_thread.run_sync(str), {"group_id": "g"}),
    "without a group": (lambda consumer: consumer.subscribe(["t"]), {}),
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("before", BEFORE)
def test_a_choice_at_any_moment_of_an_unsubscribe_is_refused_or_takes_effect(before: str, choice: str) -> None:
    begin, options = BEFORE[before]

    async def story(steps: int) -> str:
        """The choice after so many turns of other tasks; return why it was refused, or an empty string."""
        cluster, refusal, has_begun = ScriptedCluster(t=1, u=1), "", trio.Event()

        async def unsubscribe() -> None:
            has_begun.set()
            await consumer.unsubscribe()

        cluster.assigned = [T0]
        for tp in (T0, U0):
            cluster.append(tp, 3)
        async with cluster.consumer(**options) as consumer:
            if before == "assignment":
                consumer.assign([T0])
            else:
                await begin(consumer)
            assert [one.topic for one in await consumer.poll(5_000)] == ["t"] * 3
            cluster.assigned = [U0]
            async with trio.open_nursery() as tasks:
                tasks.start_soon(unsubscribe)
                await has_begun.wait()
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                try:
                    await CHOICES[choice](consumer)
                except RuntimeError as error:
                    refusal = str(error)
            if refusal:
                await CHOICES[choice](consumer)
            assert [one.topic for one in await consumer.poll(5_000)] == ["u"] * 3
        return refusal

    refusals = [on_virtual_time(story, steps) for steps in range(STEPS)]
    assert ("before unsubscribe() had ended" in refusals[0]) == (before != "without a group")
    assert refusals[-1] == ""


class Choosing(Listener):
    """Chooses anew when it is told of losses."""

    consumer: Consumer

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self.consumer.subscribe(["u"])


def test_a_callback_of_an_unsubscribe_is_refused_as_well_and_so_is_none_after_a_cancelled_one() -> None:
    async def story() -> None:
        cluster, listener = ScriptedCluster(t=1, u=1), Choosing()
        cluster.assigned = [T0]
        cluster.append(U0)
        async with cluster.consumer(group_id="g") as consumer:
            listener.consumer = consumer
            await consumer.subscribe(["t"], listener=listener)
            await consumer.poll(500)
            with pytest.raises(RuntimeError, match=r"subscribe\(\) was called before unsubscribe\(\) had ended"):
                await consumer.unsubscribe()
            await consumer.subscribe(["t"])
            await consumer.poll(500)
            with trio.CancelScope() as scope:
                scope.cancel()
                await consumer.unsubscribe()
            cluster.assigned = [U0]
            with suppress(RuntimeError):
                await consumer.unsubscribe()
            await consumer.subscribe(["u"])
            assert len(await consumer.poll(5_000)) == 1

    on_virtual_time(story)


class Raising(Listener):
    """Raises when it is told of losses."""

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        raise ArithmeticError


async def reads_nothing(consumer: Consumer, cluster: ScriptedCluster) -> None:
    """What was left is not read on; another choice is free."""
    assert consumer.assignment() == []
    cluster.append(T0)
    assert await consumer.poll(2_000) == []
    consumer.assign([U0])
    assert [one.topic for one in await consumer.poll(5_000)] == ["u"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_unsubscribe_whose_listener_raises_gives_up_the_partitions(protocol: str) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(t=1, u=1)
        cluster.assigned = [T0]
        cluster.append(T0)
        cluster.append(U0)
        async with cluster.consumer(group_id="g", group_protocol=protocol) as consumer:
            await consumer.subscribe(["t"], listener=Raising())
            assert len(await consumer.poll(5_000)) == 1
            with pytest.raises(ArithmeticError):
                await consumer.unsubscribe()
            await reads_nothing(consumer, cluster)

    on_virtual_time(story)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_unsubscribe_that_is_cancelled_at_any_moment_gives_up_the_partitions(protocol: str) -> None:
    async def story(steps: int) -> bool:
        """Cancel after so many turns of other tasks; return whether it was early enough."""
        cluster, scope, has_begun = ScriptedCluster(t=1, u=1), trio.CancelScope(), trio.Event()

        async def unsubscribe() -> None:
            has_begun.set()
            with scope:
                await consumer.unsubscribe()

        cluster.assigned = [T0]
        cluster.append(T0)
        cluster.append(U0)
        async with cluster.consumer(group_id="g", group_protocol=protocol) as consumer:
            await consumer.subscribe(["t"])
            assert len(await consumer.poll(5_000)) == 1
            async with trio.open_nursery() as tasks:
                tasks.start_soon(unsubscribe)
                await has_begun.wait()
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
            await reads_nothing(consumer, cluster)
        return scope.cancelled_caught

    cancelled = [on_virtual_time(story, steps) for steps in range(STEPS)]
    assert any(cancelled)
    assert not cancelled[-1]


async def assign_first(consumer: Consumer) -> None:
    consumer.assign([T0])


async def nothing(consumer: Consumer) -> None:
    """No choice."""


ENDS_S = {"raised": 60.0, "cancelled": 0.1, "cancelled at once": 0.0}
"""After how many seconds a `subscribe` to a missing topic is cancelled."""
CHOSEN_BEFORE: dict[str, Callable[[Consumer], Any]] = {
    "names": lambda consumer: consumer.subscribe(["t"]),
    "pattern": lambda consumer: consumer.subscribe(pattern="t"),
    "assignment": assign_first,
    "nothing": nothing,
}


@pytest.mark.parametrize(
    ("before", "end"),
    [
        *product(("names", "assignment", "nothing"), ENDS_S),
        ("pattern", "cancelled at once"),
    ],
)
def test_without_a_group_a_subscribe_that_fails_changes_nothing(before: str, end: str) -> None:
    async def story() -> None:
        cluster = ScriptedCluster(t=1, u=1)
        cluster.append(T0)
        cluster.append(U0, 2)
        async with cluster.consumer() as consumer:
            await CHOSEN_BEFORE[before](consumer)
            expected = 0 if before == "nothing" else 1
            assert len(await consumer.poll(2_000)) == expected
            with trio.move_on_after(ENDS_S[end]), suppress(UnknownTopicOrPartitionError):
                await consumer.subscribe(["u", "nix"])
            assert consumer.assignment() == [T0] * expected
            cluster.create("nix")
            cluster.append(T0)
            cluster.append(TopicPartition("nix", 0))
            await trio.sleep(20)  # The metadata are read anew meanwhile.
            assert [one.topic for one in await consumer.poll(5_000)] == ["t"] * expected
            if before in ("assignment", "nothing"):
                consumer.assign([U0])
            else:
                await consumer.subscribe(["u"])
            assert [one.topic for one in await consumer.poll(5_000)] == ["u"] * 2

    on_virtual_time(story)
