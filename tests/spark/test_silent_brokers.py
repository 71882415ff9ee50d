"""A broker that does not answer any more costs one time-out: after that, the others are asked."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from minikafka.protocol.errors import NetworkError
from minikafka.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker
from minikafka.spark_connector.brokers import sockets
from minikafka.spark_connector.brokers.offset_reader import OffsetReader
from minikafka.spark_connector.options.source_options import parse

HOSTS = ("a", "b", "c")
SETUP_S, REQUEST_S = 10.0, 30.0


class Brokers:
    """Three brokers, of which those in `silent` accept connections and answer nothing; the time that this costs."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.silent: set[str] = set()
        self.asked: list[str] = []

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def connection(self, host: str, port: int, **options: Any) -> Connection:
        return Connection(self, host, port)


class Connection:
    """A connection to one of them."""

    def __init__(self, brokers: Brokers, host: str, port: int) -> None:
        self.address, self.closed, self.busy = f"{host}:{port}", False, False
        self._brokers, self._host = brokers, host
        self._answer(SETUP_S)

    def _answer(self, timeout_s: float) -> None:
        if self._host in self._brokers.silent:
            self.closed = True
            self._brokers.sleep(timeout_s)
            raise NetworkError(f"{self.address} did not answer")

    def request(self, message: Any, *, highest: int | None = None) -> MetadataResponse:
        self._brokers.asked.append(self._host)
        self._answer(REQUEST_S)
        brokers = [MetadataResponseBroker(node_id=number, host=host, port=1) for number, host in enumerate(HOSTS)]
        return MetadataResponse(brokers=brokers)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    made = Brokers()
    monkeypatch.setattr(sockets, "now_s", lambda: made.now_s)
    monkeypatch.setattr(sockets, "sleep", made.sleep)
    monkeypatch.setattr(sockets, "BrokerConnection", made.connection)
    return made


@pytest.mark.parametrize("silent", HOSTS)
@pytest.mark.parametrize("connected", [False, True])
def test_the_others_are_asked_after_one_time_out(brokers: Brokers, silent: str, connected: bool) -> None:
    reader = OffsetReader(parse({"kafka.bootstrap.servers": "a:1,b:1,c:1", "subscribe": "t"}).kafka)
    if connected:
        reader.refresh([])
    brokers.silent = {silent}
    reader.refresh([])
    assert brokers.now_s < (REQUEST_S if connected else SETUP_S) + 1
    began_s = brokers.now_s
    for _ in range(3):
        reader.refresh([])
    assert brokers.now_s == began_s  # It is not asked again meanwhile.


def test_a_broker_that_answers_again_is_asked_when_the_others_fail(brokers: Brokers) -> None:
    reader = OffsetReader(parse({"kafka.bootstrap.servers": "a:1,b:1,c:1", "subscribe": "t"}).kafka)
    for silent in ({"a"}, {"a", "b"}, {"b", "c"}, {"c", "a"}, set[str]()):
        brokers.silent, began_s = silent, brokers.now_s
        reader.refresh([])
        assert brokers.now_s - began_s < REQUEST_S + SETUP_S + 1


def test_a_new_connection_is_given_up_sooner_than_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process accepts connections, and answers nothing."""
    monkeypatch.setattr(sockets, "_SETUP_TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(NetworkError, match="timed out"):
        sockets.BrokerConnection("127.0.0.1", silent.getsockname()[1], client_id="", timeout_s=3_600)
