"""Frames between nodes on the controller listener: a 4-byte length and a msgpack map with a `kind`.

Each side sends a handshake first (`handshake.py`), then requests and responses, which are matched by number::

    {"kind": "hello", …}  or  {"kind": "refused", …}           the handshake
    {"kind": "ask", "id": 7, "what": "raft", "body": {…}}      a request, from either side
    {"kind": "answer", "id": 7, "body": {…}}                   its response

Trio: `FrameStream` reads from a stream.
"""

from collections import deque
from typing import Any

import msgpack
import trio

from minikafka.controller.quorum.frame_items import check_items
from minikafka.protocol.frame import FrameReader, OversizedFrame

__all__ = ["FrameStream", "MalformedFrame", "PushedBackStream", "decode_frame", "encode_frame", "is_request_of_kafka"]

READ_SIZE = 1 << 16
SNIFFED_SIZE = 5
"""The bytes that tell the protocols apart: the length and the first byte of a frame. The first byte of a msgpack map is
never 0; the first byte of an API key of Kafka always is."""
ITEMS_SIZE_MAX = 1 << 16
"""The most bytes of a frame that are not byte strings. The description of a quorum with 1,000 observers has 40,000;
records, snapshots and requests of Kafka's protocol are byte strings."""


class MalformedFrame(ValueError):
    """Bytes that are not a frame of this protocol: the connection must be closed."""


def encode_frame(frame: dict[str, Any]) -> bytes:
    """Encode a frame as bytes, with its length."""
    body: bytes = msgpack.packb(frame)
    return len(body).to_bytes(4, "big") + body


def decode_frame(data: bytes | bytearray) -> dict[str, Any]:
    """Decode a frame without its length into its map. Raises MalformedFrame, before a frame of many items takes
    memory."""
    try:
        check_items(data, ITEMS_SIZE_MAX)
        frame = msgpack.unpackb(data, strict_map_key=True)
    except (ValueError, msgpack.UnpackException) as error:
        raise MalformedFrame(f"a frame that cannot be read: {error}") from None
    if not isinstance(frame, dict) or not isinstance(frame.get("kind"), str):
        raise MalformedFrame("a frame must be a map with a kind")
    return frame


def is_request_of_kafka(start: bytes) -> bool | None:
    """Whether a connection that begins with these bytes speaks Kafka's protocol; None if they are too few to tell."""
    return start[SNIFFED_SIZE - 1] == 0 if len(start) >= SNIFFED_SIZE else None


class PushedBackStream(trio.abc.Stream):
    """A stream whose first bytes were read already, and are received again.

    Attributes:
        stream: the underlying stream.
    """

    def __init__(self, stream: trio.abc.Stream, received: bytes = b"") -> None:
        self.stream = stream
        self._received = received

    async def peek(self) -> None:
        """Wait until there is something to receive, or the end. Raises trio's errors of a broken stream."""
        if not self._received:
            self._received = bytes(await self.stream.receive_some(READ_SIZE))

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if not self._received:
            return await self.stream.receive_some(max_bytes)
        await trio.lowlevel.checkpoint()
        size = len(self._received) if max_bytes is None else max_bytes
        data, self._received = self._received[:size], self._received[size:]
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self.stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self.stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self.stream.aclose()


class FrameStream:
    """Reads frames from a stream.

    Args:
        stream: the stream to read from.
        size_max: the largest size of a frame in bytes.
        received: the bytes that were read from the stream before.
    """

    def __init__(self, stream: trio.abc.Stream, size_max: int, received: bytes = b"") -> None:
        self._stream = stream
        self._reader = FrameReader(size_max)
        self._frames: deque[bytearray] = deque()
        self._received = received

    def set_size_max(self, size_max: int) -> None:
        """Accept frames of up to `size_max` bytes from now on."""
        self._reader.size_bytes_max = size_max

    async def next(self) -> dict[str, Any] | None:
        """Read the next frame; None at the end. Raises MalformedFrame, and trio's errors of a broken stream."""
        while not self._frames:
            data, self._received = self._received, b""
            if not data and not (data := bytes(await self._stream.receive_some(READ_SIZE))):
                return None
            try:
                self._frames += self._reader.feed(memoryview(data))
            except OversizedFrame as error:
                raise MalformedFrame(str(error)) from None
        return decode_frame(self._frames.popleft())
