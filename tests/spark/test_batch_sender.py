"""The order in which the sink sends batches and waits for responses."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

from minikafka.protocol.errors import LeaderNotAvailableError, RequestTimedOutError
from minikafka.protocol.headers import encode_request
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.names import TopicPartition
from minikafka.spark_connector.brokers import sockets
from minikafka.spark_connector.brokers.offset_reader import OffsetReader
from minikafka.spark_connector.options.source_options import KafkaOptions
from minikafka.spark_connector.sink.batch_sender import BatchSender, Outgoing, Parts

KAFKA = KafkaOptions("leader:9092", client_id="sink", request_timeout_s=30)
OPTIONS = SimpleNamespace(acks=-1, kafka=KAFKA, delivery_timeout_s=120)
LEADER = SimpleNamespace(host="leader", port=9092)


def brokers() -> OffsetReader:
    """Brokers of which one leads all partitions."""
    reader = OffsetReader(KAFKA)
    reader.metadata = cast(Any, SimpleNamespace(leader=lambda topic, partition: 1, brokers={1: LEADER}))
    return reader


class Connection:
    """Answers each request in its turn, and keeps what was done in which order."""

    closed = busy = False
    address = "leader:9092"

    def __init__(self, *_: object, **__: object) -> None:
        self.done: list[str] = []
        self._asked: list[ProduceRequest] = []

    def close(self) -> None:
        self.closed = True

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
    sender = BatchSender(brokers(), cast(Any, OPTIONS), None)
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
    known = brokers()
    known.metadata.brokers.clear()

    def refresh(_: object) -> None:
        if len(paused) == 3:
            known.metadata.brokers[1] = cast(Any, LEADER)

    monkeypatch.setattr(known, "refresh", refresh)
    sender = BatchSender(known, cast(Any, OPTIONS), None)
    sender.send([Outgoing(TopicPartition("t", 0), b"a batch", 1)])
    sender.flush()
    assert (len(paused), connection.done) == (3, ["send 0", "receive"])


def test_a_partition_without_a_leader_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr(sockets, "sleep", sleep)
    monkeypatch.setattr(sockets, "now_s", lambda: now_s)
    known = brokers()
    known.metadata = cast(Any, SimpleNamespace(leader=lambda topic, partition: -1, brokers={}))
    monkeypatch.setattr(known, "refresh", lambda _: None)
    sender = BatchSender(known, cast(Any, OPTIONS), None)
    some = [Outgoing(TopicPartition("t", one), b"a batch", 1) for one in range(4)]
    with pytest.raises(LeaderNotAvailableError, match=r"^no leader: t-0, t-1, t-2 …$"):
        sender._leader(-1, some)
    words = r"Expiring records for t-3: 120 s have passed .*\(kafka.delivery.timeout.ms\): no leader: t-3$"
    with pytest.raises(RequestTimedOutError, match=words):
        sender.send(some[3:])


def test_the_next_sender_uses_the_connection_unless_a_response_is_outstanding(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[Connection]()
    monkeypatch.setattr(sockets, "BrokerConnection", lambda *_, **__: made.append(Connection()) or made[-1])
    known = brokers()
    for busy in (False, True, False):
        sender = BatchSender(known, cast(Any, OPTIONS), None)
        sender.send([Outgoing(TopicPartition("t", 0), b"a batch", 1)])
        sender.flush()
        made[-1].busy = busy
        sender.close()
    assert [(len(one.done), one.closed) for one in made] == [(4, True), (2, False)]


def test_batches_are_sent_from_where_they_were_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """More pieces than one call sends, and more bytes than the socket takes at once: the frame is that of one piece."""
    ours, theirs = _pair()
    with closing(ours), closing(theirs):
        ours.settimeout(30)
        monkeypatch.setattr(sockets.socket, "create_connection", lambda *_, **__: ours)
        monkeypatch.setattr(sockets.BrokerConnection, "_negotiate", lambda _: None)
        connection = sockets.BrokerConnection("leader", 9092, client_id="sink", timeout_s=30)
        connection._versions[0] = (3, 9)
        batches = [Outgoing(TopicPartition("t", one), Parts(b"%d" % one, bytes(one)), 1) for one in range(1500)]
        whole = [Outgoing(one.tp, one.whole, 1) for one in batches]
        sender = BatchSender(brokers(), cast(Any, OPTIONS), None)
        received = bytearray()
        reader = threading.Thread(target=lambda: [received.extend(got) for got in iter(lambda: theirs.recv(9999), b"")])
        reader.start()
        connection.send(sender._request(batches))
        ours.shutdown(socket.SHUT_WR)
        reader.join()
    assert bytes(received) == encode_request(sender._request(whole), 9, 1, "sink")


def _pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return socket.create_connection(server.getsockname()), server.accept()[0]
