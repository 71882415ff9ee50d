"""Connections between nodes with TLS, over streams in memory."""

from __future__ import annotations

import gc
import ssl
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest
import trio
import trio.testing
from support.records_without_data import KINDS, crafted
from support.tls import SERVER, TestTls, certificate_of, client_of, own, trusting

from minikafka.broker.security.between_nodes import handshakes_of_controllers
from minikafka.broker.settings.node_config import load_config
from minikafka.client.security.tls_contexts import client_context
from minikafka.client.security.tls_settings import TlsSettings
from minikafka.controller.quorum import tls_network
from minikafka.controller.quorum.tls_network import TlsNetwork, TlsPeerStream
from minikafka.controller.tls_records import WITHOUT_DATA_MAX, ReceivedRecords


class OneListener(trio.abc.Listener[trio.abc.Stream]):
    """A network in memory with one listener, at every address."""

    def __init__(self) -> None:
        self.connections, self._accepted = trio.open_memory_channel[trio.abc.Stream](1)

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        ours, theirs = trio.testing.memory_stream_pair()
        await self.connections.send(theirs)
        return ours

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        return [self]

    async def accept(self) -> trio.abc.Stream:
        return await self._accepted.receive()

    async def aclose(self) -> None:
        pass


def with_tls(inner: OneListener, client: ssl.SSLContext, **settings: str) -> TlsNetwork:
    server = TestTls(**settings).context
    network = TlsNetwork(inner, lambda: server)
    network.use(client)
    return network


def test_nodes_talk_and_know_the_certificate_of_the_other() -> None:
    async def main() -> None:
        network = with_tls(OneListener(), client_of("CN=node2"), ssl_client_auth="required")
        [listener] = await network.listen("", 0)
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                theirs = await listener.accept()
                assert isinstance(theirs, TlsPeerStream)
                assert theirs.certificate is None
                assert await theirs.receive_some(100) == b"question"
                assert theirs.certificate == certificate_of("CN=node2").der
                await theirs.send_all(b"answer")

            nursery.start_soon(serve)
            ours = await network.connect("localhost", 1)
            await ours.send_all(b"question")
            assert await ours.receive_some(100) == b"answer"

    trio.run(main)


@pytest.mark.parametrize(
    ("host", "trusted", "expected"),
    [
        ("elsewhere", SERVER, "TLS: the certificate of the other node is refused: Hostname mismatch"),
        ("localhost", None, "TLS: the certificate of the other node is refused: self-signed certificate"),
    ],
)
def test_a_node_that_refuses_the_other_says_why(host: str, trusted: object, expected: str) -> None:
    context = client_of() if trusted else client_context(TlsSettings())

    async def main() -> None:
        network = with_tls(OneListener(), context)
        [listener] = await network.listen("", 0)
        async with trio.open_nursery() as nursery:

            async def serve() -> None:
                theirs = await listener.accept()
                assert await theirs.receive_some(100) == b""

            nursery.start_soon(serve)
            with pytest.raises(OSError, match=expected):
                await network.connect(host, 1)

    trio.run(main)


def test_a_node_without_tls_is_named() -> None:
    async def main() -> None:
        inner = OneListener()
        network = with_tls(inner, client_of())
        [listener] = await network.listen("", 0)
        plain = await inner.connect("localhost", 1)
        await plain.send_all(b"\0\0\0\x10 plain text here")
        theirs = await listener.accept()
        for _ in range(2):  # the reason stays
            with pytest.raises(trio.BrokenResourceError, match="TLS: the other end speaks none"):
                await theirs.receive_some(100)

    trio.run(main)


def test_the_certificate_of_a_tool_is_its_principal_at_a_controller() -> None:
    settings = {
        "listeners": "PLAINTEXT://h:1,CONTROLLER://h:2",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        "listener.name.controller.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U",
        **own(SERVER),
        **trusting(SERVER),
    }
    handshake_of = handshakes_of_controllers(load_config(settings=settings))

    async def main() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        server = TlsPeerStream(theirs, TestTls().context)
        client = TlsPeerStream(ours, client_of("CN=carol"), "localhost")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.shake_hands)
            await server.shake_hands()
        handshake = handshake_of(server)
        assert handshake is not None
        assert str(await handshake()) == "User:CAROL"

    trio.run(main)


def test_controllers_without_tls_have_no_handshake() -> None:
    ours, _ = trio.testing.memory_stream_pair()
    assert handshakes_of_controllers(load_config())(ours) is None


@pytest.mark.parametrize("name", KINDS)
def test_records_without_data_end_the_connection_soon(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    version, kind = KINDS[name]
    taken = 0

    class Counting(ReceivedRecords):
        def take(self) -> memoryview | None:
            nonlocal taken
            record = super().take()
            taken += record is not None
            return record

    monkeypatch.setattr(tls_network, "ReceivedRecords", Counting)

    async def main() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        server, client = TlsPeerStream(theirs, TestTls().context), crafted(version)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.shake_hands, ours.send_all, ours.receive_some)
            await server.shake_hands()
        records = kind(client)
        await ours.send_all(b"".join(next(records) for _ in range(500)))
        with trio.fail_after(5), pytest.raises(trio.BrokenResourceError, match="TLS: "):
            await server.receive_some()

    trio.run(main)
    assert taken <= WITHOUT_DATA_MAX


def test_a_first_message_that_only_costs_time_is_refused() -> None:
    async def main() -> None:
        ours, theirs = trio.testing.memory_stream_pair()
        server = TlsPeerStream(theirs, TestTls().context)
        await ours.send_all((b"\x16\x03\x03\x40\x00\x01\x01\x00\x00" + bytes(16_380)) * 4)
        with pytest.raises(trio.BrokenResourceError, match="TLS: the peer begins with a message of more than"):
            await server.receive_some()

    trio.run(main)


def test_data_in_small_records_is_read_in_many_steps() -> None:
    """Other tasks run between two records."""
    turns = 0

    async def main() -> None:
        nonlocal turns
        ours, theirs = trio.testing.memory_stream_pair()
        server, client = TlsPeerStream(theirs, TestTls().context), crafted("TLSv1.3")

        async def other() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.shake_hands, ours.send_all, ours.receive_some)
            await server.shake_hands()
        await ours.send_all(b"".join(client.record(b"a") for _ in range(100)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            turns = 0
            for _ in range(100):
                assert await server.receive_some() == b"a"
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert turns >= 99


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Only what no cycle keeps is freed."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def count_of_tls() -> int:
    return sum(isinstance(one, ssl.SSLObject) for one in gc.get_objects())


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("how", ["at once", "plain", "within the handshake", "refused", "talked"])
def test_a_closed_connection_leaves_nothing_to_the_collector(how: str) -> None:
    """OpenSSL's memory for a connection is not counted by the collector, which thus comes late."""
    counts = []

    async def serve(listener: trio.abc.Listener[trio.abc.Stream]) -> None:
        theirs = await listener.accept()
        with suppress(trio.BrokenResourceError):
            await theirs.receive_some(100)
        await trio.aclose_forcefully(theirs)
        with pytest.raises(trio.ClosedResourceError):
            await theirs.send_all(b"late")

    async def connect(inner: OneListener, network: TlsNetwork) -> None:
        if how in ("talked", "refused"):
            with suppress(OSError):
                async with await network.connect("elsewhere" if how == "refused" else "localhost", 1) as ours:
                    await ours.send_all(b"question")
            return
        async with await inner.connect("localhost", 1) as raw:
            if how != "at once":
                await raw.send_all(b"no TLS" if how == "plain" else crafted_hello()[:50])

    async def main() -> None:
        inner = OneListener()
        network = with_tls(inner, client_of())
        [listener] = await network.listen("", 0)
        for _ in range(3):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve, listener)
                await connect(inner, network)
            counts.append(count_of_tls())

    before = count_of_tls()
    trio.run(main)
    assert counts == [before] * 3


def crafted_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        client_of().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()
