"""What an assignor of the application raises, or returns, is an error of the next request for records, no more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from minikafka.client import Consumer, InvalidOption, Producer, TopicPartition
from minikafka.client.assignor import Subscription
from minikafka.protocol.errors import InconsistentGroupProtocolError

pytestmark = pytest.mark.anyio
BROKEN: list[tuple[dict[str, Any], str]] = [
    ({"assign": ZeroDivisionError("mine")}, r"assign\(\) raised ZeroDivisionError\('mine'\)"),
    ({"assign": None}, r"assign\(\) returned None: must be a mapping"),
    ({"assign": "x"}, r"assign\(\) returned 'x': must be a mapping"),
    ({"assign": {"m": 5}}, r"returned 5 in \['m'\]: must be a list"),
    ({"assign": {"m": "t-0"}}, r"returned 't-0' in \['m'\]: must be a list"),
    ({"assign": {"m": ["t-0"]}}, "must be a TopicPartition"),
    ({"assign": {"m": [("t", "0")]}}, "must be a whole number"),
    ({"assign": {5: []}}, "returned 5 in key: must be a string"),
    ({"user_data": ZeroDivisionError("mine")}, r"user_data\(\) raised"),
    ({"user_data": "x"}, r"user_data\(\) returned 'x': must be bytes"),
    ({"user_data": 5}, r"user_data\(\) returned 5: must be bytes"),
]


class Mine:
    name: Any = "mine"
    cooperative = False

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def answer(self, name: str, usual: Any) -> Any:
        answer = self.answers.get(name, usual)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def user_data(self, generation: int) -> Any:
        return self.answer("user_data", bytearray(b"x"))

    def assign(self, partition_counts: Mapping[str, int], members: Mapping[str, Subscription]) -> Any:
        return self.answer("assign", {member: [(topic, 0) for topic in partition_counts] for member in members})


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_broken_assignor_is_an_error_of_the_next_request(minikafka_bootstrap: str, topic: str) -> None:
    async with Producer(minikafka_bootstrap) as producer:
        await producer.send_and_wait(topic, b"x")
    for number, (answers, text) in enumerate(BROKEN):
        options: dict[str, Any] = {"group_id": f"{topic}-{number}", "partition_assignment_strategy": [Mine(answers)]}
        async with Consumer(topic, bootstrap_servers=minikafka_bootstrap, **options) as consumer:
            with pytest.raises(InconsistentGroupProtocolError, match=f"assignor 'mine': .*{text}"):
                await consumer.poll(30_000)
            assert await consumer.end_offsets([(topic, 0)]) == {TopicPartition(topic, 0): 1}


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_plain_tuples_and_bytes_like_objects_are_taken(minikafka_bootstrap: str, topic: str) -> None:
    async with Producer(minikafka_bootstrap) as producer:
        await producer.send_and_wait(topic, b"x")
    options: dict[str, Any] = {"group_id": topic, "partition_assignment_strategy": [Mine({})], "stop_at": "end"}
    options["auto_offset_reset"] = "earliest"
    async with Consumer(topic, bootstrap_servers=minikafka_bootstrap, **options) as consumer:
        assert [record.value async for record in consumer] == [b"x"]


def test_what_is_no_assignor_is_refused() -> None:
    misnamed = [type("Named", (Mine,), {"name": name})({}) for name in (5, "\ud800", "")]
    for wrong in (5, None, Mine, object(), "rnge", b"range", *misnamed):
        with pytest.raises(InvalidOption, match=r"partition_assignment_strategy=.*must be a list of"):
            Consumer(partition_assignment_strategy=[wrong])  # type: ignore[list-item]
