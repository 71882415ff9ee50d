"""One client's connection: frames in, answers out, one request at a time, in order.

As Apache Kafka does, a connection's next request is not looked at before the last one is answered; that is the whole
of its flow control. A request that cannot be understood ends the connection: what follows it could not be trusted.
"""

from typing import TYPE_CHECKING, Any

import structlog
import trio

from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.request_context import Disconnect
from minikafka.broker.connections.transport import Transport
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.message import MalformedMessage

if TYPE_CHECKING:
    from collections.abc import Callable

log = structlog.get_logger("minikafka.connection")

REQUESTS_BETWEEN_CHECKPOINTS = 64
TURN_S = 0.002
"""A client that always has sent more already never blocks a read: the others get their turn after so long."""


class Connection:
    """A connection being served.

    Attributes:
        last_active: When something last moved on it, on trio's clock in seconds.
        busy: Whether a request of it is being answered.
    """

    def __init__(
        self,
        transport: Transport,
        dispatcher: Dispatcher,
        *,
        listener: str,
        size_bytes_max: int,
        current_time: "Callable[[], float]" = trio.current_time,
    ) -> None:
        self.transport = transport
        self.listener = listener
        self.scope = trio.CancelScope()
        self.busy = False
        self._dispatcher = dispatcher
        self._reader = FrameReader(size_bytes_max)
        self._current_time = current_time
        self.last_active = current_time()

    async def serve(self) -> None:
        """Until the client hangs up, breaks the protocol, or `scope` is cancelled. Closes the connection."""
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
        """Answer requests that came together, in order; their answers leave together too, a system call for all.

        Only what may take its time (a fetch that waits, a rebalance) does not hold back the answers before it.
        """
        ready: list[Any] = []
        for number, frame in enumerate(frames):
            if ready and (self._dispatcher.may_wait(frame) or number % REQUESTS_BETWEEN_CHECKPOINTS == 0):
                await self.transport.send(ready)
                ready = []
                await trio.lowlevel.checkpoint()
            ready += await self._dispatcher.answer(frame, self)
        if ready:
            await self.transport.send(ready)

    async def _receive(self) -> list[bytearray]:
        """The next whole frames, at least one; none at the end of the stream."""
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
