"""A topic is deleted and made anew under a member, and coordinator and client hear of it in every order.

Between two of these events there is nothing, a metadata update, a heartbeat, or the application requests records, so
that what is revoked is acknowledged. In the end the member has all partitions, and has got each record once.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import trio
from support.coordinated_cluster import CoordinatedCluster, coordinated
from support.group_members import RecordingListener
from support.scripted_cluster import on_virtual_time

from minikafka.client import Consumer
from minikafka.protocol.names import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
ANEW = b"the topic anew.."
ORDERS = ("DCdc", "DdCc", "DdcC", "dDCc", "dDcC", "dcDC")
"""D, C: the coordinator hears that the topic is deleted and created; d, c: the client's next metadata say so."""
GAPS = ("nothing", "metadata", "heartbeat", "poll")
CLASSIC = {"heartbeat_interval_ms": 2_000}
WAYS: dict[str, dict[str, Any]] = {
    "consumer": {"group_protocol": "consumer"},
    "consumer with a listener": {"group_protocol": "consumer"},
    "consumer with a pattern": {"group_protocol": "consumer"},
    "range": {**CLASSIC, "partition_assignment_strategy": ["range"]},
    "cooperative": {**CLASSIC, "partition_assignment_strategy": ["cooperative-sticky"]},
    "range with a pattern": {**CLASSIC, "partition_assignment_strategy": ["range"]},
}
OTHERS: list[dict[str, int]] = [{}, {"b": 1}]
OTHERS_IDS = ["alone", "with another topic"]


@pytest.mark.sweep
@pytest.mark.parametrize("others", OTHERS, ids=OTHERS_IDS)
@pytest.mark.parametrize("way", WAYS)
def test_each_record_of_the_new_topic_is_read_once(way: str, others: dict[str, int]) -> None:
    """Each pair of gaps in each order, with one of the third."""
    for order, first, second in product(ORDERS, GAPS, GAPS):
        third = GAPS[(GAPS.index(first) + GAPS.index(second)) % len(GAPS)]
        on_virtual_time(made_anew, way, others, order, (first, second, third))


@pytest.mark.sim
@pytest.mark.parametrize("others", OTHERS, ids=OTHERS_IDS)
@pytest.mark.parametrize("way", WAYS)
def test_it_is_with_any_gaps(way: str, others: dict[str, int]) -> None:
    """All three gaps in each order, which takes four times as long: `make sim` does."""
    for order, *gaps in product(ORDERS, GAPS, GAPS, GAPS):
        on_virtual_time(made_anew, way, others, order, tuple(gaps))


async def made_anew(way: str, others: dict[str, int], order: str, gaps: tuple[str, ...]) -> None:
    async with coordinated(a=1, **others) as cluster, cluster.consumer(group_id="g", **WAYS[way]) as consumer:
        await subscribe(consumer, way)
        expected = cluster.append(A, 3)
        taken: list[bytes] = []
        await read(consumer, taken, expected)
        for event, gap in zip(order, (*gaps, "nothing"), strict=True):
            await happens(cluster, event)
            await passes(cluster, consumer, gap, taken)
        expected += cluster.append(A, 5)
        if others:
            expected += cluster.append(B, 2)
        try:
            await read(consumer, taken, expected)
            await consumer.commit()
            ends = {A: 5, **({B: 2} if others else {})}
            assert {tp: one.offset for tp, one in (await consumer.committed(*ends)).items()} == ends
        except BaseException as error:
            error.add_note(f"{order} with {gaps}")
            raise


async def subscribe(consumer: Consumer, way: str) -> None:
    if way.endswith("pattern"):
        await consumer.subscribe(pattern="[ab]")
    else:
        await consumer.subscribe(["a", "b"], listener=RecordingListener() if way.endswith("listener") else None)


async def happens(cluster: CoordinatedCluster, event: str) -> None:
    match event:
        case "D":
            await cluster.coordinator_deletes("a")
        case "C":
            cluster.coordinator_creates("a", ANEW)
        case "d":
            cluster.delete("a")
        case "c":
            cluster.create("a", topic_id=ANEW)


async def passes(cluster: CoordinatedCluster, consumer: Consumer, gap: str, taken: list[bytes]) -> None:
    match gap:
        case "metadata":
            await consumer.cluster.refresh()
            await trio.testing.wait_all_tasks_blocked()
        case "heartbeat":
            await trio.sleep(5.1)
        case "poll":
            taken += [record.value or b"" for record in await consumer.poll(100)]


async def read(consumer: Consumer, taken: list[bytes], expected: list[bytes]) -> None:
    """So many records, and those that come within a second more."""
    end_s = trio.current_time() + 30
    while len(taken) < len(expected) and trio.current_time() < end_s:
        taken += [record.value or b"" for record in await consumer.poll(1_000)]
    taken += [record.value or b"" for record in await consumer.poll(1_000)]
    assert sorted(taken) == sorted(expected)
