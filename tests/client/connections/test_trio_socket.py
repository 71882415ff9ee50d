"""The client's socket under trio: all that is written arrives, whatever the kernel takes at once."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable

import trio
import trio.testing

from minikafka.client.connections import trio_socket
from minikafka.client.connections.stream import Stream
from minikafka.protocol.frame import FrameReader

MANY_BYTES = 24 << 20
"""More than the kernel keeps for both sides of a connection."""


class Heard:
    """Notes what comes."""

    def __init__(self) -> None:
        self.frames = FrameReader(1 << 30)
        self.got: list[bytes] = []
        self.lost: list[str] = []
        self.news = trio.Event()

    def on_frame(self, frame: bytearray) -> None:
        self.got.append(bytes(frame))
        self.news.set()

    def on_lost(self, why: str) -> None:
        self.lost.append(why)
        self.news.set()


def talk(story: Callable[[Stream, Heard, trio.SocketStream], Awaitable[None]]) -> Heard:
    """Run a story with a connection, its listener and the other end."""

    async def main() -> Heard:
        heard = Heard()
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            port = listener.socket.getsockname()[1]
            stream = await trio_socket.open_stream("127.0.0.1", port, heard, nursery)
            peer = await listener.accept()
            with trio.fail_after(30):
                await story(stream, heard, peer)
                stream.close()
            await peer.aclose()
            await listener.aclose()
        return heard

    return trio.run(main)


async def received(peer: trio.SocketStream, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        data += await peer.receive_some(1 << 20)
    return bytes(data)


def test_what_the_kernel_does_not_take_at_once_follows_in_order() -> None:
    parts = [bytes([number]) * (MANY_BYTES // 8) for number in range(8)]

    async def story(stream: Stream, _: Heard, peer: trio.SocketStream) -> None:
        for part in parts:
            stream.write(part)
        await trio.testing.wait_all_tasks_blocked()
        assert await received(peer, MANY_BYTES) == b"".join(parts)
        stream.write(b"after")
        assert await received(peer, 5) == b"after"

    talk(story)


def test_frames_come_whole_however_they_are_cut() -> None:
    frames = [b"small", b"x" * (3 << 20), b"y", b"z" * 300_000]
    data = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)

    async def story(_: Stream, heard: Heard, peer: trio.SocketStream) -> None:
        for start, end in ((0, 2), (2, 11), (11, 5000), (5000, len(data))):
            await peer.send_all(data[start:end])
            await trio.testing.wait_all_tasks_blocked()
        while len(heard.got) < len(frames):
            heard.news = trio.Event()
            await heard.news.wait()

    assert talk(story).got == frames


def test_whoever_listens_is_told_once_that_the_other_end_hung_up() -> None:
    async def story(stream: Stream, heard: Heard, peer: trio.SocketStream) -> None:
        await peer.aclose()
        await heard.news.wait()
        stream.write(b"nobody hears this")

    assert talk(story).lost == ["it hung up"]


def test_a_reset_is_told_with_its_reason() -> None:
    async def story(_: Stream, heard: Heard, peer: trio.SocketStream) -> None:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await peer.aclose()
        await heard.news.wait()

    (why,) = talk(story).lost
    assert "reset" in why
