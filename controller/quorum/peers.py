"""`Peers` opens, accepts and keeps the connections to the other nodes, and discovers the voters. Trio: tasks.

A node opens one connection to each controller when it first has a request for it, and keeps it; controllers accept on
the controller listener. Each connection begins with a handshake (`handshake.py`). A connection that begins with a
request of Kafka's protocol comes from a tool, and is passed to `serve_client`. A connection that ends, or that the
operating system refuses, is reported at once, so that a killed process is noticed long before a timeout.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import structlog
import trio

from minikafka.controller.quorum.handshake import (
    HANDSHAKE_SIZE_MAX,
    Address,
    ConnectionLost,
    HandshakeRefused,
    Hello,
    LoginRefused,
    shake_hands,
)
from minikafka.controller.quorum.handshake_log import HandshakeLog
from minikafka.controller.quorum.learned_addresses import LearnedAddresses
from minikafka.controller.quorum.node_logins import (
    Admitted,
    Guest,
    GuestRequests,
    PeerSecurity,
    receive_login,
    renew_sessions,
    send_login,
    while_admitted,
)
from minikafka.controller.quorum.peer_connection import OnRequest, PeerConnection
from minikafka.controller.quorum.peer_frames import (
    READ_SIZE,
    FrameStream,
    MalformedFrame,
    PushedBackStream,
    is_request_of_kafka,
)
from minikafka.controller.quorum.peer_network import Network, peer_host
from minikafka.controller.quorum.strangers import Stranger, Strangers
from minikafka.controller.quorum.tls_network import TlsPeerStream

__all__ = ["FRAME_SIZE_MAX", "Peers", "ServeClient", "Unreachable"]

log = structlog.get_logger("minikafka.peers")

FRAME_SIZE_MAX = 100 << 20
CONNECT_TIMEOUT_S = 1.0
LOGIN_TIMEOUT_S = 10.0
"""For TLS, a login and the handshake: a node may be behind strangers, whose handshakes of TLS take time, and a refusal
is delayed by `connection.failed.authentication.delay.ms`."""
PATIENCE_MAX = 4
"""So many times as long a node waits that has not got in before: it may be behind many strangers (`strangers.py`). The
request that needs the connection often gives up earlier, which ends the attempt."""
LOGIN_BACKOFF_S = 1.0
"""The pause after a refused login: each one is logged at the other node."""
FIRST_BYTES_TIMEOUT_S = 10.0
"""Longer than `CONNECT_TIMEOUT_S`, since a client on a busy machine may need a while to send its first request."""
BACKOFF_S_MIN, BACKOFF_S_MAX = 0.02, 0.2
CONNECTIONS_MAX = 2000
CLIENTS_MAX = 500
"""The most of the connections that tools may have, so that tools cannot keep nodes out."""
ServeClient = Callable[[PushedBackStream], Awaitable[None]]
"""Serves a connection that speaks Kafka's protocol, until it ends."""
_CONNECT_ERRORS = (OSError, MalformedFrame, ConnectionLost, trio.BrokenResourceError, trio.ClosedResourceError)


_Greeting = tuple[FrameStream, Hello, Guest | None, Admitted]


class _Opened(NamedTuple):
    """A connection that this node has opened, after the handshake; how long its session lasts, 0: for ever."""

    stream: trio.abc.Stream
    frames: FrameStream
    hello: Hello
    session_ms: int


class Unreachable(Exception):
    """There is no connection: the request has not been sent."""


class Peers:
    """Opens, accepts and keeps connections to other nodes.

    Args:
        node_id: the id of this node.
        network: opens connections.
        voters: the addresses of the controllers by id.
        cluster_id: returns the id of this node's cluster; None if it is unknown yet.
        on_cluster_id: called with the cluster id of another node's handshake while this node has none.
        on_request: handles requests.
        on_connection_lost: called with the node whose connection ended or could not be opened, and whether its process
            is probably dead: it closed the connection, or refused it. A node that does not answer may be alive.
        on_refused: called with the voter that refuses this node, or is refused by it, and the reason.

    Attributes:
        voters: the addresses of the controllers by id.
        serve_client: serves the connections of tools, which speak Kafka's protocol; None to close them.
        addresses: the addresses of nodes of a dynamic quorum, which may be missing in `voters`.
        security: whether nodes log in, and which may speak as nodes.
        introduce: completes the handshake that this node sends.
        on_hello: called with the handshake of each other node.
        troubles: the reason why the last attempt to reach a controller failed, by its address.
    """

    def __init__(
        self,
        node_id: int,
        *,
        network: Network,
        voters: Mapping[int, Address],
        cluster_id: Callable[[], str | None],
        on_cluster_id: Callable[[str], None],
        on_request: OnRequest,
        on_connection_lost: Callable[[int, bool], None],
        on_refused: Callable[[int, str], None] = lambda node_id, reason: None,
    ) -> None:
        self.voters = dict(voters)
        self.serve_client: ServeClient | None = None
        self.security = PeerSecurity()
        self.addresses = LearnedAddresses()
        self.introduce: Callable[[Hello], Hello] = lambda hello: hello
        self.on_hello: Callable[[Hello], None] = lambda hello: None
        self.troubles: dict[Address, str] = {}
        self._node_id = node_id
        self._network = network
        self._cluster_id = cluster_id
        self._on_cluster_id = on_cluster_id
        self._on_request = on_request
        self._on_connection_lost = on_connection_lost
        self._on_refused = on_refused
        self._opened: dict[int, PeerConnection] = {}
        self._accepted: dict[int, PeerConnection] = {}
        self._connecting: dict[int, trio.Event] = {}
        self._not_before: dict[int, float] = {}
        self._backoff_s: dict[int, float] = {}
        self._handshakes = HandshakeLog()
        self._connections = self._clients = 0
        self._strangers = Strangers(lambda: self.security.strangers_max)
        self._nursery: trio.Nursery | None = None

    async def run(
        self,
        listeners: Sequence[trio.abc.Listener[trio.abc.Stream]] = (),
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept on the listeners and keep connections until cancelled; then all connections are closed."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for listener in listeners:
                nursery.start_soon(self._accept_on, listener)
            task_status.started()
            await trio.sleep_forever()

    async def request(self, peer: int, kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request to a controller; return its response.

        Raises:
            Unreachable: there is no connection; the request was certainly not sent.
            ConnectionLost: the request was sent, and the connection ended: the outcome is unknown, as after
                cancellation.
        """
        return await (await self._connection_to(peer)).request(kind, body)

    # -- connections opened by this node --------------------------------------------------------------------------

    async def _connection_to(self, peer: int) -> PeerConnection:
        while (connection := self._opened.get(peer)) is None:
            if peer in self._connecting:
                await self._connecting[peer].wait()
                if peer not in self._opened:
                    raise Unreachable(f"node {peer} cannot be reached")
            else:
                await self._connect(peer)
        return connection

    async def _connect(self, peer: int) -> None:
        """Open a connection, unless an attempt has just failed; raises Unreachable."""
        address = self.addresses.of(peer, self.voters.get(peer))
        if address is None:
            self.addresses.missing.set()
        if address is None or trio.current_time() < self._not_before.get(peer, 0.0):
            raise Unreachable(f"node {peer} cannot be reached")
        connecting = self._connecting[peer] = trio.Event()
        try:
            with self._in_time(2 * self._backoff_s.get(peer, 0.0) / BACKOFF_S_MIN):
                opened = await self._open(address, self._hello(peer))
        except _CONNECT_ERRORS as error:
            self._connect_failed(peer, address, error)
            raise Unreachable(f"node {peer} cannot be reached: {error}") from error
        except trio.TooSlowError:
            self._back_off(peer)
            self.addresses.failed(peer, address)
            raise Unreachable(f"node {peer} cannot be reached: connection timed out") from None
        except HandshakeRefused as error:
            self._refused(peer, address, error)
            raise Unreachable(str(error)) from error
        else:
            self._backoff_s.pop(peer, None)
            assert self._nursery is not None, "run has begun"
            connection = PeerConnection(opened.stream, opened.frames, peer, self._on_request)
            self._opened[peer] = connection
            self._nursery.start_soon(self._serve_opened, connection, address, opened.session_ms)
        finally:
            del self._connecting[peer]
            connecting.set()

    async def probe(self, address: Address) -> Hello:
        """The handshake of the node at an address; no connection remains. Raises Unreachable."""
        try:
            with self._in_time():
                opened = await self._open(address, replace(self._hello(None), is_probe=True))
        except (*_CONNECT_ERRORS, trio.TooSlowError, HandshakeRefused) as error:
            raise Unreachable(f"{_text(address)} cannot be reached: {error}") from error
        await trio.aclose_forcefully(opened.stream)
        return opened.hello

    def _in_time(self, patience: float = 1.0) -> AbstractContextManager[object]:
        """Limit the time for opening a connection: raises trio.TooSlowError.

        Args:
            patience: so many times as long as usual TLS and a login may take, from one time to `PATIENCE_MAX` times.
        """
        if self.security.logins is None and not self.security.has_tls:
            return trio.fail_after(CONNECT_TIMEOUT_S)
        return trio.fail_after(LOGIN_TIMEOUT_S * min(PATIENCE_MAX, max(1.0, patience)))

    async def _open(self, address: Address, own: Hello) -> _Opened:
        session_ms, logins = 0, self.security.logins
        try:
            stream = await self._network.connect(*address)
            try:
                frames = FrameStream(stream, HANDSHAKE_SIZE_MAX)
                if logins is not None:
                    session_ms = await send_login(stream, frames, logins, _text(address))
                hello = await shake_hands(stream, frames, own, first=True)
            except BaseException:
                await trio.aclose_forcefully(stream)
                raise
        except (*_CONNECT_ERRORS, HandshakeRefused) as error:
            self.troubles[address] = _reason(error)
            raise
        except trio.Cancelled:
            self.troubles[address] = "no answer"
            raise
        self.troubles.pop(address, None)
        frames.set_size_max(FRAME_SIZE_MAX)
        self._learn(hello)
        return _Opened(stream, frames, hello, session_ms)

    async def discover(self, addresses: Sequence[Address], *, wait_for_all: bool) -> dict[int, Address]:
        """The voters of the quorum, from the first of `addresses` that returns them.

        Args:
            addresses: the addresses of `controller.quorum.bootstrap.servers`.
            wait_for_all: whether to take the nodes at all `addresses` as the voters once each has reported its node id.
                For controllers that know only addresses.

        Raises:
            HandshakeRefused: the nodes at half of the addresses or more refuse this node, or are refused by it.
        """
        found: dict[int, Address] = {}
        rounds = 0
        while True:
            rounds += 1
            refused, pause_s = 0, BACKOFF_S_MAX
            for address in addresses:
                try:
                    with self._in_time(rounds):
                        opened = await self._open(address, self._hello(None))
                except LoginRefused as error:
                    self._handshakes.refused(str(error))
                    pause_s = LOGIN_BACKOFF_S
                    continue
                except HandshakeRefused as error:
                    self._handshakes.refused(str(error))
                    refused += 1
                    if 2 * refused >= len(addresses):
                        raise
                    continue
                except (*_CONNECT_ERRORS, trio.TooSlowError):
                    continue
                await trio.aclose_forcefully(opened.stream)
                if opened.hello.voters:
                    return dict(opened.hello.voters)
                found[opened.hello.node_id] = address
                if wait_for_all and len(found) == len(addresses):
                    return found
            await trio.sleep(pause_s)

    def _refused(self, peer: int, address: Address, error: HandshakeRefused) -> None:
        """One of the two nodes refuses the other. A login may be refused for a while only: it is tried again."""
        self._back_off(peer)
        self.addresses.failed(peer, address)
        self._handshakes.refused(str(error))
        if isinstance(error, LoginRefused):
            self._not_before[peer] = trio.current_time() + LOGIN_BACKOFF_S
        else:
            self._on_refused(peer, str(error))

    def _connect_failed(self, peer: int, address: Address, error: Exception) -> None:
        self._back_off(peer)
        self.addresses.failed(peer, address)
        if isinstance(error, OSError):
            self._on_connection_lost(peer, isinstance(error, ConnectionRefusedError))

    def _back_off(self, peer: int) -> None:
        backoff_s = min(BACKOFF_S_MAX, self._backoff_s.get(peer, BACKOFF_S_MIN / 2) * 2)
        self._backoff_s[peer] = backoff_s
        self._not_before[peer] = trio.current_time() + backoff_s

    # -- connections opened by other nodes ------------------------------------------------------------------------

    async def _accept_on(self, listener: trio.abc.Listener[trio.abc.Stream]) -> None:
        assert self._nursery is not None, "run has begun"
        admitting = self._strangers.admitting(listener)
        await trio.serve_listeners(self._accept, [admitting], handler_nursery=self._nursery)

    async def _accept(self, stream: trio.abc.Stream) -> None:
        if self._connections >= CONNECTIONS_MAX:
            await trio.aclose_forcefully(stream)
            return
        self._connections += 1
        try:
            await self._serve_accepted(stream)
        finally:
            self._connections -= 1
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    async def _serve_accepted(self, stream: trio.abc.Stream) -> None:
        greeting = None
        with self._strangers.one(stream) as stranger:
            greeting = await self._greeting(stream, stranger)
        if stranger.scope.cancelled_caught:
            why = f"closed for another: {self.security.strangers_max} connections are open without a handshake"
            self._handshakes.failed(stream, why)
        if greeting is None:
            return
        if isinstance(greeting, PushedBackStream):
            await self._serve_client(greeting)
            return
        frames, hello, guest, admitted = greeting
        frames.set_size_max(FRAME_SIZE_MAX)
        self._learn(hello)
        if hello.is_probe:
            return
        self._not_before.pop(hello.node_id, None)  # the node is up: connect to it without waiting for the backoff
        older = self._accepted.pop(hello.node_id, None)
        if older is not None:
            older.close()
        on_request = self._on_request
        if guest is not None:
            assert self._nursery is not None, "run has begun"
            on_request = GuestRequests(guest, on_request, self._nursery.start_soon).handle
        on_request = while_admitted(on_request, admitted)
        connection = self._accepted[hello.node_id] = PeerConnection(stream, frames, hello.node_id, on_request)
        await self._serve(connection, self._accepted)

    async def _greeting(self, stream: trio.abc.Stream, stranger: Stranger) -> PushedBackStream | _Greeting | None:
        """Read how a connection begins: the stream of a tool, or the frames and the handshake of a node. None if it is
        neither."""
        start = await self._first_bytes(stream, stranger)
        if is_request_of_kafka(start):
            return PushedBackStream(stream, start)
        frames = FrameStream(stream, HANDSHAKE_SIZE_MAX, start)
        try:
            guest = await self._login_at(stream, frames, stranger)
            admitted = self.security.admission(stream, None if guest is None else guest.principal)
            if not admitted():
                who = peer_host(stream) if guest is None else f"{guest.principal} at {peer_host(stream)}"
                self._handshakes.refused(f"{who} is not allowed CLUSTER_ACTION, which nodes need (super.users)")
                return None
            if guest is not None:
                self._strangers.leave(stranger)
            with trio.fail_after(CONNECT_TIMEOUT_S):
                hello = await shake_hands(stream, frames, self._hello(None), first=False)
                return frames, hello, guest, admitted
        except HandshakeRefused as error:
            self._handshakes.refused(str(error))
        except trio.TooSlowError:
            self._handshakes.failed(stream, "timed out")
        except _CONNECT_ERRORS as error:
            self._handshakes.failed(stream, str(error) or repr(error))
        return None

    async def _login_at(self, stream: trio.abc.Stream, frames: FrameStream, stranger: Stranger) -> Guest | None:
        """Have a node log in; None if the listener takes no login. Raises as `receive_login`, and trio.TooSlowError."""
        if self.security.guest is None:
            return None
        guest = self.security.guest(stream)
        with trio.fail_after(LOGIN_TIMEOUT_S):
            await receive_login(stream, frames, guest, stranger.step)
        return guest

    async def _serve_client(self, stream: PushedBackStream) -> None:
        if self.serve_client is None or self._clients >= CLIENTS_MAX:
            return
        self._clients += 1
        try:
            await self.serve_client(stream)
        finally:
            self._clients -= 1

    async def _first_bytes(self, stream: trio.abc.Stream, stranger: Stranger) -> bytes:
        """The first bytes of a connection, enough to tell a node from a client; fewer if no more arrive in time."""
        start = b""
        lost = (trio.BrokenResourceError, trio.ClosedResourceError)
        with trio.move_on_after(FIRST_BYTES_TIMEOUT_S), suppress(*lost):
            if isinstance(stream, TlsPeerStream):
                await stream.hear()
                stranger.step()
            while is_request_of_kafka(start) is None:
                data = await stream.receive_some(READ_SIZE)
                if not start:
                    stranger.step()
                if not data:
                    break
                start += data
        return start

    async def _serve(self, connection: PeerConnection, among: dict[int, PeerConnection]) -> None:
        """Serve a connection; report its end, unless another has replaced it or this node is stopping."""
        if malformed := await connection.run():
            self._handshakes.malformed_frame(connection.peer, malformed)
        if among.get(connection.peer) is connection:
            del among[connection.peer]
            self._on_connection_lost(connection.peer, not connection.closed_here)

    async def _serve_opened(self, connection: PeerConnection, address: Address, session_ms: int) -> None:
        """Serve a connection that this node has opened, and renew its session before it ends."""
        logins = self.security.logins
        async with trio.open_nursery() as nursery:
            if logins is not None and session_ms:
                nursery.start_soon(renew_sessions, connection, logins, _text(address), session_ms)
            await self._serve(connection, self._opened)
            nursery.cancel_scope.cancel()

    def _hello(self, to: int | None) -> Hello:
        return self.introduce(Hello(self._node_id, to, self._cluster_id(), self.voters))

    def _learn(self, hello: Hello) -> None:
        if self._cluster_id() is None and hello.cluster_id is not None:
            self._on_cluster_id(hello.cluster_id)
        if hello.node_id != self._node_id:
            self.on_hello(hello)


def _text(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


def _reason(error: Exception) -> str:
    """The reason of a failed attempt in few words: the text of the operating system's error, if it is the cause."""
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
    return (isinstance(cause, OSError) and cause.strerror) or str(cause) or repr(cause)
