"""What is no topic's name is refused at the call, by every method of producers and consumers that takes one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from minikafka.client import Consumer, Producer, TopicPartition, blocking
from minikafka.protocol.errors import InvalidTopicError

pytestmark = pytest.mark.anyio
NOWHERE = "127.0.0.1:1"
IMPOSSIBLE = ["", " ", "two words", "a" * 250, ".", "..", "flüge", "a/b", "a\n", "localhost:9092", "٣"]
LEGAL = ["a", "a" * 249, "...", "-", "_", "0", "A.b_c-9"]


def consumer() -> Consumer:
    return Consumer(bootstrap_servers=NOWHERE)


def producer() -> Producer:
    return Producer(NOWHERE)


CALLS: dict[str, Callable[[str], Any]] = {
    "Consumer": lambda name: Consumer("legal", name, bootstrap_servers=NOWHERE),
    "blocking.Consumer": lambda name: blocking.Consumer(name, bootstrap_servers=NOWHERE),
    "subscribe": lambda name: consumer().subscribe(["legal", name]),
    "assign": lambda name: consumer().assign([TopicPartition(name, 0)]),
    "seek": lambda name: consumer().seek((name, 0), 5),
    "seek_to_time": lambda name: consumer().seek_to_time(5, (name, 0)),
    "pause": lambda name: consumer().pause((name, 0)),
    "position": lambda name: consumer().position((name, 0)),
    "committed": lambda name: consumer().committed((name, 0)),
    "commit": lambda name: consumer().commit({TopicPartition(name, 0): 5}),
    "end_offsets": lambda name: consumer().end_offsets([(name, 0)]),
    "offsets_for_times": lambda name: consumer().offsets_for_times({TopicPartition(name, 0): 5}),
    "send": lambda name: producer().send(name, b"x"),
    "send_and_wait": lambda name: producer().send_and_wait(name, b"x"),
    "send_many": lambda name: producer().send_many(name, [b"x"]),
    "partitions_for": lambda name: producer().partitions_for(name),
    "send_offsets": lambda name: producer().send_offsets_to_transaction({TopicPartition(name, 0): 5}, "g"),
}


async def called(call: Callable[[str], Any], name: str) -> None:
    result = call(name)
    if inspect.isawaitable(result):
        await result


@pytest.mark.parametrize("name", IMPOSSIBLE)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_an_impossible_name_is_refused_before_anything_is_sent(call: Callable[[str], Any], name: str) -> None:
    with pytest.raises(InvalidTopicError, match="must be a string, the name of a topic: 1 to 249 ASCII") as raised:
        await called(call, name)
    assert isinstance(raised.value, ValueError)
    assert ("bootstrap_servers=" in str(raised.value)) == (":" in name)


@pytest.mark.parametrize("name", LEGAL)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_legal_name_is_taken(call: Callable[[str], Any], name: str) -> None:
    with suppress(RuntimeError):  # not open
        try:
            await called(call, name)
        except ValueError as error:
            if "requires a group" not in str(error) and "is not assigned" not in str(error):
                raise


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "two words"])
def test_blocking_clients_refuse_it_likewise(bootstrap: str, name: str) -> None:
    with blocking.Producer(bootstrap) as sender, blocking.Consumer(bootstrap_servers=bootstrap) as reader:
        for call in (
            lambda: sender.send(name, b"x"),
            lambda: sender.send_many(name, [b"x"]),
            lambda: reader.subscribe([name]),
            lambda: reader.assign([(name, 0)]),
        ):
            with pytest.raises(InvalidTopicError, match="must be a string, the name of a topic"):
                call()
