"""The requests and responses of one connection, without its socket: bytes in, responses out, and what to do next.

`Connection` moves the bytes and waits; each `Event` is a method that it calls here. The state says what it does next::

    RECEIVING ──► what is not done at once: SENDING, MUTED, FAILED, ANSWERING, READY, LOADING ──► RECEIVING
        │
        ├── a fetch finds too little ──► PARKED ── the response is there ──► SENDING ──► RECEIVING
        │                                   └── more bytes arrive ──► HELD ──┘
        └── the stream ends ──► CLOSED

While it is RECEIVING or PARKED, the connection watches its socket, and requests are answered at once in *turns* of the
task that watches all sockets. The other states are work for the connection's own task: the first of this order for
which there is something to do. So a response is not held back by a later request that waits, disconnects or finds no
memory.

As in Apache Kafka, the next request is not decoded before the last one is answered; there is no other flow control. A
malformed request ends the connection, since the start of the next frame is then unknown. A client over its quota gets
its response first, then the connection is muted for the throttle time (KIP-219).
"""

from collections.abc import Callable, Sequence
from enum import StrEnum, auto
from typing import Any, Protocol

from minikafka.broker.connections.long_polls import Parked, Receiver
from minikafka.broker.connections.ready_sockets import TURN_S
from minikafka.broker.connections.request_context import Answer, ConnectionInfo, Disconnect
from minikafka.broker.connections.stopwatch import Stopwatch
from minikafka.broker.connections.transport import SENDFILE_SIZE_BYTES_MIN
from minikafka.protocol.errors import without_frames
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.message import MalformedMessage
from minikafka.storage.waits import Begun, Rest

READY_BYTES_MAX = SENDFILE_SIZE_BYTES_MIN
"""Ready responses of this total size are sent before the next request of those received together is answered."""


class State(StrEnum):
    """What a connection does or waits for."""

    RECEIVING = auto()
    """No request is in progress: waits for bytes."""
    PARKED = auto()
    """The last request received waits for records in a group of `LongPolls`; watches for more bytes."""
    HELD = auto()
    """As `PARKED`, and more bytes have come: they are received after the response."""
    SENDING = auto()
    """Waits until the client takes responses."""
    MUTED = auto()
    """Waits for the end of the throttle time."""
    FAILED = auto()
    """The responses before the failure are sent: the connection is to be closed."""
    ANSWERING = auto()
    """A request has begun and has to wait."""
    READY = auto()
    """The next request is to be begun, after other tasks have run."""
    LOADING = auto()
    """Waits for the rest of a request."""
    CLOSED = auto()
    """The stream has ended, or the connection was closed."""


class Event(StrEnum):
    """What happens to a connection; the value is the name of the method of `Exchange`."""

    RECEIVE = auto()
    FAIL = auto()
    HOLD = auto()
    DELIVER = auto()
    SENT = auto()
    UNMUTE = auto()
    ANSWERED = auto()
    PROCEED = auto()
    LOADED = auto()
    CLOSE = auto()


RECEIVING, PARKED, HELD, SENDING, MUTED, FAILED, ANSWERING, READY, LOADING, CLOSED = State
RECEIVE, FAIL, HOLD, DELIVER, SENT, UNMUTE, ANSWERED, PROCEED, LOADED, CLOSE = Event
"""Names for all of them: Python 3.11 looks members up in their class slowly, and each request needs several."""

_AFTER_A_REQUEST = frozenset({SENDING, MUTED, FAILED, READY, LOADING, RECEIVING})
TRANSITIONS: dict[State, dict[Event, frozenset[State]]] = {
    RECEIVING: {
        RECEIVE: _AFTER_A_REQUEST | {ANSWERING, PARKED, CLOSED},
        FAIL: frozenset({FAILED}),
    },
    PARKED: {
        HOLD: frozenset({HELD}),
        DELIVER: frozenset({SENDING, READY}),
    },
    HELD: {DELIVER: frozenset({SENDING, READY})},
    SENDING: {
        DELIVER: frozenset({SENDING}),
        SENT: _AFTER_A_REQUEST | {ANSWERING, PARKED},
    },
    MUTED: {UNMUTE: _AFTER_A_REQUEST - {SENDING, MUTED}},
    FAILED: {},
    ANSWERING: {ANSWERED: _AFTER_A_REQUEST},
    READY: {PROCEED: _AFTER_A_REQUEST | {ANSWERING}},
    LOADING: {LOADED: frozenset({LOADING, READY, CLOSED})},
    CLOSED: {},
}
"""The states in which an event may happen, and those that it may lead to. `CLOSE` closes in any state."""


class IllegalTransition(AssertionError):
    """An event or a transition that is not in the table, which is a bug in this package."""


class FrameHandler(Protocol):
    """Answers requests; in a node the `Dispatcher`."""

    def answer_now(
        self, frame: bytearray, connection: ConnectionInfo, receiver: Receiver | None
    ) -> Begun[Answer] | Parked:
        """Return the response to a frame and how long the connection is muted after it; or the rest of the work, which
        has to wait; or, only if `receiver` is given, a wait that delivers the response to `receiver`.

        Raises:
            MalformedMessage, Disconnect: The connection must be closed.
        """
        ...


class Exchange:
    """The requests and responses of one connection.

    Args:
        handler: Answers the requests, one at a time, in order.
        size_bytes_max: The largest request.
        clock: Seconds that only grow.
        stopwatch: Measures the requests; None without metrics.

    Attributes:
        state: What is to be done next.
        unsent_bytes: The size of the responses that `take` returns.
        throttle_ms: How long the connection is muted.
        failure: Why the connection is to be closed.
    """

    def __init__(
        self,
        handler: FrameHandler,
        info: ConnectionInfo,
        size_bytes_max: int,
        clock: Callable[[], float],
        stopwatch: Stopwatch | None = None,
    ) -> None:
        self.state = RECEIVING
        self.unsent_bytes = 0
        self.throttle_ms = 0
        self.failure: Exception | None = None
        self._handler = handler
        self._info = info
        self._clock = clock
        self._stopwatch = stopwatch
        self._reader = FrameReader(size_bytes_max)
        self._frames: list[bytearray] = []
        self._begun: Rest[Answer] | Parked | None = None
        self._unsent: list[Any] = []

    # -- events --------------------------------------------------------------------------------------------------

    def receive(self, data: memoryview, now_s: float, receiver: Receiver) -> None:
        """Take received bytes, or the end of the stream if there are none, and answer requests as far as possible.

        Args:
            now_s: The time on `clock`.
            receiver: Gets the response to a request that is parked.
        """
        allowed = self._allowed(RECEIVE)
        if not data:
            self.close()
            return
        if self._stopwatch is not None:
            self._stopwatch.arrived(now_s)
        try:
            self._frames = self._reader.feed(data)
            self._answer(now_s, receiver)
        except (MalformedMessage, Disconnect, MemoryError) as error:
            self.failure = without_frames(error)
        self._go_on(allowed)

    def fail(self, error: Exception) -> None:
        """No more bytes can be received."""
        allowed = self._allowed(FAIL)
        self.failure = without_frames(error)
        self._go_on(allowed)

    def hold(self) -> None:
        """More bytes have arrived while the last request is parked."""
        self._allowed(HOLD)
        self.state = HELD

    def deliver(self, parts: list[Any] | None) -> None:
        """Take the response to the parked request; None: the request is answered from its beginning."""
        allowed = self._allowed(DELIVER)
        parked, self._begun = self._begun, None
        assert isinstance(parked, Parked)
        if parts is None:
            self._frames = [parked.frame]
        else:
            self._ready(parts)
            if self._stopwatch is not None:
                self._stopwatch.answered(parts, 0, follows=self._info.follows)
        if self.state is not SENDING:
            self._go_on(allowed)

    def take(self) -> list[Any]:
        """Return the parts of the responses to be sent; call `sent` when they are sent."""
        parts, self._unsent, self.unsent_bytes = self._unsent, [], 0
        return parts

    def sent(self, left: Sequence[Any] = ()) -> None:
        """The responses that `take` returned are sent, except `left`."""
        allowed = self._allowed(SENT)
        if left:
            self._unsent[:0] = left
        self._go_on(allowed)

    def unmute(self) -> None:
        """The throttle time is over."""
        allowed = self._allowed(UNMUTE)
        self.throttle_ms = 0
        self._go_on(allowed)

    def take_rest(self) -> Rest[Answer]:
        """Return the rest of the request that has to wait; await it and call `answered`."""
        rest, self._begun = self._begun, None
        assert isinstance(rest, Rest)
        return rest

    def answered(self, answer: Answer, failure: Exception | None = None) -> None:
        """Take the response to the request that had to wait; with `failure`, the connection is closed after it."""
        allowed = self._allowed(ANSWERED)
        parts, self.throttle_ms = answer
        self._ready(parts)
        self.failure = failure
        if self._info.size_bytes_max is not None:
            self._reader.size_bytes_max = self._info.size_bytes_max
        if self._stopwatch is not None:
            self._stopwatch.answered(parts, self.throttle_ms, follows=self._info.follows)
        self._go_on(allowed)

    def proceed(self) -> None:
        """Answer further requests as far as possible, in the connection's task."""
        allowed = self._allowed(PROCEED)
        try:
            self._answer(self._clock(), None)
        except (MalformedMessage, Disconnect, MemoryError) as error:
            self.failure = without_frames(error)
        self._go_on(allowed)

    @property
    def partial(self) -> tuple[int, int]:
        """The size of the request that is loaded, and how many bytes of it have arrived."""
        return self._reader.partial

    @property
    def target(self) -> memoryview:
        """The buffer for the rest of the request; release it, then call `loaded`."""
        target = self._reader.target
        assert target is not None, "no request is loaded"
        return target

    def loaded(self, count: int) -> None:
        """`count` bytes were read into `target`; 0 at the end of the stream."""
        allowed = self._allowed(LOADED)
        if not count:
            self.close()
            return
        if frame := self._reader.received(count):
            self._frames = [frame]
            if self._stopwatch is not None:
                self._stopwatch.loaded()
        self._go_on(allowed)

    def close(self) -> None:
        """Give up what waits, and keep no bytes: who still has this object keeps no request."""
        begun, self._begun = self._begun, None
        if isinstance(begun, Parked):
            begun.withdraw()
        elif begun is not None:
            begun.close()
        self._reader, self._frames, self._unsent, self._stopwatch = FrameReader(0), [], [], None
        self.state = CLOSED

    # -- requests ------------------------------------------------------------------------------------------------

    def _answer(self, began_s: float, receiver: Receiver | None) -> None:
        """Answer requests up to the first that has to wait, and no more than other tasks may wait for."""
        frames, done, answered = self._frames, 0, 0
        try:
            for frame in frames:
                done += 1
                answer = self._handler.answer_now(frame, self._info, receiver if done == len(frames) else None)
                if not isinstance(answer, tuple):
                    self._begun = answer
                    if self._stopwatch is not None:
                        self._stopwatch.waits(frame, began_s)
                    break
                parts, self.throttle_ms = answer
                self._ready(parts)
                answered = done
                is_over = done < len(frames) and self._clock() - began_s > TURN_S
                if is_over or self.throttle_ms or self.unsent_bytes >= READY_BYTES_MAX:
                    break
        finally:
            self._frames = frames[done:]
            if self._stopwatch is not None and answered:
                self._stopwatch.answered_at_once(frames[:answered], self.unsent_bytes, self.throttle_ms, began_s)

    def _ready(self, parts: list[Any]) -> None:
        self._unsent += parts
        self.unsent_bytes += sum(map(len, parts))

    # -- states --------------------------------------------------------------------------------------------------

    def _allowed(self, event: Event) -> frozenset[State]:
        allowed = TRANSITIONS[self.state].get(event)
        if allowed is None:
            raise IllegalTransition(f"{event} of a connection that is {self.state}")
        return allowed

    def _go_on(self, allowed: frozenset[State]) -> None:
        state = self._next()
        if state not in allowed:
            raise IllegalTransition(f"a connection that is {self.state} cannot become {state}")
        self.state = state
        if self._stopwatch is not None and not self._unsent:
            self._stopwatch.sent()

    def _next(self) -> State:
        """Return what is to be done first."""
        if self._unsent:
            return SENDING
        if self.throttle_ms:
            return MUTED
        if self.failure is not None:
            return FAILED
        if self._begun is not None:
            return PARKED if isinstance(self._begun, Parked) else ANSWERING
        if self._frames:
            return READY
        try:
            return LOADING if self._reader.is_partial else RECEIVING
        except MalformedMessage as error:
            self.failure = without_frames(error)
            return FAILED
