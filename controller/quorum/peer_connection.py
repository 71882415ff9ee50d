"""One connection between two nodes after the handshake: requests and responses in both directions. Trio: a stream.

A connection never waits for ever for the other node. Unsent data is bounded. If a request is cancelled and no frame has
arrived since it was sent, the connection is closed, because a network partition gives no other sign.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
import trio

from minikafka.controller.failures import FAILURES
from minikafka.controller.quorum.handshake import ConnectionLost
from minikafka.controller.quorum.peer_frames import FrameStream, MalformedFrame, encode_frame

__all__ = ["OnRequest", "PeerConnection", "Reply"]

log = structlog.get_logger("minikafka.peers")

UNSENT_SIZE_MAX = 64 << 20
PENDING_MAX = 10_000
_CONNECTION_ERRORS = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)

Reply = Callable[[Mapping[str, Any]], None]
"""Sends the response to one request; to be called once, at any time. No effect after the connection has ended."""
OnRequest = Callable[[int, str, dict[str, Any], Reply], None]
"""Handles a request, given the sending node, the kind of request, the body and the reply; returns at once."""


@dataclass(slots=True, eq=False)
class PendingRequest:
    """A request that waits for its response; None if the connection ended first."""

    done: trio.Event = field(default_factory=trio.Event)
    response: dict[str, Any] | None = None


class PeerConnection:
    """A connection to another node. `run` serves it until it ends.

    Attributes:
        peer: the id of the other node.
        last_frame_at: the time at which the last frame arrived, in seconds of trio's clock.
    """

    def __init__(self, stream: trio.abc.Stream, frames: FrameStream, peer: int, on_request: OnRequest) -> None:
        self.peer = peer
        self.last_frame_at = trio.current_time()
        self._stream = stream
        self._frames = frames
        self._on_request = on_request
        self._unsent: deque[bytes] = deque()
        self._unsent_size = 0
        self._something_to_send = trio.Event()
        self._pending: dict[int, PendingRequest] = {}
        self._last_id = 0
        self._scope = trio.CancelScope()
        self._ended = False

    async def run(self) -> str:
        """Read and write until either node closes the connection; returns what was wrong with a frame, else ""."""
        malformed = ""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, nursery.cancel_scope)
                    malformed = await self._read()
                    nursery.cancel_scope.cancel()
        finally:
            self._ended = True
            for pending in self._pending.values():
                pending.done.set()
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(self._stream)
        return malformed

    @property
    def closed_here(self) -> bool:
        """Whether this node has closed the connection, by `close`."""
        return self._scope.cancel_called

    def close(self) -> None:
        """Close the connection; `run` returns."""
        self._scope.cancel()

    async def request(self, kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and wait for the response. Raises ConnectionLost. After cancellation the request may be
        carried out or not."""
        if self._ended or len(self._pending) >= PENDING_MAX:
            raise ConnectionLost(f"there is no connection to node {self.peer}")
        self._last_id += 1
        number, pending, sent_at = self._last_id, PendingRequest(), trio.current_time()
        self._pending[number] = pending
        try:
            self._send({"kind": "ask", "id": number, "what": kind, "body": body})
            await pending.done.wait()
        except trio.Cancelled:
            if self.last_frame_at <= sent_at:
                self.close()  # no frame has arrived since: a new connection may reach the other node again
            raise
        finally:
            del self._pending[number]
        if pending.response is None:
            raise ConnectionLost(f"the connection to node {self.peer} was lost")
        return pending.response

    def _send(self, frame: dict[str, Any]) -> None:
        data = encode_frame(frame)
        self._unsent.append(data)
        self._unsent_size += len(data)
        self._something_to_send.set()
        if self._unsent_size > UNSENT_SIZE_MAX:
            log.warning("peer disconnected", reason="send buffer full", node=self.peer, unsent_bytes=self._unsent_size)
            self.close()

    async def _write(self, scope: trio.CancelScope) -> None:
        try:
            while True:
                await self._something_to_send.wait()
                data = b"".join(self._unsent)
                self._unsent.clear()
                self._unsent_size = 0
                self._something_to_send = trio.Event()
                await self._stream.send_all(data)
        except _CONNECTION_ERRORS:
            scope.cancel()

    async def _read(self) -> str:
        """Handle frames until the end; returns what was wrong with one, else ""."""
        try:
            while (frame := await self._frames.next()) is not None:
                self.last_frame_at = trio.current_time()
                self._handle(frame)
                del frame  # It may be large, and the next one may be long in coming.
        except _CONNECTION_ERRORS:
            return ""
        except MalformedFrame as error:
            return str(error)
        except Exception:
            log.exception("peer disconnected", reason="request failed", node=self.peer)
            FAILURES["peer"] += 1
        return ""

    def _handle(self, frame: dict[str, Any]) -> None:
        kind, number, body = frame["kind"], frame.get("id"), frame.get("body")
        if not isinstance(number, int) or not isinstance(body, dict):
            raise MalformedFrame(f"frame of kind {kind!r} without id or body")
        if kind == "answer":
            pending = self._pending.get(number)
            if pending is not None:
                pending.response = body
                pending.done.set()
        elif kind == "ask" and isinstance(what := frame.get("what"), str):
            self._on_request(self.peer, what, body, self._reply_to(number))
        else:
            raise MalformedFrame(f"frame of unknown kind {kind!r}")

    def _reply_to(self, number: int) -> Reply:
        def reply(body: Mapping[str, Any]) -> None:
            if not self._ended:
                self._send({"kind": "answer", "id": number, "body": body})

        return reply
