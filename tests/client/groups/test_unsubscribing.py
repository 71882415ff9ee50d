"""What is subscribed or assigned before an `unsubscribe` has ended is refused: its end would drop it without a word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
import trio
from support.scripted_cluster import ScriptedCluster, on_virtual_time

from minikafka.client import Consumer, Listener, TopicPartition

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
