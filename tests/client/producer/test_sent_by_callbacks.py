"""What `on_delivery` sends while the block of a blocking producer is left is delivered as well."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.fake_network import FakeNetwork

from minikafka.client import blocking
from minikafka.client.blocking import BlockingDelivery
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.records.batch import parse_header

TOPICS = ("t", "audit")


class Counting(FakeNetwork):
    """A broker that appends all batches.

    Attributes:
        records: The number of records of each topic.
    """

    def __init__(self) -> None:
        super().__init__({name: [1] for name in TOPICS})
        self.records: Counter[str] = Counter()
        self.broker("a", 1, {ProduceRequest: self._append})

    def _append(self, request: Any, version: int) -> Any:
        answers = []
        for topic in request.topic_data:
            name = next(one for one in TOPICS if topic.topic_id.startswith(one.encode()))
            for one in topic.partition_data:
                self.records[name] += parse_header(one.records).record_count
            parts = [PartitionProduceResponse(index=one.index) for one in topic.partition_data]
            answers.append(TopicProduceResponse(name=name, topic_id=topic.topic_id, partition_responses=parts))
        return ProduceResponse(responses=answers) if request.acks else None


@pytest.mark.parametrize("acks", ["all", 0])
@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("linger_ms", [0, 60_000])
def test_callbacks_may_send_while_the_block_is_left(linger_ms: int, depth: int, topic: str, acks: Any) -> None:
    network, sent = Counting(), list[BlockingDelivery]()

    with blocking.Producer(
        "a:1", seams=network.seams(), linger_ms=linger_ms, acks=acks, enable_idempotence=False
    ) as producer:

        def follow(left: int) -> Any:
            def send_next(metadata: Any, error: Any) -> None:
                if left:
                    sent.append(producer.send(topic, b"audit", on_delivery=follow(left - 1)))

            return send_next

        for _ in range(5):
            sent.append(producer.send("t", b"x", on_delivery=follow(depth)))
    assert len(sent) == 5 * (1 + depth)
    assert all(one.result() for one in sent)
    assert network.records == Counter({"t": 5}) + Counter({topic: 5 * depth})
