"""The client's socket under trio: all written bytes arrive, however few the kernel accepts at once."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import pytest
import trio
import trio.testing

from minikafka.client.connections import trio_socket
from minikafka.client.connections.stream import Stream
from minikafka.controller.quorum.peer_network import TcpNetwork
from minikafka.protocol.frame import FrameReader

MANY_BYTES = 24 << 20
"""More than the kernel's buffers of both sides of a connection."""


class RecordingReceiver:
    """Records frames and the loss of the connection."""

    address = "broker:9092"

    def __init__(self) -> None:
        self.frames = FrameReader(1 << 30)
        self.got: list[bytes] = []
        self.lost: list[str] = []
        self.sent = 0
        self.news = trio.Event()

    def on_frame(self, frame: bytearray) -> None:
        self.got.append(bytes(frame))
        self.news.set()

    def on_sent(self) -> None:
        self.sent += 1

    def on_lost(self, why: str) -> None:
        self.lost.append(why)
        self.news.set()


def run(scenario: Callable[[Stream, RecordingReceiver, trio.SocketStream], Awaitable[None]]) -> RecordingReceiver:
    """Run a scenario with a stream, its receiver and the peer's socket."""

    async def main() -> RecordingReceiver:
        receiver = RecordingReceiver()
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            port = listener.socket.getsockname()[1]
            stream = await trio_socket.open_stream("127.0.0.1", port, receiver, nursery)
            peer = await listener.accept()
            with trio.fail_after(30):
                await scenario(stream, receiver, peer)
                stream.close()
            await peer.aclose()
            await listener.aclose()
        return receiver

    return trio.run(main)


async def received(peer: trio.SocketStream, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        data += await peer.receive_some(1 << 20)
    return bytes(data)


def test_bytes_beyond_the_send_buffer_are_sent_in_order() -> None:
    parts = [bytes([number]) * (MANY_BYTES // 8) for number in range(8)]

    async def scenario(stream: Stream, receiver: RecordingReceiver, peer: trio.SocketStream) -> None:
        assert not stream.is_full
        for part in parts:
            stream.write(part)
        await trio.testing.wait_all_tasks_blocked()
        assert (stream.is_full, receiver.sent) == (True, 0)
        assert await received(peer, MANY_BYTES) == b"".join(parts)
        assert (stream.is_full, receiver.sent) == (False, 1)
        stream.write(b"after")
        assert await received(peer, 5) == b"after"

    run(scenario)


def test_frames_are_complete_however_the_bytes_are_split() -> None:
    frames = [b"small", b"x" * (3 << 20), b"y", b"z" * 300_000]
    data = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)

    async def scenario(_: Stream, receiver: RecordingReceiver, peer: trio.SocketStream) -> None:
        for start, end in ((0, 2), (2, 11), (11, 5000), (5000, len(data))):
            await peer.send_all(data[start:end])
            await trio.testing.wait_all_tasks_blocked()
        while len(receiver.got) < len(frames):
            receiver.news = trio.Event()
            await receiver.news.wait()

    assert run(scenario).got == frames


def test_the_receiver_is_notified_once_when_the_peer_closes() -> None:
    async def scenario(stream: Stream, receiver: RecordingReceiver, peer: trio.SocketStream) -> None:
        await peer.aclose()
        await receiver.news.wait()
        stream.write(b"after the end")
        assert stream.is_full

    assert run(scenario).lost == ["the broker closed the connection"]


def test_a_socket_that_fails_has_accepted_nothing() -> None:
    async def scenario(stream: Stream, receiver: RecordingReceiver, peer: trio.SocketStream) -> None:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await peer.aclose()
        for _ in range(2):
            stream.write(bytes(MANY_BYTES))
            assert stream.is_full
        await receiver.news.wait()

    receiver = run(scenario)
    assert (len(receiver.lost), receiver.sent) == (1, 0)


def test_a_reset_is_reported_with_its_reason() -> None:
    async def scenario(_: Stream, receiver: RecordingReceiver, peer: trio.SocketStream) -> None:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await peer.aclose()
        await receiver.news.wait()

    (why,) = run(scenario).lost
    assert "reset" in why


CONNECTS: list[Callable[[], Awaitable[object]]] = [
    lambda: trio_socket.open_stream("somewhere", 9092, None, None),  # type: ignore[arg-type]
    lambda: TcpNetwork().connect("somewhere", 9093),
]


@pytest.mark.parametrize("connect", CONNECTS, ids=["client", "controller"])
def test_a_name_that_no_thread_can_look_up_is_no_host_for_now(
    monkeypatch: pytest.MonkeyPatch, connect: Callable[[], Awaitable[object]]
) -> None:
    async def refused(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(trio, "open_tcp_stream", refused)
    with pytest.raises(OSError, match="can't start new thread"):
        trio.run(connect)
