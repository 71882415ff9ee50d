"""One client's connection: reads frames, sends responses, one request at a time, in order.

A connection waits in `Transport.wait_while`, which calls its *turn* when bytes have arrived. The turn answers requests
that need no wait. The connection's task does the rest: waits, large requests, and bytes that the socket did not take.

As in Apache Kafka, the next request is not decoded before the last one is answered; there is no other flow control. A
malformed request ends the connection, since the start of the next frame is then unknown. A client over its quota
gets its response first, then the connection is muted for the throttle time (KIP-219).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import structlog
import trio

from minikafka.broker.connections.long_polls import Parked, Receiver
from minikafka.broker.connections.ready_sockets import TURN_S
from minikafka.broker.connections.request_context import Answer, ConnectionInfo, Disconnect
from minikafka.broker.connections.request_memory import HeldRoom, RequestMemory
from minikafka.broker.connections.request_times import Measured, RequestTimes
from minikafka.broker.connections.transport import SENDFILE_SIZE_BYTES_MIN, STEP_SIZE_BYTES, Transport
from minikafka.controller.failures import FAILURES
from minikafka.protocol.errors import again, without_frames
from minikafka.protocol.frame import GROWTH_SIZE_BYTES, FrameReader
from minikafka.protocol.message import MalformedMessage
from minikafka.storage.waits import Begun, Rest

log = structlog.get_logger("minikafka.connection")

UNCOUNTED_SIZE_BYTES_MAX = GROWTH_SIZE_BYTES
"""Requests up to this size need no room in `RequestMemory`, and so much of others is read before they wait for room.
Who sends a few bytes then holds none, and who holds room may wait for small requests, as a Produce for Fetches."""
READY_BYTES_MAX = SENDFILE_SIZE_BYTES_MIN
"""Ready responses of this total size are sent before the next request of those received together is answered."""


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


@dataclass(frozen=True, slots=True)
class _Watched:
    """When large messages in transfer were first seen, and how many bytes the transport had moved by then."""

    rooms: list[HeldRoom]
    since_s: float
    moved_bytes: int


class Connection:
    """Serves one client connection: reads requests, has them answered, and sends the responses in order.

    Attributes:
        last_active: When bytes of a request or response last moved, in seconds of `current_time`; `is_idle` also
            notices parts of large messages.
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
        memory: RequestMemory | None = None,
        current_time: Callable[[], float] = trio.current_time,
        times: RequestTimes | None = None,
    ) -> None:
        self.transport = transport
        self.info = ConnectionInfo(
            listener, transport.peer_host, transport.local_host, transport.local_port, transport.peer_port
        )
        self.scope = trio.CancelScope()
        self.busy = False
        self._handler = handler
        self._reader = FrameReader(size_bytes_max)
        self._memory = memory or RequestMemory()
        self._room: HeldRoom | None = None  # in `_memory`, of the request that is received or answered
        self._is_transferring = False  # whether it waits for the client
        self._current_time = current_time if times is None else times.clock
        self._rest_sent: trio.Event | None = None
        self.last_active = self._current_time()
        self._moved_bytes_seen = 0
        self._watched = _Watched([], 0.0, 0)
        # Work that a turn leaves to the task:
        self._unsent: list[Any] = []
        self._throttle_ms = 0
        self._started: Rest[Answer] | None = None
        self._frames: list[bytearray] = []
        self._failure: Exception | None = None
        self._at_end = False
        # A request that waits without the task:
        self._parked: Parked | None = None
        self._parked_frame = bytearray()
        self._more_arrived = False
        self._delivered: trio.Event | None = None
        self._task_runs = True
        # Times of requests, if there are metrics:
        self._times = times
        self._polls = None if times is None else transport.polls
        self._measured: list[Measured] = []
        self._started_frame = bytearray()
        self._arrived_s = self._began_s = self._waits_s = 0.0

    async def serve(self) -> None:
        """Serve until the client disconnects, violates the protocol, or `scope` is cancelled; then close."""
        try:
            with self.scope:
                await self._serve()
        except (MalformedMessage, Disconnect) as error:
            log.info("connection closed", client=self.transport.peer_host, reason=str(error))
            without_frames(error)
        except ConnectionError as error:
            log.debug("connection lost", client=self.transport.peer_host, reason=str(error))
            without_frames(error)
        except OSError as error:
            log.error("connection closed", client=self.transport.peer_host, reason=str(error))
            without_frames(error)
        except Exception as error:
            log.exception("connection failed", client=self.transport.peer_host)
            without_frames(error)
            FAILURES["connection"] += 1
        finally:
            if self._parked is not None:
                self._parked.withdraw()
            if self._started is not None:
                self._started.close()
            self._release()
            self._release_unsent()
            self._reader, self._frames, self._unsent, self._measured = FrameReader(0), [], [], []
            self._parked_frame = self._started_frame = bytearray()  # Whoever still has this object keeps no request.
            self.transport.close()

    async def _serve(self) -> None:
        while not self._at_end:
            self._task_runs = False
            await self.transport.wait_while(self._turn)
            self._task_runs = True
            if self._more_arrived:
                await self._delivery()
            while not self._at_end and self._is_work_left:
                self.busy = True
                await self._finish_turn()
            self.busy = self._parked is not None
            self.last_active = self._current_time()

    def is_idle(self, longer_than_s: float) -> bool:
        """Whether no byte has moved for `longer_than_s`; exact to the interval between two calls."""
        now = self._current_time()
        if self.transport.moved_bytes != self._moved_bytes_seen:
            self._moved_bytes_seen = self.transport.moved_bytes
            self.last_active = now
        return now - self.last_active > longer_than_s

    def is_in_the_way(self, longer_than_s: float, rate_min: float) -> bool:
        """Whether the client sends a large request, or reads a response, too slowly while others wait for the memory.

        Exact to the interval between two calls. The measurement begins with the first call that sees the transfer.

        Args:
            longer_than_s: How long the client must have been slow, and other requests must have waited.
            rate_min: The rate below which the client is slow, in bytes a second.
        """
        in_transfer = self.info.unsent, self._room if self._is_transferring else None
        rooms = [room for room in in_transfer if room is not None]
        now, moved_bytes = self._current_time(), self.transport.moved_bytes
        if not rooms or rooms != self._watched.rooms:
            self._watched = _Watched(rooms, now, moved_bytes)
            return False
        seen_for_s = now - self._watched.since_s
        taken_bytes = moved_bytes - self._watched.moved_bytes + STEP_SIZE_BYTES  # `moved_bytes` grows by steps.
        is_slow = taken_bytes < rate_min * seen_for_s
        waited_for_s = max(room.memory.waited_for_s for room in rooms)
        return is_slow and seen_for_s >= longer_than_s and waited_for_s >= longer_than_s

    # -- turns ---------------------------------------------------------------------------------------------------

    def _turn(self) -> bool:
        """Read the received bytes and answer requests at once where possible; returns whether no work is left."""
        if self._parked is not None:
            self._more_arrived = True
            return False
        try:
            data = self.transport.receive_now()
            if not data:
                self._at_end = True
                return False
            self.last_active = self._current_time()
            self._frames = self._reader.feed(data)
            if self._times is not None:
                self._arrived_s = self.last_active if self._polls is None else self._polls.polled_s
            self._answer_now()
            return not self._is_work_left
        except BlockingIOError:
            return True
        except (MalformedMessage, Disconnect, OSError, MemoryError) as error:
            self._failure = without_frames(error)
            return False

    @property
    def _is_work_left(self) -> bool:
        """Whether the task has anything to do. Raises OversizedFrame."""
        return bool(
            self._unsent or self._frames or self._started or self._throttle_ms or self._failure
        ) or self._reader.is_partial

    def _answer_now(self) -> None:
        """Answer the frames up to the first that needs the task, and send the responses together."""
        frames, ready, size_bytes, done, times = self._frames, [], 0, 0, self._times
        answered, began_s = 0, self.last_active
        try:
            for frame in frames:
                done += 1
                answer = self._handler.answer_now(frame, self.info, self if done == len(frames) else None)
                if isinstance(answer, tuple):
                    parts, self._throttle_ms = answer
                    ready += parts
                    size_bytes += sum(map(len, parts))
                    answered = done
                    is_over = done < len(frames) and self._current_time() - began_s > TURN_S
                    if is_over or self._throttle_ms or size_bytes >= READY_BYTES_MAX:
                        break
                    continue
                if times is not None:
                    self._began_s, self._waits_s, self._started_frame = began_s, times.clock(), frame
                if isinstance(answer, Parked):
                    self._parked, self._parked_frame, self.busy = answer, frame, True
                else:
                    self._started = answer
                    break
        finally:
            self._frames = frames[done:]
            if times is not None and answered:
                self._send_measured(times, frames[:answered], ready, size_bytes, began_s)
            elif ready:
                self._send_at_once(ready, size_bytes)

    def _send_measured(
        self, times: RequestTimes, frames: list[bytearray], ready: list[Any], size_bytes: int, began_s: float
    ) -> None:
        """Send the responses to `frames`, and measure or count the requests."""
        weight = 1 if len(frames) > 1 or self._throttle_ms else times.weight(frames[0], size_bytes)
        ended_s = times.clock() if weight else 0.0
        if ready:
            self._send_at_once(ready, size_bytes)
        if not weight:
            return
        times_s = self._arrived_s, began_s, 0.0, ended_s
        if self._unsent:
            self._measured.append((frames, False, weight, times_s, self._throttle_ms, size_bytes))
        else:
            times.add(frames, False, weight, times_s, self._throttle_ms, size_bytes, times.clock())

    def _send_at_once(self, parts: list[Any], size_bytes: int) -> None:
        """Send a response; the task sends it if it is large, or a response is unsent, or the task already runs."""
        if self._unsent or self._task_runs or size_bytes >= READY_BYTES_MAX:
            self._unsent += parts
        else:
            self._unsent += self.transport.send_now(parts)

    def deliver(self, parts: list[Any] | None) -> None:
        """Send the response to the parked request; None: the task answers the request. Implements `Receiver`."""
        self._parked = None
        self.last_active = self._current_time()
        if parts is None:
            self._frames = [self._parked_frame]
        else:
            self.busy = False
            size_bytes = sum(map(len, parts))
            if self._times is not None:
                self._answered(self._parked_frame, size_bytes, 0)
            self._send_at_once(parts, size_bytes)
            if self._measured and not self._unsent:
                self._sent()
        if self._delivered is not None:
            self._delivered.set()
        elif self._frames or self._unsent:
            self.transport.resume()

    async def _delivery(self) -> None:
        """Wait for the response to the parked request: bytes have arrived, but responses are sent in order."""
        self._more_arrived = False
        if self._parked is None:
            return
        if self.transport.peer_is_gone():
            raise ConnectionResetError("client disconnected during a request")
        self._delivered = trio.Event()
        await self._delivered.wait()
        self._delivered = None

    # -- the task ------------------------------------------------------------------------------------------------

    async def _finish_turn(self) -> None:
        """Do the work that the last turn left to the task."""
        unsent, self._unsent = self._unsent, []
        if unsent:
            await self.transport.send(unsent)
            unsent.clear()
            self.last_active = self._current_time()
            if self._measured:
                self._sent()
        if self._throttle_ms:
            throttle_ms, self._throttle_ms = self._throttle_ms, 0
            await trio.sleep(throttle_ms / 1000)
        if self._failure is not None:
            raise again(self._failure)
        frames, self._frames = self._frames, []
        started, self._started = self._started, None
        if started is not None or frames:
            await self._answer(frames, started)
        if self._reader.is_partial:
            frames = await self._rest_of_frame()
            if self._times is not None:
                self._arrived_s = self._times.clock()
            await self._answer(frames, None)
            self._release()
        await self._send([])  # The next turn sends in another task.

    async def _answer(self, frames: list[bytearray], started: Rest[Answer] | None) -> None:
        """Answer requests that were received together, in order, and send their responses together in one system call.

        Responses are not held back by a later request that waits or disconnects, nor by a throttled one. The first
        request may have been started already.
        """
        ready: list[Any] = []
        size_bytes, end_s = 0, self._current_time() + TURN_S
        if started is not None:
            size_bytes = await self._take(ready, self._started_frame, await started)
        for frame in frames:
            if size_bytes >= READY_BYTES_MAX or (ready and self._current_time() > end_s):
                await self._send(ready)
                await trio.lowlevel.checkpoint()
                size_bytes, end_s = 0, self._current_time() + TURN_S
            answer = await self._answered_in_task(ready, frame)
            size_bytes = size_bytes if ready else 0
            size_bytes += await self._take(ready, frame, answer)
            del answer  # The memory is then free once it is sent, though a later request may wait.
        if ready:
            await self._send(ready)

    async def _take(self, ready: list[Any], frame: bytearray, answer: Answer) -> int:
        """Add a response to those that are ready; returns its size in bytes. A throttled client is muted here."""
        parts, throttle_ms = answer
        ready += parts
        size_bytes = sum(map(len, parts))
        if self._times is not None:
            self._answered(frame, size_bytes, throttle_ms)
        if throttle_ms > 0:
            await self._throttle(ready, throttle_ms)
        return size_bytes

    async def _answered_in_task(self, ready: list[Any], frame: bytearray) -> Answer:
        """Answer a request. When the request waits or disconnects, the earlier responses in `ready` are sent first.

        A request is not begun while a task still sends responses that the client did not take at once.
        """
        if self._rest_sent is not None and not self._rest_sent.is_set():
            await self._send(ready)
        if self._times is not None:
            self._began_s, self._waits_s = self._times.clock(), 0.0
        try:
            begun = self._handler.answer_now(frame, self.info, None)
            if not isinstance(begun, Rest):
                assert not isinstance(begun, Parked), "no receiver was given"
                return begun
            if self._times is not None:
                self._waits_s = self._times.clock()
            if ready:
                self._send_now(ready)
            return await begun
        except (MalformedMessage, Disconnect):
            await self._send(ready)
            raise

    def _send_now(self, ready: list[Any]) -> None:
        """Send without waiting, and empty `ready`. A new task sends the bytes that the kernel does not take.

        These bytes are fewer than `READY_BYTES_MAX` and hold no room: the next response may need the room.
        """
        left = self.transport.send_now(ready)
        ready.clear()
        self.last_active = self._current_time()
        if self._measured:
            self._sent()
        if left:
            assert self._rest_sent is None or self._rest_sent.is_set(), "responses out of order"
            self._rest_sent = trio.Event()
            trio.lowlevel.spawn_system_task(self._send_rest, left, self._rest_sent)
        self._release_unsent()

    async def _send_rest(self, left: Sequence[Any], sent: trio.Event) -> None:
        try:
            await self.transport.send(left)
        except (OSError, trio.ClosedResourceError):
            self.scope.cancel()
        finally:
            sent.set()

    async def _send(self, ready: list[Any]) -> None:
        self._is_transferring = True
        if self._rest_sent is not None:
            await self._rest_sent.wait()
        if ready:
            await self.transport.send(ready)
            ready.clear()
        self._is_transferring = False
        self._release_unsent()
        if self._measured:
            self._sent()

    def _answered(self, frame: bytearray, size_bytes: int, throttle_ms: int) -> None:
        """Measure a request that waited, or that the task answered."""
        assert self._times is not None
        times_s = self._arrived_s, self._began_s, self._waits_s, self._times.clock()
        self._measured.append(([frame], self.info.follows, 1, times_s, throttle_ms, size_bytes))

    def _sent(self) -> None:
        """Record the times of all measured requests: their responses are sent."""
        assert self._times is not None
        measured, now = self._measured, self._times.clock()
        while measured:
            self._times.add(*measured.pop(), now)

    async def _throttle(self, ready: list[Any], throttle_ms: int) -> None:
        """Send the responses, then read and answer nothing for the throttle time (KIP-219)."""
        if ready:
            await self._send(ready)
            self.last_active = self._current_time()
        await trio.sleep(throttle_ms / 1000)

    def _release(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            room.release()

    def _release_unsent(self) -> None:
        unsent, self.info.unsent = self.info.unsent, None
        if unsent is not None:
            unsent.release()

    async def _rest_of_frame(self) -> list[bytearray]:
        """Read the rest of the partly received frame; returns the frame, or no frame if the stream ends first."""
        while self._reader.is_partial:
            size_bytes, received_bytes = self._reader.partial
            if received_bytes >= UNCOUNTED_SIZE_BYTES_MAX and self._room is None:
                await self._memory.reserve(size_bytes)
                self._room = HeldRoom(self._memory, size_bytes)
            target = self._reader.target
            assert target is not None, "nobody else reads"
            self._is_transferring = True
            with target:
                count = await self.transport.receive_into(target)
            self._is_transferring = False
            if not count:
                self._at_end = True
                return []
            if frame := self._reader.received(count):
                return [frame]
        return []
