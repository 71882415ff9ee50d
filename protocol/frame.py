"""Frames: a 4-byte size, then so many bytes. Bytes in, whole frames out; no socket in sight.

A frame's buffer is writable, because a produced batch gets its offset and leader epoch in place, and it grows as its
bytes arrive: a peer that announces 100 MiB and sends nothing has cost a few hundred bytes.
"""

from minikafka.protocol.message import MalformedMessage

GROWTH_SIZE_BYTES = 1 << 20


class OversizedFrame(MalformedMessage):
    """A size that is not positive or above the limit; the connection cannot go on."""


class FrameReader:
    """Cuts one connection's byte stream into frames.

    Args:
        size_bytes_max: Larger frames are refused (`socket.request.max.bytes`).
    """

    __slots__ = ("_body", "_filled", "_prefix", "_size", "size_bytes_max")

    def __init__(self, size_bytes_max: int) -> None:
        self.size_bytes_max = size_bytes_max
        self._prefix = b""
        self._body: bytearray | None = None
        self._size = 0
        self._filled = 0

    @property
    def target(self) -> memoryview | None:
        """Where the next bytes may be received directly: the rest of a frame begun; None between frames.

        Release the view before the reader is used again: the buffer behind it grows.
        """
        if self._body is None:
            return None
        if self._filled == len(self._body):
            self._body.extend(bytes(min(self._size - self._filled, max(GROWTH_SIZE_BYTES, self._filled))))
        return memoryview(self._body)[self._filled :]

    def received(self, count: int) -> bytearray | None:
        """`count` bytes were put into `target`.

        Returns:
            The frame without its size, if that made it whole.
        """
        assert self._body is not None, "nothing was asked for"
        self._filled += count
        if self._filled < self._size:
            return None
        frame, self._body = self._body, None
        return frame

    def feed(self, data: memoryview) -> list[bytearray]:
        """Take bytes that came between frames, or with the rest of one.

        Returns:
            The frames that they completed, sizes stripped.

        Raises:
            OversizedFrame: The reader is of no use afterwards.
        """
        frames: list[bytearray] = []
        position = self._take_whole(data, frames) if self._body is None and not self._prefix else 0
        while position < len(data):
            if self._body is None:
                position = self._begin(data, position)
            target = self.target
            if target is None:
                break
            count = min(len(target), len(data) - position)
            target[:count] = data[position : position + count]
            target.release()
            position += count
            frame = self.received(count)
            if frame is not None:
                frames.append(frame)
        return frames

    def _take_whole(self, data: memoryview, frames: list[bytearray]) -> int:
        """Whole frames at the beginning of `data`, as nearly all come; returns where they end."""
        position, size = 0, len(data)
        while size - position > 4:
            end = position + 4 + self._checked(data[position : position + 4])
            if end > size:
                break
            frames.append(bytearray(data[position + 4 : end]))
            position = end
        return position

    def _checked(self, prefix: bytes | memoryview) -> int:
        size = int.from_bytes(prefix, "big", signed=True)
        if not 0 < size <= self.size_bytes_max:
            raise OversizedFrame(f"a frame of {size} bytes; allowed are 1 to {self.size_bytes_max}")
        return size

    def _begin(self, data: memoryview, position: int) -> int:
        taken = min(4 - len(self._prefix), len(data) - position)
        self._prefix += bytes(data[position : position + taken])
        if len(self._prefix) == 4:
            size = self._checked(self._prefix)
            self._prefix, self._size, self._filled = b"", size, 0
            self._body = bytearray(min(size, GROWTH_SIZE_BYTES))
        return position + taken
