"""Retriable errors of single items in responses: what has failed is asked for again, and the rest is not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import TypeVar

from minikafka.client.connections.cluster_client import Cluster
from minikafka.protocol.errors import KafkaError, RequestTimedOutError, UnknownTopicOrPartitionError

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
