"""The client's sockets under each asyncio loop: frames of all sizes arrive whole, in whatever pieces they come."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from sniffio import current_async_library

from minikafka.client.connections.asyncio_socket import open_stream
from minikafka.protocol.frame import FIRST_SIZE_BYTES, GROWTH_SIZE_BYTES, FrameReader

SIZES = [
    1,
    FIRST_SIZE_BYTES - 4,
    FIRST_SIZE_BYTES + 1,
    300_000,
    GROWTH_SIZE_BYTES,
    GROWTH_SIZE_BYTES + 1,
    5 * GROWTH_SIZE_BYTES + 7,
    2,
]
PIECES = [50, 70_000, 10 << 20]
MIB = 1 << 20


def run_in_uvloop(main: Coroutine[Any, Any, None]) -> None:
    uvloop = pytest.importorskip("uvloop")
    uvloop.run(main)


LOOPS: dict[str, Callable[[Coroutine[Any, Any, None]], None]] = {"asyncio": asyncio.run, "uvloop": run_in_uvloop}
PLACES = [name for name in LOOPS if name == "asyncio" or importlib.util.find_spec("uvloop")]


class Frames:
    """Keeps what is received."""

    address = "broker:9092"

    def __init__(self, count: int) -> None:
        self.frames = FrameReader(100 * MIB)
        self.received: list[bytearray] = []
        self.why = ""
        self.libraries: list[str] = []
        self.done = asyncio.Event()
        self._count = count

    def on_frame(self, frame: bytearray) -> None:
        self.received.append(frame)
        if len(self.received) == self._count:
            self.done.set()

    def on_sent(self) -> None:
        self.libraries.append(current_async_library())

    def on_lost(self, why: str) -> None:
        self.why = why
        self.done.set()


def body(number: int, size_bytes: int) -> bytes:
    return (b"%d," % number * (size_bytes // 2 + 1))[:size_bytes]


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize("loop", PLACES)
def test_frames_of_all_sizes_arrive_whole(loop: str, piece: int) -> None:
    bodies = [body(number, size) for number, size in enumerate(SIZES if piece > 50 else SIZES[:4])]
    sent = b"".join(len(one).to_bytes(4, "big") + one for one in bodies)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for position in range(0, len(sent), piece):
            writer.write(sent[position : position + piece])
            await writer.drain()
        await reader.read()
        writer.close()

    async def main() -> None:
        problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        receiver = Frames(len(bodies))
        stream = await open_stream(host, port, receiver)
        await asyncio.wait_for(receiver.done.wait(), 60)
        assert [bytes(one) for one in receiver.received] == bodies
        for frame in receiver.received:
            frame.append(0)  # Nobody refers to its memory any more.
        assert (problems, receiver.why) == ([], "")
        stream.close()
        server.close()

    gc.collect()
    LOOPS[loop](main())


@pytest.mark.parametrize("loop", PLACES)
def test_a_stream_is_full_until_its_peer_has_read(loop: str) -> None:
    async def main() -> None:
        reads, all_read = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reads.wait()
            await reader.readexactly(24 * MIB)
            all_read.set()
            await reader.read()  # The end of the client.
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        receiver = Frames(0)
        stream = await open_stream(host, port, receiver)
        assert not stream.is_full
        for _ in range(24):
            stream.write(bytes(MIB))
        await asyncio.sleep(0)
        assert (stream.is_full, receiver.libraries) == (True, [])
        reads.set()
        await asyncio.wait_for(all_read.wait(), 60)
        assert (stream.is_full, receiver.libraries) == (False, ["asyncio"])
        stream.close()
        assert stream.is_full
        server.close()

    LOOPS[loop](main())
