"""Replication throttles (KIP-73): replicas that are behind are limited, in-sync replicas never."""

from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing
from support.replica_world import TOPIC, World

from minikafka.broker.apis import fetch
from minikafka.broker.replication.replication_throttle import FOLLOWER, LEADER, WAIT_MS_MAX, Rate, throttle_of
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ConfigRecord
from minikafka.protocol.names import TopicPartition

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
VALUE = bytes(1000)
RECORDS = 8


def in_trio(story: Callable[[], Awaitable[None]]) -> None:
    trio.run(story, clock=trio.testing.MockClock(autojump_threshold=0))


def limited(world: World, side: str, rate: int | None, replicas: str = "*") -> None:
    """Every broker has a limit, and the topic's replicas are throttled."""
    text = None if rate is None else str(rate)
    world.commit(
        ConfigRecord(BROKER_RESOURCE, "", f"{side}.replication.throttled.rate", text),
        ConfigRecord(TOPIC_RESOURCE, TOPIC, f"{side}.replication.throttled.replicas", replicas),
    )
    world.spread()


async def copied_in(world: World, node_id: int, seconds: int) -> int:
    """How many records a follower has after so many seconds of asking ten times a second."""
    for _ in range(seconds * 10):
        await world.nodes[node_id].fetch()
        world.now_ms += 100
        await trio.sleep(0.1)
    return world.nodes[node_id].partition.log.end_offset


async def world_with_one_behind(isr: tuple[int, ...] = (1, 2)) -> World:
    """Node 3 has all of some records to fetch, one with each answer; the others have them."""
    world = World(isr=isr, fetch_bytes=500)
    for _ in range(RECORDS):
        world.leader.produce(VALUE, acks=1)
    await world.replicate(RECORDS + 2, 2)
    return world


@pytest.mark.parametrize("side", [FOLLOWER, LEADER])
def test_replicas_that_are_behind_are_limited(side: str) -> None:
    async def story() -> None:
        world = await world_with_one_behind()
        limited(world, side, 1100)
        assert 2 <= await copied_in(world, 3, 3) <= 5
        assert await copied_in(world, 3, 7) == RECORDS

    in_trio(story)


@pytest.mark.parametrize("side", [FOLLOWER, LEADER])
def test_a_removed_limit_takes_effect(side: str) -> None:
    async def story() -> None:
        world = await world_with_one_behind()
        limited(world, side, 1)
        assert await copied_in(world, 3, 3) == 1
        limited(world, side, None)
        assert await copied_in(world, 3, 2) == RECORDS

    in_trio(story)


@pytest.mark.parametrize(("side", "others"), [(FOLLOWER, "0:1,0:2,1:3"), (LEADER, "0:2,0:3,1:1")])
def test_unlisted_replicas_are_not_throttled(side: str, others: str) -> None:
    async def story() -> None:
        world = await world_with_one_behind()
        limited(world, side, 1, others)
        assert await copied_in(world, 3, 1) == RECORDS

    in_trio(story)


def test_a_leader_does_not_throttle_in_sync_replicas() -> None:
    async def story() -> None:
        world = await world_with_one_behind(isr=(1, 2, 3))
        limited(world, LEADER, 1)
        assert await copied_in(world, 3, 1) == RECORDS

    in_trio(story)


def test_a_follower_does_not_throttle_caught_up_partitions() -> None:
    """It would hold back producers else; what is uncommitted waits for it."""

    async def story() -> None:
        world = World(replicas=(1, 3), fetch_bytes=500)
        limited(world, FOLLOWER, 1)
        for count in range(1, 4):
            world.leader.produce(VALUE)
            assert await copied_in(world, 3, 1) == count

    in_trio(story)


def test_a_rate_drops_old_samples() -> None:
    rate = Rate(samples=3, sample_ms=1000)
    rate.add(6000, 0)
    assert rate.above_for_ms(6000, 0) == 0
    assert rate.above_for_ms(2000, 0) == 3000
    assert rate.above_for_ms(2000, 2500) == 500
    assert rate.above_for_ms(1, 1000) == 2000  # then it is forgotten
    assert rate.above_for_ms(0, 1000) == 2000
    assert rate.above_for_ms(0, 3000) == 0
    rate.add(1, 3000)
    rate.add(1, 3999)
    rate.add(1, 4000)
    assert rate.above_for_ms(3, 4000) == 0
    assert rate.above_for_ms(1, 4000) == 2000


def test_a_brokers_limit_takes_precedence_over_the_default() -> None:
    image, partition = Image(), TopicPartition("t", 0)
    throttle = throttle_of(LEADER, 1, image, 1, 1000)
    image.apply(ConfigRecord(TOPIC_RESOURCE, "t", "leader.replication.throttled.replicas", " * "))
    throttle.record(partition, 100, 0)
    image.apply(ConfigRecord(BROKER_RESOURCE, "", "leader.replication.throttled.rate", "10"))
    assert throttle.wait_ms(0) == 0  # before there was a limit nothing counted
    throttle.record(partition, 100, 0)
    throttle.record(TopicPartition("u", 0), 100, 0)
    assert throttle.wait_ms(0) == WAIT_MS_MAX
    image.apply(ConfigRecord(BROKER_RESOURCE, "1", "leader.replication.throttled.rate", "100"))
    assert throttle.wait_ms(0) == 0


@pytest.mark.parametrize(
    ("rate", "replicas"),
    [
        *(("fast", "*"), ("-1", "*"), ("9" * 5_000, "*"), ("1", "*,0:1"), ("1", "0:x"), ("1", ""), ("1", ",")),
        *(("1", "9" * 5_000 + ":1"), ("1", "0:" + "9" * 5_000)),
    ],
)
def test_invalid_stored_values_mean_no_limit(rate: str, replicas: str) -> None:
    image, partition = Image(), TopicPartition("t", 0)
    throttle = throttle_of(LEADER, 1, image, 1, 1000)
    image.apply(ConfigRecord(TOPIC_RESOURCE, "t", "leader.replication.throttled.replicas", replicas))
    image.apply(ConfigRecord(BROKER_RESOURCE, "", "leader.replication.throttled.rate", rate))
    throttle.record(partition, 100, 0)
    assert throttle.wait_ms(0) == 0


def test_a_leader_counts_sent_bytes_once() -> None:
    async def story() -> None:
        world = World(isr=(1, 2))
        limited(world, LEADER, 4000)
        leader, asked = world.nodes[1], world.nodes[3].ask()
        assert asked is not None
        request = asked[2]
        request.min_bytes, request.max_wait_ms = 3 * len(VALUE), 60_000
        sent: list[int] = []

        async def wait() -> None:
            response = await fetch.handle(request, leader.context())
            sent.append(len(response.responses[0].partitions[0].records or b""))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            for _ in range(3):
                await trio.testing.wait_all_tasks_blocked()
                leader.produce(VALUE, acks=1)
                leader.partition.tail.wake()  # makes the fetch look, whether there is enough or not
        assert 3 * len(VALUE) <= sent[0] < 4000
        assert leader.fetching.leader_throttle.wait_ms(int(trio.current_time() * 1000)) == 0

    in_trio(story)
