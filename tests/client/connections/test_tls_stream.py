"""TLS between a connection and its socket: frames across records, the end of a connection, and what brokers refuse."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Authority

from minikafka.client.connections.tls_stream import NoHandshake, TlsStream
from minikafka.protocol.errors import KafkaError, NetworkError, SslAuthenticationError
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.message import MalformedMessage

pytestmark = pytest.mark.anyio


class Received:
    """A receiver that keeps what it gets."""

    address = "broker:9092"

    def __init__(self) -> None:
        self.frames = FrameReader(10_000_000)
        self.whole: list[bytes] = []
        self.lost: list[str | KafkaError] = []

    def on_frame(self, frame: bytearray) -> None:
        self.whole.append(bytes(frame))

    def on_sent(self) -> None:
        """Nothing waits."""

    def on_lost(self, why: str | KafkaError) -> None:
        self.lost.append(why)


class Broker:
    """The other side, in memory: also the client's socket, whose bytes it gets at once."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.client: Any = None
        self.piece = 1 << 18
        self.got = b""
        self.is_closed = self.is_full = self.is_done = False

    def write(self, data: bytes) -> None:
        self.incoming.write(data)
        try:
            if not self.is_done:
                self.tls.do_handshake()
                self.is_done = True
            while True:
                self.got += self.tls.read(1 << 20)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self.is_done = False
        self.flush()

    def flush(self) -> None:
        """Send the client what there is, in pieces."""
        data = memoryview(self.outgoing.read())
        for start in range(0, len(data), self.piece):
            self.client.frames.feed(data[start : start + self.piece])

    def say(self, data: bytes) -> None:
        self.tls.write(data)
        self.flush()

    def close(self) -> None:
        self.is_closed = True


class World:
    """A broker with a certificate, and a client that trusts its authority."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority()
        path = self.authority.issue("CN=node").write_pem(folder / "node.pem")
        self.serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.serving.load_cert_chain(path)
        trusted = self.authority.issue("CN=x").authority_pem
        self.serving.load_verify_locations(cadata=trusted)
        self.trusting = ssl.create_default_context(cadata=trusted)

    async def connect(self, host: str = "localhost", piece: int = 1 << 18) -> tuple[TlsStream, Broker, Received]:
        receiver, broker = Received(), Broker(self.serving)
        stream = TlsStream(receiver, self.trusting, f"{host}:1", host)
        broker.client, broker.piece = stream, piece
        await stream.shake_hands(broker)
        return stream, broker, receiver


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("piece", [1, 7, 5_000, 1 << 18])
async def test_frames_arrive_whole_whatever_the_pieces(world: World, piece: int) -> None:
    stream, broker, receiver = await world.connect(piece=piece)
    bodies = [b"a", b"b" * 70_000, b"", b"c" * 3]
    broker.say(b"".join(framed(body) for body in bodies if body))
    assert receiver.whole == [body for body in bodies if body]
    stream.write(b"request" * 10_000)
    assert broker.got == b"request" * 10_000
    assert not stream.is_full
    broker.is_full = True
    assert stream.is_full


async def test_an_unencrypted_byte_ends_the_connection(world: World) -> None:
    stream, broker, receiver = await world.connect()
    broker.say(framed(b"x"))
    stream.frames.feed(memoryview(b"\x17\x03\x03\x00\x20" + bytes(32)))
    assert (len(receiver.lost), type(receiver.lost[0]), broker.is_closed) == (1, NetworkError, True)
    stream.write(b"nothing")
    stream.on_lost("closed here")
    assert len(receiver.lost) == 1


async def test_a_malformed_frame_is_an_error_of_the_protocol(world: World) -> None:
    _, broker, receiver = await world.connect()
    broker.tls.write(framed(b"x") + b"\xff" * 8)
    with pytest.raises(MalformedMessage, match="frame size -1"):
        broker.flush()
    assert receiver.whole == [b"x"]


@pytest.mark.timeout(60)
async def test_a_broker_that_says_goodbye_has_closed_the_connection(world: World) -> None:
    _, broker, receiver = await world.connect()
    with pytest.raises(ssl.SSLWantReadError):
        broker.tls.unwrap()
    broker.flush()
    assert receiver.lost == ["the broker closed the connection"]


async def test_a_lost_connection_keeps_the_reason(world: World) -> None:
    stream, _, receiver = await world.connect()
    stream.on_lost("no route")
    assert receiver.lost == ["no route"]


async def test_the_certificate_of_another_host_is_refused(world: World) -> None:
    with pytest.raises(SslAuthenticationError, match=r"elsewhere:1 is not trusted: Hostname mismatch.*connect by"):
        await world.connect("elsewhere")


async def test_the_certificate_of_another_authority_is_refused(world: World) -> None:
    world.trusting = ssl.create_default_context(cadata=Authority().issue("CN=x").authority_pem)
    with pytest.raises(SslAuthenticationError, match=r"localhost:1 is not trusted: .*ssl\.truststore\.location"):
        await world.connect()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_broker_that_misses_a_certificate_says_so(world: World, version: ssl.TLSVersion) -> None:
    """Under TLS 1.3 after the handshake of the client, with its first answer."""
    world.serving.verify_mode = ssl.CERT_REQUIRED
    world.trusting.maximum_version = version
    receiver, broker = Received(), Broker(world.serving)
    stream = TlsStream(receiver, world.trusting, "localhost:1", "localhost")
    broker.client = stream
    with suppress(SslAuthenticationError):
        await stream.shake_hands(broker)
    assert [type(failure) for failure in receiver.lost] == [SslAuthenticationError]
    assert "refused the TLS handshake: " in str(receiver.lost[0])
    assert "ask for a certificate of the client" in str(receiver.lost[0])


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n", b"\x00\x00\x00\x01x", b"SSH-2.0-x\r\n"])
async def test_a_broker_that_does_not_speak_tls_is_named(world: World, answer: bytes) -> None:
    receiver = Received()
    stream = TlsStream(receiver, world.trusting, "localhost:1", "localhost")

    class Other(Broker):
        def write(self, data: bytes) -> None:
            stream.frames.feed(memoryview(answer))

    with pytest.raises(SslAuthenticationError, match=r"localhost:1 does not speak TLS .*must be PLAINTEXT or SASL"):
        await stream.shake_hands(Other(world.serving))


async def test_a_broker_that_hangs_up_in_place_of_a_handshake(world: World) -> None:
    stream = TlsStream(Received(), world.trusting, "localhost:1", "localhost")

    class Other(Broker):
        def write(self, data: bytes) -> None:
            stream.on_lost("the broker closed the connection")

    with pytest.raises(NoHandshake, match="the broker closed the connection, in place of a TLS handshake"):
        await stream.shake_hands(Other(world.serving))
