"""One client's connection: reads frames, sends responses, one request at a time, in order.

As in Apache Kafka, the next request is not decoded before the last one is answered; that is all the flow control there
is. A malformed request ends the connection: where the next frame begins could not be trusted. A client over its quota
gets its response first, then the connection is muted for the throttle time (KIP-219).
"""

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol

import structlog
import trio

from minikafka.broker.connections.before_waiting import BeforeWaiting
from minikafka.broker.connections.request_context import Answer, ConnectionInfo, Disconnect
from minikafka.broker.connections.transport import SENDFILE_SIZE_BYTES_MIN, Transport
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.message import MalformedMessage

log = structlog.get_logger("minikafka.connection")

REQUESTS_BETWEEN_CHECKPOINTS = 64
READY_BYTES_MAX = SENDFILE_SIZE_BYTES_MIN
"""Responses of this size are not held back for those of requests that were received with theirs."""
TURN_S = 0.002
"""Longest turn of a client whose next request has always arrived, so that its reads never block."""


class FrameHandler(Protocol):
    """Answers requests; in a node the `Dispatcher`."""

    def answer(self, frame: bytearray, connection: ConnectionInfo) -> Coroutine[Any, Any, Answer]:
        """The response to a frame, and how long the connection is muted after it.

        Raises:
            MalformedMessage, Disconnect: The connection must be closed.
        """
        ...


class Connection:
    """A connection being served.

    Attributes:
        last_active: When a request or response last moved, in seconds of `current_time`.
        busy: Whether a request is being answered, or the connection is muted.
        info: The addresses of both ends, and the listener.
    """

    def __init__(
        self,
        transport: Transport,
        handler: FrameHandler,
        *,
        listener: str,
        size_bytes_max: int,
        current_time: Callable[[], float] = trio.current_time,
    ) -> None:
        self.transport = transport
        self.info = ConnectionInfo(listener, transport.peer_host, transport.local_host, transport.local_port)
        self.scope = trio.CancelScope()
        self.busy = False
        self._handler = handler
        self._reader = FrameReader(size_bytes_max)
        self._current_time = current_time
        self._rest_sent: trio.Event | None = None
        self.last_active = current_time()

    async def serve(self) -> None:
        """Serve until the client disconnects, violates the protocol, or `scope` is cancelled; then close."""
        try:
            with self.scope:
                await self._serve()
        except (MalformedMessage, Disconnect) as error:
            log.info("connection closed", client=self.transport.peer_host, reason=str(error))
        except ConnectionError as error:
            log.debug("connection lost", client=self.transport.peer_host, reason=str(error))
        except OSError as error:
            log.error("connection closed", client=self.transport.peer_host, reason=str(error))
        finally:
            self.transport.close()

    async def _serve(self) -> None:
        turn_began, waits = self.last_active, 0
        while frames := await self._receive():
            self.last_active = self._current_time()
            if self.transport.waits != waits:
                turn_began, waits = self.last_active, self.transport.waits
            elif self.last_active - turn_began > TURN_S:
                await trio.lowlevel.checkpoint()
                turn_began = self._current_time()
            self.busy = True
            await self._answer(frames)
            self.busy = False
            self.last_active = self._current_time()

    async def _answer(self, frames: list[bytearray]) -> None:
        """Answer requests that were received together, in order, and send their responses together in one system call.

        Responses are not held back by a later request that waits or disconnects, nor by a throttled one.
        """
        ready: list[Any] = []
        size_bytes = 0
        for number, frame in enumerate(frames):
            if size_bytes >= READY_BYTES_MAX or (ready and number % REQUESTS_BETWEEN_CHECKPOINTS == 0):
                await self._send(ready)
                ready, size_bytes = [], 0
                await trio.lowlevel.checkpoint()
            parts, throttle_ms = await self._answer_after(ready, frame)
            ready += parts
            if len(frames) > 1:
                size_bytes += sum(map(len, parts))
            if throttle_ms > 0:
                await self._throttle(ready, throttle_ms)
                ready, size_bytes = [], 0
        if ready:
            await self._send(ready)

    async def _answer_after(self, ready: list[Any], frame: bytearray) -> Answer:
        """Answer a request. Earlier responses are sent, and `ready` is empty, once it waits or disconnects."""
        if not ready:
            return await self._handler.answer(frame, self.info)
        try:
            return await BeforeWaiting(self._handler.answer(frame, self.info), partial(self._send_now, ready))
        except (MalformedMessage, Disconnect):
            await self._send(ready)
            raise

    def _send_now(self, ready: list[Any]) -> None:
        """Send without waiting; a task sends what the kernel does not take. `ready` is empty afterwards."""
        left = self.transport.send_now(ready)
        ready.clear()
        self.last_active = self._current_time()
        if left:
            assert self._rest_sent is None or self._rest_sent.is_set(), "responses out of order"
            self._rest_sent = trio.Event()
            trio.lowlevel.spawn_system_task(self._send_rest, left, self._rest_sent)

    async def _send_rest(self, left: Sequence[Any], sent: trio.Event) -> None:
        try:
            await self.transport.send(left)
        except (OSError, trio.ClosedResourceError):
            self.scope.cancel()
        finally:
            sent.set()

    async def _send(self, ready: list[Any]) -> None:
        if self._rest_sent is not None:
            await self._rest_sent.wait()
        if ready:
            await self.transport.send(ready)

    async def _throttle(self, ready: list[Any], throttle_ms: int) -> None:
        """Send the responses, then read and answer nothing for the throttle time (KIP-219)."""
        if ready:
            await self._send(ready)
            self.last_active = self._current_time()
        await trio.sleep(throttle_ms / 1000)

    async def _receive(self) -> list[bytearray]:
        """The next complete frames, at least one; none at the end of the stream."""
        while True:
            target = self._reader.target
            if target is None:
                data = await self.transport.receive_some()
                if not data:
                    return []
                if frames := self._reader.feed(data):
                    return frames
                continue
            with target:
                count = await self.transport.receive_into(target)
            if not count:
                return []
            if frame := self._reader.received(count):
                return [frame]
