"""The order in which the sink sends batches and waits for responses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector import sockets
from minikafka.spark_connector.batch_sender import BatchSender, Outgoing

KAFKA = SimpleNamespace(client_id="sink", request_timeout_s=30)
OPTIONS = SimpleNamespace(acks=-1, kafka=KAFKA, delivery_timeout_s=120)
BROKERS = SimpleNamespace(
    metadata=SimpleNamespace(
        leader=lambda topic, partition: 1, brokers={1: SimpleNamespace(host="leader", port=9092)}
    )
)


class Connection:
    """Answers each request in its turn, and keeps what was done in which order."""

    closed = False

    def __init__(self, *_: object, **__: object) -> None:
        self.done: list[str] = []
        self._asked: list[ProduceRequest] = []

    def send(self, request: ProduceRequest, **_: object) -> None:
        self._asked.append(request)
        self.done.append("send " + " ".join(str(one.index) for one in request.topic_data[0].partition_data))

    def receive(self) -> ProduceResponse:
        (topic,) = self._asked.pop(0).topic_data
        self.done.append("receive")
        results = [PartitionProduceResponse(index=one.index) for one in topic.partition_data]
        return ProduceResponse(responses=[TopicProduceResponse(name=topic.name, partition_responses=results)])


def test_the_first_batch_of_a_partition_is_acknowledged_before_the_second_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leader that does not know the producer accepts any sequence number first, and would refuse the first batch."""
    connection = Connection()
    monkeypatch.setattr(sockets, "BrokerConnection", lambda *_, **__: connection)
    sender = BatchSender(cast(Any, BROKERS), cast(Any, OPTIONS), None)
    for partitions in ([0], [1], [0, 1], [0], [0, 2], [1]):
        sender.send([Outgoing(TopicPartition("t", one), b"a batch", 1) for one in partitions])
    sender.flush()
    assert connection.done == [
        "send 0", "send 1", "receive", "receive", "send 0 1", "send 0", "send 0 2", "send 1",
        "receive", "receive", "receive", "receive",
    ]  # fmt: skip


def test_a_leader_that_is_not_among_the_brokers_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As while a node that was killed still leads in the metadata, but is no broker any more."""
    connection, paused = Connection(), list[float]()
    monkeypatch.setattr(sockets, "BrokerConnection", lambda *_, **__: connection)
    monkeypatch.setattr(sockets, "sleep", paused.append)
    metadata = SimpleNamespace(leader=lambda topic, partition: 1, brokers={})

    def refresh(_: object) -> None:
        if len(paused) == 3:
            metadata.brokers[1] = SimpleNamespace(host="leader", port=9092)

    brokers = SimpleNamespace(metadata=metadata, refresh=refresh)
    sender = BatchSender(cast(Any, brokers), cast(Any, OPTIONS), None)
    sender.send([Outgoing(TopicPartition("t", 0), b"a batch", 1)])
    sender.flush()
    assert (len(paused), connection.done) == (3, ["send 0", "receive"])
