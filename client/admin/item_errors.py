"""Retriable errors of single items in responses: what has failed is asked for again, and the rest is not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.connections.exception_groups import task_group
from minikafka.client.offset_queries import leaders_of
from minikafka.protocol.errors import KafkaError, RequestTimedOutError, UnknownTopicOrPartitionError
from minikafka.protocol.names import TopicPartition

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
FINAL = (RequestTimedOutError, UnknownTopicOrPartitionError)
"""Retriable errors of items that are returned at once: the broker has itself waited, and may do yet what it was asked
for; a topic that does not exist is the answer."""


async def ask_each(
    cluster: Cluster,
    items: Iterable[K],
    ask: Callable[[list[K]], Awaitable[dict[K, V | KafkaError]]],
    what: str,
    *,
    final: tuple[type[KafkaError], ...] = FINAL,
) -> dict[K, V | KafkaError]:
    """The results of `ask`, in its order; items with a retriable error are asked for again, as `Cluster.retry` does.

    Args:
        ask: sends requests about some of the items, once.
        final: retriable errors of items that are returned at once.

    Raises KafkaError if there was no result at all.
    """
    left, results = list(dict.fromkeys(items)), dict[K, V | KafkaError]()

    async def attempt() -> None:
        nonlocal left
        found = await ask(left)
        results.update(found)
        errors = {key: one for key, one in found.items() if isinstance(one, KafkaError)}
        errors = {key: one for key, one in errors.items() if one.retriable and not isinstance(one, final)}
        left = list(errors)
        for one in errors.values():
            raise one

    try:
        await cluster.retry(attempt, what)
    except KafkaError:
        if not results:
            raise
    return results


async def ask_one(cluster: Cluster, ask: Callable[[], Awaitable[V | KafkaError]], what: str) -> V:
    """The result for the single item of a request. Raises its KafkaError, after retries."""

    async def each(_: list[str]) -> dict[str, V | KafkaError]:
        return {what: await ask()}

    found = (await ask_each(cluster, [what], each, what))[what]
    if isinstance(found, KafkaError):
        raise found
    return found


async def ask_leaders(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, K],
    ask: Callable[[int, dict[TopicPartition, K]], Awaitable[dict[TopicPartition, V | KafkaError]]],
    what: str,
) -> dict[TopicPartition, V | KafkaError]:
    """The result or the KafkaError of each partition, from its leader; `wanted` says by partition what to ask for.

    Partitions with a retriable error are asked for again; among these are unknown ones, which may be new. All leaders
    are asked at the same time, so that one without an answer delays the results of its own partitions only.

    Args:
        ask: sends one request to a leader, about some of the partitions.
    """
    found: dict[TopicPartition, V | KafkaError] = {}

    async def ask_one_leader(leader: int, some: dict[TopicPartition, K]) -> None:
        try:
            found.update(await ask(leader, some))
        except KafkaError as error:
            found.update(dict.fromkeys(some, error))

    async def ask_all(some: list[TopicPartition]) -> dict[TopicPartition, V | KafkaError]:
        by_leader, leaderless = await leaders_of(cluster, {tp: wanted[tp] for tp in some})
        found.update(leaderless)
        async with task_group() as tasks:
            for leader, its in by_leader.items():
                tasks.start_soon(ask_one_leader, leader, its)
        if any(isinstance(found[tp], KafkaError) for tp in some):
            cluster.refresh_soon()
        return {tp: found[tp] for tp in some}

    try:
        return await ask_each(cluster, wanted, ask_all, what, final=()) | found
    except KafkaError as error:
        return {**dict.fromkeys(wanted, error), **found}
