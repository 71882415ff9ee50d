"""One connection between two nodes, past its hello: both sides ask, both answer. Trio, because it is a stream.

Nothing here waits for the other side for ever: what is to be sent is bounded, and an `ask` that is given up on after
which nothing at all was heard closes the connection, since a network that was cut does not say so.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
import trio

from minikafka.controller.quorum.peer_frames import (
    BadFrame,
    Hello,
    decode_frame,
    encode_frame,
    hello_from,
    hello_map,
    objection,
)
from minikafka.protocol.frame import FrameReader, OversizedFrame

__all__ = ["Ask", "Link", "Lost", "OnAsk", "Refused", "Reply", "greet"]

log = structlog.get_logger("minikafka.peers")

READ_SIZE = 1 << 16
HELLO_SIZE_MAX = 1 << 16
UNSENT_SIZE_MAX = 64 << 20
UNANSWERED_MAX = 10_000
_GONE = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


class Lost(Exception):
    """The connection ended before the answer came: what was asked may have been done or not."""


class Refused(Exception):
    """One of the two must not talk to the other; the text is for whoever set them up."""


Reply = Callable[[Mapping[str, Any]], None]
"""Answers one question; once, at any time. Of no effect after the connection has ended."""
OnAsk = Callable[[int, str, dict[str, Any], Reply], None]
"""(Node that asks, what, body, reply): called for each question, and returns at once."""


@dataclass(slots=True, eq=False)
class Ask:
    """A question on its way."""

    done: trio.Event = field(default_factory=trio.Event)
    body: dict[str, Any] | None = None


class Frames:
    """A stream cut into frames."""

    def __init__(self, stream: trio.abc.Stream, size_max: int) -> None:
        self._stream = stream
        self._reader = FrameReader(size_max)
        self._waiting: deque[bytearray] = deque()

    def allow(self, size_max: int) -> None:
        """From now on, larger frames."""
        self._reader.size_bytes_max = size_max

    async def next(self) -> dict[str, Any] | None:
        """The next frame; None at the end. Raises BadFrame, and trio's errors of a broken stream."""
        while not self._waiting:
            data = await self._stream.receive_some(READ_SIZE)
            if not data:
                return None
            try:
                self._waiting += self._reader.feed(memoryview(data))
            except OversizedFrame as error:
                raise BadFrame(str(error)) from None
        return decode_frame(self._waiting.popleft())


async def greet(stream: trio.abc.Stream, frames: Frames, own: Hello, *, first: bool) -> Hello:
    """Exchange hellos; returns the other node's.

    Args:
        first: whether this side speaks first, because it opened the connection.

    Raises:
        Refused: by either side. The other has been told why.
        BadFrame, Lost, OSError, trio.BrokenResourceError: whoever is there is no node of ours, or is gone.
    """
    if first:
        await stream.send_all(encode_frame(hello_map(own)))
    frame = await frames.next()
    if frame is None:
        raise Lost("the connection was closed during the hello")
    if frame["kind"] == "refused":
        raise Refused(str(frame.get("reason")))
    other = hello_from(frame)
    reason = objection(own, other)
    if reason is not None:
        if not first:
            await stream.send_all(encode_frame({"kind": "refused", "reason": reason}))
        raise Refused(reason)
    if not first:
        await stream.send_all(encode_frame(hello_map(own)))
    return other


class Link:
    """See above. `run` serves it until it ends.

    Attributes:
        peer: the other node.
        heard: when something last came, on trio's clock.
    """

    def __init__(self, stream: trio.abc.Stream, frames: Frames, peer: int, on_ask: OnAsk) -> None:
        self.peer = peer
        self.heard = trio.current_time()
        self._stream = stream
        self._frames = frames
        self._on_ask = on_ask
        self._unsent: deque[bytes] = deque()
        self._unsent_size = 0
        self._something_to_send = trio.Event()
        self._asked: dict[int, Ask] = {}
        self._last_id = 0
        self._scope = trio.CancelScope()
        self._ended = False

    async def run(self) -> None:
        """Read and write until the connection ends, by whomever."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write)
                    await self._read()
                    nursery.cancel_scope.cancel()
        finally:
            self._ended = True
            for ask in self._asked.values():
                ask.done.set()
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._stream)

    def close(self) -> None:
        """End it; `run` returns."""
        self._scope.cancel()

    async def ask(self, what: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the other side. Raises Lost. Cancelled, the question may be answered or not."""
        if self._ended or len(self._asked) >= UNANSWERED_MAX:
            raise Lost(f"there is no connection to node {self.peer}")
        self._last_id += 1
        number, ask, asked_at = self._last_id, Ask(), trio.current_time()
        self._asked[number] = ask
        try:
            self._send({"kind": "ask", "id": number, "what": what, "body": body})
            await ask.done.wait()
        except trio.Cancelled:
            if self.heard <= asked_at:
                self.close()  # nothing has come since: what opens a new connection may find the other side again
            raise
        finally:
            del self._asked[number]
        if ask.body is None:
            raise Lost(f"the connection to node {self.peer} was lost")
        return ask.body

    def _send(self, frame: Mapping[str, Any]) -> None:
        data = encode_frame(frame)
        self._unsent.append(data)
        self._unsent_size += len(data)
        self._something_to_send.set()
        if self._unsent_size > UNSENT_SIZE_MAX:
            log.warning("a node does not read what it is sent", node=self.peer, unsent_bytes=self._unsent_size)
            self.close()

    async def _write(self) -> None:
        try:
            while True:
                await self._something_to_send.wait()
                data = b"".join(self._unsent)
                self._unsent.clear()
                self._unsent_size = 0
                self._something_to_send = trio.Event()
                await self._stream.send_all(data)
        except _GONE:
            self.close()

    async def _read(self) -> None:
        try:
            while (frame := await self._frames.next()) is not None:
                self.heard = trio.current_time()
                self._take(frame)
        except _GONE:
            return
        except BadFrame as error:
            log.error("a node sends what cannot be understood", node=self.peer, problem=str(error))

    def _take(self, frame: dict[str, Any]) -> None:
        kind, number, body = frame["kind"], frame.get("id"), frame.get("body")
        if not isinstance(number, int) or not isinstance(body, dict):
            raise BadFrame(f"a frame without id or body: {kind!r}")
        if kind == "answer":
            ask = self._asked.get(number)
            if ask is not None:
                ask.body = body
                ask.done.set()
        elif kind == "ask" and isinstance(what := frame.get("what"), str):
            self._on_ask(self.peer, what, body, self._reply_to(number))
        else:
            raise BadFrame(f"a frame of unknown kind {kind!r}")

    def _reply_to(self, number: int) -> Reply:
        def reply(body: Mapping[str, Any]) -> None:
            if not self._ended:
                self._send({"kind": "answer", "id": number, "body": body})

        return reply
