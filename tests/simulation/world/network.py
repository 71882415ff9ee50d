"""`SimulatedNetwork`: TCP between hosts in memory, with the faults that real networks have.

    network.cut("node-1", "node-2")          nothing arrives in this direction; connections stay open
    network.heal()                           what was held up arrives late; some connections are lost
    network.links[a, b].latency_s = 0.5      a slow link
    network.reset_connections(a, b)          connections are lost; both ends notice
    network.forget_connections(a, b)         half-open: only the end at `b` has lost them
    network.break_frame(a, b)                the next data from a to b is cut in the middle, and the connection lost

A connection is two `Endpoint`s, which belong to the kernels of their hosts: they receive while their process is paused.
A killed process closes its endpoints; a host that loses power forgets them.
"""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import trio

from simulation.world.machine import Machine
from simulation.world.world import World

Address = tuple[str, int]

WINDOW_BYTES = 1 << 20
"""Bytes under way or unread, before a sender must wait."""
CONNECT_TIMEOUT_S = 127.0
RETRANSMISSION_S_MIN, RETRANSMISSION_S_MAX = 5.0, 40.0
"""A sender whose data is not acknowledged for such a time gives the connection up."""
FIN = b"FIN"
RST = b"RST"


@dataclass
class Link:
    """One direction between two hosts.

    Attributes:
        latency_s: The least latency; `jitter_s` is added at random.
        bytes_per_s: The bandwidth.
        is_cut: Nothing arrives.
        break_next: The next data is cut in the middle.
        held: What was sent while it was cut.
    """

    latency_s: float = 0.0002
    jitter_s: float = 0.0003
    bytes_per_s: float = 200e6
    is_cut: bool = False
    cut_since: float = 0.0
    break_next: bool = False
    held: deque[tuple[Endpoint, bytes, bool]] = field(default_factory=deque)


class Endpoint:
    """One end of a connection. Not thread-safe; used by the tasks of one machine."""

    __slots__ = (
        "_network", "_reader", "_writer", "address", "buffer", "closed", "eof", "error", "gone", "last_arrival",
        "machine", "number", "peer", "peer_address", "unread",
    )  # fmt: skip

    def __init__(self, network: SimulatedNetwork, machine: Machine, address: Address, peer_address: Address) -> None:
        self._network = network
        self.machine = machine
        self.address, self.peer_address = address, peer_address
        self.number = 0
        self.peer: Endpoint = self
        self.buffer: deque[bytes] = deque()
        self.unread = 0
        """Bytes sent to this end that its process has not read yet."""
        self.eof = self.closed = self.gone = False
        self.error: OSError | None = None
        self.last_arrival = 0.0
        self._reader: trio.lowlevel.Task | None = None
        self._writer: trio.lowlevel.Task | None = None

    # -- as a socket ---------------------------------------------------------------------------------------------

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Send what the window takes; returns the number of bytes. Raises BlockingIOError, OSError."""
        self._check()
        room = WINDOW_BYTES - self.peer.unread
        if room <= 0:
            raise BlockingIOError
        piece = bytes(data[:room])
        self.peer.unread += len(piece)
        self._network.transmit(self, piece)
        return len(piece)

    def receive(self, size_max: int) -> bytes:
        """Some bytes; empty at the end of the stream. Raises BlockingIOError, OSError."""
        self._check()
        if not self.buffer:
            if self.eof:
                return b""
            raise BlockingIOError
        piece = self.buffer.popleft()
        if len(piece) > size_max:
            self.buffer.appendleft(piece[size_max:])
            piece = piece[:size_max]
        was_full = self.unread >= WINDOW_BYTES
        self.unread -= len(piece)
        if was_full:
            self.peer.wake_writer()
        return piece

    def recv_into(self, target: memoryview, /) -> int:
        """Fill a part of `target`; returns its size, 0 at the end of the stream. Raises as `receive`."""
        data = self.receive(len(target))
        target[: len(data)] = data
        return len(data)

    @property
    def is_readable(self) -> bool:
        """Whether `receive` returns or raises something other than BlockingIOError."""
        return bool(self.buffer or self.eof or self.error or self.closed)

    async def wait_readable(self, *, once: bool = False) -> None:
        """Wait until it is readable; with `once` perhaps not as long, but until `wake_reader`."""
        while not self.is_readable:
            self._reader = trio.lowlevel.current_task()

            def abort(_: object) -> trio.lowlevel.Abort:
                self._reader = None
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(abort)
            if once:
                return

    async def wait_writable(self) -> None:
        while not (self.peer.unread < WINDOW_BYTES or self.error or self.closed):
            self._writer = trio.lowlevel.current_task()

            def abort(_: object) -> trio.lowlevel.Abort:
                self._writer = None
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(abort)

    def close(self) -> None:
        """As a process, or the kernel for a killed process, closes a socket."""
        if self.closed:
            return
        self.closed = True
        self._network.closed(self)
        if self.error is None and not self.gone:
            self._network.transmit(self, RST if self.buffer else FIN, control=True)
        self.buffer.clear()
        self._wake()

    def _check(self) -> None:
        if self.closed:
            raise OSError(errno.EBADF, "Bad file descriptor")
        if self.error is not None:
            raise self.error

    # -- as the kernel -------------------------------------------------------------------------------------------

    def fail(self, error: OSError) -> None:
        """The connection is lost; reads and writes raise `error`."""
        if not self.closed and self.error is None:
            self.error = error
            self._wake()

    def vanish(self) -> None:
        """The kernel has forgotten the connection; the other end is not notified."""
        self.gone = True
        self._network.closed(self)
        self.fail(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def arrive(self, data: bytes, control: bool) -> None:
        if self.gone:
            self._network.unanswered(self)
        elif control and data is RST:
            self.fail(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
        elif self.closed:
            if not control:
                self._network.transmit(self, RST, control=True)
        elif control:
            self.eof = True
            self._wake()
        else:
            self.buffer.append(data)
            self.wake_reader()

    def _wake(self) -> None:
        self.wake_reader()
        self.wake_writer()

    def wake_reader(self) -> None:
        """There is something to read, or the process wants its reader to return."""
        if self._reader is not None:
            task, self._reader = self._reader, None
            self.machine.reschedule(task)

    def wake_writer(self) -> None:
        """The window has room again, or there is an error."""
        if self._writer is not None:
            task, self._writer = self._writer, None
            self.machine.reschedule(task)


class BoundListener:
    """A listening socket."""

    BACKLOG = 1024

    def __init__(self, network: SimulatedNetwork, machine: Machine, address: Address) -> None:
        self._network = network
        self.machine = machine
        self.address = address
        self.waiting: deque[Endpoint] = deque()
        self.closed = False
        self._acceptor: trio.lowlevel.Task | None = None

    async def accept(self) -> Endpoint:
        """The next connection. Raises OSError (EMFILE), trio.ClosedResourceError."""
        while not self.waiting:
            if self.closed:
                raise trio.ClosedResourceError
            self._acceptor = trio.lowlevel.current_task()

            def abort(_: object) -> trio.lowlevel.Abort:
                self._acceptor = None
                return trio.lowlevel.Abort.SUCCEEDED

            await trio.lowlevel.wait_task_rescheduled(abort)
        self._network.check_descriptors(self.machine)
        return self.waiting.popleft()

    def offer(self, endpoint: Endpoint) -> bool:
        """A connection has come; returns whether there was room for it."""
        if len(self.waiting) >= self.BACKLOG:
            return False
        self.waiting.append(endpoint)
        self._wake()
        return True

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._network.listeners.pop(self.address, None)
            for endpoint in self.waiting:
                endpoint.close()
            self._wake()

    def _wake(self) -> None:
        if self._acceptor is not None:
            task, self._acceptor = self._acceptor, None
            self.machine.reschedule(task)


class SimulatedNetwork:
    """See above.

    Args:
        world: Time and trace.
        random: Decides latencies, and which connections survive a cut.

    Attributes:
        links: Both directions of each pair of hosts, made on first use.
        down: Hosts without power.
        descriptors_max: The most descriptors of a host's process; raises EMFILE above.
        files_open: Returns how many of them are files, by host.
    """

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self._ports = 40_000
        self._numbers = 0
        self.links: dict[tuple[str, str], Link] = {}
        self.listeners: dict[Address, BoundListener] = {}
        self.endpoints: dict[int, Endpoint] = {}
        self.hosts: dict[str, None] = {}
        self.down: dict[str, None] = {}
        self.descriptors_max: dict[str, int] = {}
        self.files_open: dict[str, Callable[[], int]] = {}

    def link(self, source: str, target: str) -> Link:
        """The link from one host to another."""
        found = self.links.get((source, target))
        if found is None:
            found = self.links[source, target] = Link()
        return found

    # -- sockets -------------------------------------------------------------------------------------------------

    def listen(self, machine: Machine, port: int) -> BoundListener:
        """Bind a port of the machine's host. Raises OSError: in use."""
        self.check_descriptors(machine)
        if port == 0:
            port = self._port()
        address = (machine.host, port)
        if address in self.listeners:
            raise OSError(errno.EADDRINUSE, f"cannot listen on {machine.host}:{port}: Address already in use")
        listener = self.listeners[address] = BoundListener(self, machine, address)
        machine.on_end.append(listener.close)
        return listener

    async def connect(self, machine: Machine, host: str, port: int) -> Endpoint:
        """Open a connection. Raises OSError: unknown host, refused, timed out, too many open files."""
        self.check_descriptors(machine)
        if host not in self.hosts:
            raise OSError(errno.ENOENT, f"Name or service not known: {host}")
        there, back = self.link(machine.host, host), self.link(host, machine.host)
        waited_s, pause_s = 0.0, 1.0
        while True:
            await trio.sleep(self._latency(there) + self._latency(back))
            if not (there.is_cut or back.is_cut or host in self.down):
                break
            if waited_s >= CONNECT_TIMEOUT_S:
                raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")
            await trio.sleep(pause_s)
            waited_s, pause_s = waited_s + pause_s, pause_s * 2
        listener = self.listeners.get((host, port))
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        here = Endpoint(self, machine, (machine.host, self._port()), (host, port))
        other = Endpoint(self, listener.machine, (host, port), here.address)
        here.peer, other.peer = other, here
        for endpoint in (here, other):
            self._numbers += 1
            endpoint.number = self._numbers
            self.endpoints[endpoint.number] = endpoint
        if not listener.offer(other):
            here.close()
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return here

    def check_descriptors(self, machine: Machine) -> None:
        """Raises OSError (EMFILE) if the machine's host may have no more sockets."""
        limit = self.descriptors_max.get(machine.host)
        if limit is None:
            return
        if self.descriptors(machine.host) + self.files_open.get(machine.host, int)() >= limit:
            self._world.coverage["connection refused: no descriptors"] += 1
            raise OSError(errno.EMFILE, "Too many open files")

    def descriptors(self, host: str) -> int:
        """Descriptors in use by sockets of a host."""
        listeners = sum(address[0] == host for address in self.listeners)
        return listeners + sum(endpoint.address[0] == host for endpoint in self.endpoints.values())

    def closed(self, endpoint: Endpoint) -> None:
        """An endpoint has given its descriptor back."""
        self.endpoints.pop(endpoint.number, None)

    def _port(self) -> int:
        self._ports += 1
        return self._ports

    # -- packets -------------------------------------------------------------------------------------------------

    def transmit(self, source: Endpoint, data: bytes, *, control: bool = False) -> None:
        """Send data or a control flag to the other end."""
        link = self.link(source.address[0], source.peer_address[0])
        if link.is_cut:
            self._hold(link, source, data, control)
            return
        if link.break_next and len(data) > 1 and not control:
            link.break_next = False
            self._world.coverage["connection cut in the middle of a frame"] += 1
            self._deliver_after(link, source, data[: self._random.randrange(1, len(data))], False)
            self._reset(source)
            return
        self._deliver_after(link, source, data, control)

    def _deliver_after(self, link: Link, source: Endpoint, data: bytes, control: bool, extra_s: float = 0.0) -> None:
        target = source.peer
        arrival = self._world.now + extra_s + self._latency(link) + len(data) / link.bytes_per_s
        target.last_arrival = arrival = max(arrival, target.last_arrival)  # in order
        self._world.at(arrival, self._arrive, link, source, data, control)

    def _arrive(self, link: Link, source: Endpoint, data: bytes, control: bool) -> None:
        if link.is_cut:
            self._hold(link, source, data, control)
            return
        self._world.note(data)
        source.peer.arrive(data, control)

    def _hold(self, link: Link, source: Endpoint, data: bytes, control: bool) -> None:
        if not link.held or all(held[0] is not source for held in link.held):
            self._world.after(
                self._random.uniform(RETRANSMISSION_S_MIN, RETRANSMISSION_S_MAX), self._give_up, link, source
            )
        link.held.append((source, data, control))

    def _give_up(self, link: Link, source: Endpoint) -> None:
        if link.is_cut and any(held[0] is source for held in link.held):
            source.fail(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))
            link.held = deque(held for held in link.held if held[0] is not source)

    def unanswered(self, target: Endpoint) -> None:
        """Data came for a connection that its host has forgotten: RST if the host is up, else silence."""
        source = target.peer
        if target.address[0] not in self.down:
            self.transmit(target, RST, control=True)
        else:
            wait_s = self._random.uniform(RETRANSMISSION_S_MIN, RETRANSMISSION_S_MAX)
            self._world.after(wait_s, source.fail, TimeoutError(errno.ETIMEDOUT, "Connection timed out"))

    def _latency(self, link: Link) -> float:
        return link.latency_s + link.jitter_s * self._random.random()

    # -- faults --------------------------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """Let nothing arrive in one direction."""
        link = self.link(source, target)
        if not link.is_cut:
            link.is_cut, link.cut_since = True, self._world.now

    def heal(self, source: str, target: str) -> None:
        """Let data arrive again: retransmissions come after a while; long cuts cost connections."""
        link = self.link(source, target)
        if not link.is_cut:
            return
        link.is_cut = False
        lasted_s = self._world.now - link.cut_since
        held, link.held = link.held, deque()
        delays: dict[int, float] = {}
        for endpoint, data, control in held:
            if endpoint.number not in delays:
                delays[endpoint.number] = self._random.uniform(0.2, 0.4 + min(lasted_s, 10.0))
            self._deliver_after(link, endpoint, data, control, delays[endpoint.number])

    def heal_all(self) -> None:
        """End all faults of links; latencies are those of a good network again."""
        for (source, target), link in self.links.items():
            self.heal(source, target)
            fresh = Link()
            link.latency_s, link.jitter_s, link.bytes_per_s = fresh.latency_s, fresh.jitter_s, fresh.bytes_per_s
            link.break_next = False

    def connections(self, one: str, other: str) -> list[Endpoint]:
        """The ends at `one` of all connections with `other`."""
        return [
            endpoint
            for endpoint in self.endpoints.values()
            if endpoint.address[0] == one and endpoint.peer_address[0] == other
        ]

    def reset_connections(self, one: str, other: str, *, chosen: Callable[[Endpoint], bool] = lambda _: True) -> int:
        """Lose connections; both ends notice. Returns their number."""
        ends = [endpoint for endpoint in self.connections(one, other) if chosen(endpoint)]
        for endpoint in ends:
            self._reset(endpoint)
        return len(ends)

    def forget_connections(self, one: str, other: str) -> int:
        """Lose connections at the end `other` only: the end `one` notices when it sends. Returns their number."""
        ends = self.connections(other, one)
        for endpoint in ends:
            endpoint.vanish()
        return len(ends)

    def _reset(self, endpoint: Endpoint) -> None:
        lost = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        endpoint.fail(lost)
        self._world.after(0.001, endpoint.peer.fail, lost)

    # -- hosts ---------------------------------------------------------------------------------------------------

    def process_ended(self, machine: Machine) -> None:
        """The kernel closes the sockets of a process."""
        for endpoint in [one for one in self.endpoints.values() if one.machine is machine]:
            endpoint.close()

    def power_lost(self, host: str) -> None:
        """The host forgets its connections; their other ends are not notified."""
        self.down[host] = None
        for endpoint in [one for one in self.endpoints.values() if one.address[0] == host]:
            endpoint.vanish()

    def power_returned(self, host: str) -> None:
        self.down.pop(host, None)
