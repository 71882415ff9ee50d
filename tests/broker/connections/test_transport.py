"""`SocketTransport`: large messages move in steps, whatever the kernel takes at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from minikafka.broker.connections.transport import (
    PIECE_SIZE_BYTES_MIN,
    SENDFILE_SIZE_BYTES_MIN,
    STEP_SIZE_BYTES,
    SocketTransport,
)
from minikafka.storage.disks.disk import FileSlice, RealDisk, RealFile

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


class CountingFile:
    """A file that knows how much of it was read."""

    path = "file"

    def __init__(self, file: RealFile) -> None:
        self._file = file
        self.read_bytes = 0

    def pread(self, position: int, size_bytes: int) -> bytes:
        self.read_bytes += size_bytes
        return self._file.pread(position, size_bytes)


class RecordingSocket(FastSocket):
    """Records the bytes and flags of each call, and the most that was read of `file` before it was sent."""

    def __init__(self, file: CountingFile | None = None) -> None:
        self.sent: list[tuple[memoryview, int]] = []
        self.sent_bytes = self.unsent_bytes_max = 0
        self._file = file

    def send(self, data: memoryview, flags: int = 0) -> int:
        if self._file is not None:
            self.unsent_bytes_max = max(self.unsent_bytes_max, self._file.read_bytes - self.sent_bytes)
        self.sent_bytes += len(data)
        self.sent.append((data, flags))
        return len(data)


LARGE = 5 << 20
SLICES_BYTES = 4 << 20


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


@pytest.mark.parametrize("head_bytes", [0, 50])
@pytest.mark.parametrize("size_bytes", [100, 1000, SENDFILE_SIZE_BYTES_MIN // 2, SENDFILE_SIZE_BYTES_MIN - 1])
def test_of_many_small_slices_few_are_in_memory(size_bytes: int, head_bytes: int, tmp_path: Path) -> None:
    """A client that does not read holds the bytes of two pieces, however many slices there are."""
    (tmp_path / "file").write_bytes(bytes(range(251)) * (size_bytes // 251 + 2))
    file: Any = CountingFile(RealDisk().open(str(tmp_path / "file")))
    parts: list[bytes | FileSlice] = []
    for number in range(SLICES_BYTES // size_bytes):
        parts += [bytes(head_bytes), FileSlice(file, number % 251, size_bytes)]
    raw: Any = RecordingSocket(file)

    async def main() -> None:
        await SocketTransport(raw, memoryview(bytearray(1))).send(parts)

    trio.run(main)
    assert raw.unsent_bytes_max <= 2 * (PIECE_SIZE_BYTES_MIN + SENDFILE_SIZE_BYTES_MIN)
    assert b"".join(data for data, _ in raw.sent) == b"".join(
        part.read() if isinstance(part, FileSlice) else part for part in parts
    )
    assert [flags for _, flags in raw.sent] == [socket.MSG_MORE] * (len(raw.sent) - 1) + [0]
    assert len(raw.sent) <= 1 + raw.sent_bytes // PIECE_SIZE_BYTES_MIN
