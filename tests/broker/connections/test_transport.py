"""`SocketTransport`: large messages move in steps, whatever the kernel takes at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from minikafka.broker.connections.transport import PIECE_SIZE_BYTES_MIN, STEP_SIZE_BYTES, SocketTransport
from minikafka.storage.disk import FileSlice, RealDisk

SIZE_BYTES = 40 << 20


class FastSocket:
    """A socket that gives and takes everything at once."""

    def fileno(self) -> int:
        return -1

    def setblocking(self, flag: bool) -> None: ...

    def setsockopt(self, *_: int) -> None: ...

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", 1

    getsockname = getpeername

    def send(self, data: memoryview, flags: int = 0) -> int:
        return len(data)

    def recv_into(self, target: memoryview, size: int = 0) -> int:
        return size or len(target)


async def receive(transport: SocketTransport, path: Path) -> None:
    left = memoryview(bytearray(SIZE_BYTES))
    while left:
        left = left[await transport.receive_into(left) :]


async def send_bytes(transport: SocketTransport, path: Path) -> None:
    await transport.send([b"head", bytes(SIZE_BYTES)])


async def send_file(transport: SocketTransport, path: Path) -> None:
    path.write_bytes(bytes(SIZE_BYTES))
    await transport.send([b"head", FileSlice(RealDisk().open(str(path)), 0, SIZE_BYTES)])


@pytest.mark.parametrize("move", [receive, send_bytes, send_file])
def test_others_run_while_a_large_message_moves(
    move: Callable[[SocketTransport, Path], Awaitable[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sendfile", lambda to, source, position, count: count)
    raw: Any = FastSocket()
    rounds = 0

    async def other() -> None:
        nonlocal rounds
        while True:
            await trio.lowlevel.checkpoint()
            rounds += 1

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            transport = SocketTransport(raw, memoryview(bytearray(1)))
            await move(transport, tmp_path / "file")
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert rounds >= SIZE_BYTES // STEP_SIZE_BYTES - 3


class RecordingSocket(FastSocket):
    def __init__(self) -> None:
        self.sent: list[tuple[memoryview, int]] = []

    def send(self, data: memoryview, flags: int = 0) -> int:
        self.sent.append((data, flags))
        return len(data)


LARGE = 5 << 20


@pytest.mark.parametrize("sizes", [[], [5], [5, 6], [PIECE_SIZE_BYTES_MIN], [1000] * 500, [9, LARGE, 9, 9, LARGE]])
def test_small_parts_are_joined_and_large_ones_are_not_copied(sizes: list[int]) -> None:
    raw: Any = RecordingSocket()
    parts = [bytes([number % 251]) * size for number, size in enumerate(sizes)]

    async def main() -> None:
        await SocketTransport(raw, memoryview(bytearray(1))).send(parts)

    trio.run(main)
    assert b"".join(data for data, _ in raw.sent) == b"".join(parts)
    sendings = len(raw.sent)
    assert sendings <= 2 + sum(sizes) // PIECE_SIZE_BYTES_MIN
    pieces = {id(data.obj): flags for data, flags in raw.sent}
    assert list(pieces.values()) == [socket.MSG_MORE] * (len(pieces) - 1) + [0] * bool(pieces)
    assert {id(part) for part in parts if len(part) == LARGE} <= set(pieces)
