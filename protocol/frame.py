"""Splits a byte stream into frames: a 4-byte size, then that many bytes; recognizes foreign protocols. No I/O.

A frame's buffer is writable, because offset and leader epoch are set in place in produced batches. The buffer grows as
bytes arrive: a peer that announces 100 MiB and sends nothing occupies at most `FIRST_SIZE_BYTES`, and at most
`GROWTH_SIZE_BYTES` once the frame's `target` has been read.
"""

from minikafka.protocol.errors import again, without_frames
from minikafka.protocol.message import MalformedMessage

FIRST_SIZE_BYTES = 64 << 10
GROWTH_SIZE_BYTES = 1 << 20
_ZEROS = memoryview(bytes(GROWTH_SIZE_BYTES))


class OversizedFrame(MalformedMessage):
    """A frame size is not positive, or above the limit; the connection must be closed."""


class TlsAlert(OversizedFrame):
    """In place of a frame there is an alert of TLS, with which a listener of TLS answers plain text."""


HTTP = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN")
TLS = b"\x16\x03"
"""The first bytes of a TLS handshake."""
_TLS_ALERT = b"\x15\x03"
"""The first bytes of a TLS alert."""


def _hint(prefix: bytes) -> str:
    """The end of the error text, with the protocol that the client seems to speak instead of Kafka's; "" if unknown."""
    if prefix in HTTP:
        return "; this is an HTTP request, and the port speaks Kafka's protocol (metrics: see metrics.listener)"
    if prefix.startswith(TLS):
        return "; this is a TLS handshake, and the listener has no TLS (client: security.protocol=PLAINTEXT)"
    return ""


class FrameReader:
    """Splits the byte stream of a connection into frames.

    Args:
        size_bytes_max: the maximum frame size (`socket.request.max.bytes`).
    """

    __slots__ = ("_body", "_filled", "_oversized", "_prefix", "_size", "size_bytes_max")

    def __init__(self, size_bytes_max: int) -> None:
        self.size_bytes_max = size_bytes_max
        self._prefix = b""
        self._body: bytearray | None = None
        self._size = 0
        self._filled = 0
        self._oversized: OversizedFrame | None = None

    @property
    def is_partial(self) -> bool:
        """Whether a part of a frame was received.

        Raises:
            OversizedFrame: as `feed`; the frames before it were returned.
        """
        if self._oversized is not None:
            raise again(self._oversized)
        return self._body is not None

    @property
    def target(self) -> memoryview | None:
        """The buffer for the rest of a partial frame, for `recv_into`; None between frames.

        Release the view before the next call: the underlying buffer grows.

        Raises:
            OversizedFrame: as `feed`; the frames before it were returned.
        """
        if self._oversized is not None:
            raise again(self._oversized)
        if self._body is None:
            return None
        if self._filled == len(self._body):
            self._grow(self._body, min(self._size, max(GROWTH_SIZE_BYTES, 2 * self._filled)))
        return memoryview(self._body)[self._filled :]

    @staticmethod
    def _grow(body: bytearray, size: int) -> None:
        """Extend to `size` bytes, without a second buffer of that size beside it."""
        while len(body) < size:
            body.extend(_ZEROS[: size - len(body)])

    @property
    def partial(self) -> tuple[int, int]:
        """The size of a partial frame, and how many bytes of it have arrived. (0, 0) between frames."""
        return (0, 0) if self._body is None else (self._size, self._filled)

    def received(self, count: int) -> bytearray | None:
        """Note that the caller has written `count` bytes to `target`.

        Returns:
            The frame without its size, if it is now complete.
        """
        assert self._body is not None, "no partial frame"
        self._filled += count
        if self._filled < self._size:
            return None
        frame, self._body = self._body, None
        return frame

    def feed(self, data: memoryview) -> list[bytearray]:
        """Process received bytes.

        Returns:
            The frames that are now complete, without their sizes.

        Raises:
            OversizedFrame: the reader must not be used afterwards. If there are frames before it, they are returned,
                and the next call or `target` raises.
        """
        if self._oversized is not None:
            raise again(self._oversized)
        if self._body is None and not self._prefix:
            size = int.from_bytes(data[:4], "big")
            if 0 < size == len(data) - 4 <= self.size_bytes_max:
                return [bytearray(data[4:])]  # The usual case.
        frames: list[bytearray] = []
        try:
            self._split(data, frames)
        except OversizedFrame as error:
            if not frames:
                raise
            self._oversized = without_frames(error)
        return frames

    def _split(self, data: memoryview, frames: list[bytearray]) -> None:
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

    def _take_whole(self, data: memoryview, frames: list[bytearray]) -> int:
        """Complete frames at the beginning of `data`, the usual case; returns the position after them."""
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
            hint = _hint(bytes(prefix))
            kind = TlsAlert if bytes(prefix[:2]) == _TLS_ALERT else OversizedFrame
            raise kind(f"frame size {size}; it must be 1 to {self.size_bytes_max} bytes{hint}")
        return size

    def _begin(self, data: memoryview, position: int) -> int:
        taken = min(4 - len(self._prefix), len(data) - position)
        self._prefix += bytes(data[position : position + taken])
        if len(self._prefix) == 4:
            size = self._checked(self._prefix)
            self._prefix, self._size, self._filled = b"", size, 0
            self._body = bytearray(min(size, max(FIRST_SIZE_BYTES, len(data) - position - taken)))
        return position + taken
