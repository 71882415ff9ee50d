"""One client's connection: moves the bytes between its transport and its `Exchange`, and waits where that has to wait.

A connection waits in `Transport.wait_while`, which calls its *turn* when bytes have arrived. The turn answers requests
that need no wait. The connection's task does what the states of the exchange ask for.
Uses trio: it waits, and is cancelled.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import structlog
import trio

from minikafka.broker.connections.activity import Activity
from minikafka.broker.connections.exchange import (
    PARKED,
    READY_BYTES_MAX,
    RECEIVING,
    SENDING,
    Exchange,
    FrameHandler,
    State,
)
from minikafka.broker.connections.request_context import ConnectionInfo, Disconnect, LastAnswer
from minikafka.broker.connections.request_memory import HeldRoom, RequestMemory
from minikafka.broker.connections.request_times import RequestTimes
from minikafka.broker.connections.stopwatch import Stopwatch
from minikafka.broker.connections.transport import Transport
from minikafka.controller.failures import FAILURES
from minikafka.controller.line_rate import LineRate
from minikafka.protocol.errors import again, without_frames
from minikafka.protocol.frame import GROWTH_SIZE_BYTES
from minikafka.protocol.message import MalformedMessage

log = structlog.get_logger("minikafka.connection")

UNCOUNTED_SIZE_BYTES_MAX = GROWTH_SIZE_BYTES
"""Requests up to this size need no room in `RequestMemory`, and so much of others is read before they wait for room.
Who sends a few bytes then holds none, and who holds room may wait for small requests, as a Produce for Fetches."""


class Connection:
    """Serves one client connection: reads requests, has them answered, and sends the responses in order.

    Attributes:
        activity: When bytes of a request or response moved.
        info: The addresses of both ends, and the listener.
        scope: Cancel it to close the connection.

    Args:
        lines: Limits the lines about clients that are disconnected; connections share it.
    """

    def __init__(
        self,
        transport: Transport,
        handler: FrameHandler,
        *,
        listener: str,
        size_bytes_max: int,
        memory: RequestMemory | None = None,
        times: RequestTimes | None = None,
        lines: LineRate | None = None,
    ) -> None:
        self.transport = transport
        self.info = ConnectionInfo(
            listener, transport.peer_host, transport.local_host, transport.local_port, transport.peer_port
        )
        self.scope = trio.CancelScope()
        self._lines = lines or LineRate(lambda: trio.current_time() * 1000)
        self._clock = trio.current_time if times is None else times.clock
        self.activity = Activity(transport, self._clock)
        stopwatch = None if times is None else Stopwatch(times, transport.polls)
        self._exchange = Exchange(handler, self.info, size_bytes_max, self._clock, stopwatch)
        self._memory = memory or RequestMemory()
        self._delivered = trio.Event()

    @property
    def busy(self) -> bool:
        """Whether a request is being answered, or the connection is muted."""
        return self._exchange.state not in (State.RECEIVING, State.CLOSED)

    @property
    def rooms_in_transfer(self) -> list[HeldRoom]:
        """The room of a large request whose client sends it or is to read the response, and of a large response."""
        is_transferring = self._exchange.state in (State.LOADING, State.SENDING)
        rooms = self.info.unsent, self.info.received if is_transferring else None
        return [room for room in rooms if room is not None]

    async def serve(self) -> None:
        """Serve until the client disconnects, violates the protocol, or `scope` is cancelled; then close."""
        try:
            with self.scope:
                if self.transport.handshake is not None:
                    self.info.principal = await self.transport.handshake()
                while self._exchange.state is not State.CLOSED:
                    await _STEPS[self._exchange.state](self)
        except (MalformedMessage, Disconnect) as error:
            if not (isinstance(error, Disconnect) and error.is_logged):
                self.log_closed(str(error))
            without_frames(error)
        except ConnectionError as error:
            log.debug("connection lost", client=self.transport.peer_host, reason=str(error))
            without_frames(error)
        except (OSError, MemoryError) as error:
            self.log_closed(str(error) or "no memory", of_system=True)
            without_frames(error)
        except Exception as error:
            log.exception("connection failed", client=self.transport.peer_host)
            without_frames(error)
            FAILURES["connection"] += 1
        finally:
            self._exchange.close()
            self.info.release_received()
            self.info.release_unsent()
            self.transport.close()

    def log_closed(self, reason: str, *, of_system: bool = False) -> None:
        """Log that the connection is closed, or count it; `of_system`: for an error of the operating system."""
        if more := self._lines.left_out():
            log.info("more connections closed", count=more)
        if self._lines.admits(self.transport.peer_host):
            (log.error if of_system else log.info)("connection closed", client=self.transport.peer_host, reason=reason)

    # -- turns ---------------------------------------------------------------------------------------------------

    def _turn(self) -> bool:
        """Read the received bytes and answer requests at once where possible; returns whether no work is left."""
        exchange = self._exchange
        if exchange.state is PARKED:
            exchange.hold()
            self._delivered = trio.Event()
            return False
        try:
            data = self.transport.receive_now()
        except BlockingIOError:
            return True
        except (OSError, MemoryError) as error:
            exchange.fail(error)
            return False
        self.activity.last_s = now_s = self._clock()
        exchange.receive(data, now_s, self)
        return self._sends_at_once()

    def deliver(self, parts: list[Any] | None) -> None:
        """Send the response to the parked request; None: the task answers the request. Implements `Receiver`."""
        before = self._exchange.state
        self._exchange.deliver(parts)
        self.activity.last_s = self._clock()
        if before is PARKED and not self._sends_at_once():
            self.transport.resume()
        self._delivered.set()

    def _sends_at_once(self) -> bool:
        """Send responses, unless they are large; returns whether no work is left for the task."""
        exchange = self._exchange
        if exchange.state is SENDING and exchange.unsent_bytes < READY_BYTES_MAX:
            exchange.sent(self.transport.send_now(exchange.take()))
        return exchange.state is RECEIVING or exchange.state is PARKED

    # -- the task ------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        self.info.release_received()
        self.activity.last_s = self._clock()
        await self.transport.wait_while(self._turn)

    async def _await_delivery(self) -> None:
        """Wait for the response to the parked request: bytes have arrived, but responses are sent in order."""
        if self.transport.peer_is_gone():
            raise ConnectionResetError("client disconnected during a request")
        await self._delivered.wait()

    async def _send(self) -> None:
        await self.transport.send(self._exchange.take())
        self.activity.last_s = self._clock()
        self.info.release_unsent()
        self._exchange.sent()

    async def _mute(self) -> None:
        await trio.sleep(self._exchange.throttle_ms / 1000)
        self._exchange.unmute()

    async def _fail(self) -> None:
        assert self._exchange.failure is not None
        raise again(self._exchange.failure)

    async def _answer(self) -> None:
        try:
            answer = await self._exchange.take_rest()
        except LastAnswer as last:
            self._exchange.answered((last.parts, 0), without_frames(last))
        else:
            self._exchange.answered(answer)

    async def _proceed(self) -> None:
        await trio.lowlevel.checkpoint()
        self._exchange.proceed()

    async def _load(self) -> None:
        size_bytes, received_bytes = self._exchange.partial
        if received_bytes >= UNCOUNTED_SIZE_BYTES_MAX and self.info.received is None:
            await self._memory.reserve(size_bytes)
            self.info.received = HeldRoom(self._memory, size_bytes)
        with self._exchange.target as target:
            count = await self.transport.receive_into(target)
        self._exchange.loaded(count)


_STEPS: dict[State, Callable[[Connection], Awaitable[None]]] = {
    State.RECEIVING: Connection._watch,
    State.PARKED: Connection._watch,
    State.HELD: Connection._await_delivery,
    State.SENDING: Connection._send,
    State.MUTED: Connection._mute,
    State.FAILED: Connection._fail,
    State.ANSWERING: Connection._answer,
    State.READY: Connection._proceed,
    State.LOADING: Connection._load,
}
"""What the task does in each state."""
