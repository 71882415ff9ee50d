"""A delivery that is kept after its end, however that came, keeps nothing of the records but their metadata."""

from __future__ import annotations

import gc
from sys import getrefcount
from typing import Any

import pytest
import trio
from support.fake_network import FakeNetwork, HangUp
from trio.testing import MockClock

from minikafka.client import Delivery, Producer
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

COUNT = 8
TIMES = range(1_000, 1_000 + COUNT)


class Callback:
    def __call__(self, metadata: Any, error: Any) -> None: ...


def network(end: str) -> FakeNetwork:
    """A broker that ends batches in some way: it appends, refuses or loses them, or only takes single records."""
    made = FakeNetwork({"t": [1]})
    appended = 0

    def produce(request: Any, version: int) -> Any:
        nonlocal appended
        if end == "lost":
            raise HangUp
        if not request.acks:
            return None
        size = len(request.topic_data[0].partition_data[0].records)
        code = {"refused": ErrorCode.INVALID_RECORD}.get(end, ErrorCode.NONE)
        if end == "split" and size > 300:
            code = ErrorCode.MESSAGE_TOO_LARGE
        one = PartitionProduceResponse(index=0, error_code=code, base_offset=appended)
        appended += 0 if code else 1
        topic = TopicProduceResponse(name="t", topic_id=b"t".ljust(16, b"-"), partition_responses=[one])
        return ProduceResponse(responses=[topic])

    made.broker("a", 1, {ProduceRequest: produce})
    return made


def are_kept(observed: list[Any]) -> set[bool]:
    """Whether others refer to the observed objects."""
    own = [bytes(50)]
    (alone,) = map(getrefcount, own)
    return {count > alone for count in map(getrefcount, observed)}


@pytest.mark.parametrize("acks", ["all", 0])
@pytest.mark.parametrize("end", ["appended", "refused", "lost", "split", "closed"])
def test_only_the_metadata_are_kept(end: str, acks: Any) -> None:
    observed: list[Any] = []

    async def main() -> list[Delivery]:
        async with Producer(
            "a:1", seams=network(end).seams(), acks=acks, enable_idempotence=False, linger_ms=100,
            request_timeout_ms=500, delivery_timeout_ms=1_000,
        ) as producer:  # fmt: skip
            deliveries = []
            for time in TIMES:
                key, value, header, callback = bytes(50), bytes(50), bytes(50), Callback()
                observed.extend((key, value, header, callback))
                delivery = await producer.send(
                    "t", value, key=key, headers=[("h", header)], timestamp_ms=time, partition=0, on_delivery=callback
                )
                deliveries.append(delivery)
            del key, value, header, callback
            assert are_kept(observed) == {True}
            if end == "closed":
                producer._accumulator.fail_all(KafkaError("closed"))
            await producer.flush()
            gc.collect()
            assert are_kept(observed) == {False}
            return deliveries

    for number, delivery in enumerate(trio.run(main, clock=MockClock(autojump_threshold=0))):
        if end in ("appended", "split") or (acks == 0 and end == "refused"):
            metadata = delivery.result()
            assert (metadata.timestamp, metadata.offset) == (TIMES[number], number if acks else -1)
        else:
            with pytest.raises(KafkaError):
                delivery.result()
