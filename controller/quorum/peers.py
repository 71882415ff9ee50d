"""The other nodes of the cluster: who connects to whom, and how to ask one of them something. Trio: it has tasks.

Each node opens one connection to each controller that it has something to ask, when it has, and keeps it; controllers
accept on the controller listener. Whoever is there says hello first (`frames.py`): another cluster's node, or another
than was expected, is refused in words on both sides. A connection that ends, or that nobody takes, is told at once: a
process that was killed is missed long before a timeout.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
import trio

from minikafka.controller.quorum.peer_connection import HELLO_SIZE_MAX, Frames, Link, Lost, OnAsk, Refused, greet
from minikafka.controller.quorum.peer_frames import Address, BadFrame, Hello
from minikafka.controller.quorum.peer_network import Network

__all__ = ["FRAME_SIZE_MAX", "Lost", "Peers", "Refused", "Unreachable"]

log = structlog.get_logger("minikafka.peers")

FRAME_SIZE_MAX = 100 << 20
CONNECT_TIMEOUT_S = 1.0
BACKOFF_S_MIN, BACKOFF_S_MAX = 0.02, 0.2
CONNECTIONS_MAX = 2000
_FAILED = (OSError, BadFrame, Lost, trio.BrokenResourceError, trio.ClosedResourceError)


class Unreachable(Exception):
    """There is no connection: what was to be asked has not been sent."""


class Peers:
    """See above.

    Args:
        node_id: this node.
        network: how it is connected.
        voters: where the controllers are, by id.
        cluster_id: the cluster that this node belongs to; None where it knows of none yet.
        learn: told the cluster id of whoever said hello, while this node knows of none.
        on_ask: answers questions.
        on_lost: told the node whose connection ended, or that refuses connections.
        on_refused: told the voter to which this node must not talk, and why.
    """

    def __init__(
        self,
        node_id: int,
        *,
        network: Network,
        voters: Mapping[int, Address],
        cluster_id: Callable[[], str | None],
        learn: Callable[[str], None],
        on_ask: OnAsk,
        on_lost: Callable[[int], None],
        on_refused: Callable[[int, str], None] = lambda node_id, reason: None,
    ) -> None:
        self.voters = dict(voters)
        self._node_id = node_id
        self._network = network
        self._cluster_id = cluster_id
        self._learn = learn
        self._on_ask = on_ask
        self._on_lost = on_lost
        self._on_refused = on_refused
        self._links: dict[int, Link] = {}
        self._accepted: dict[int, Link] = {}
        self._connecting: dict[int, trio.Event] = {}
        self._not_before: dict[int, float] = {}
        self._backoff_s: dict[int, float] = {}
        self._told: set[str] = set()
        self._connections = 0
        self._nursery: trio.Nursery | None = None

    async def run(
        self,
        listeners: Sequence[trio.abc.Listener[trio.abc.Stream]] = (),
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept on the listeners and keep connections until cancelled; then all are closed."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for listener in listeners:
                nursery.start_soon(self._accept_on, listener)
            task_status.started()
            await trio.sleep_forever()

    async def ask(self, peer: int, what: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of a controller.

        Raises:
            Unreachable: it cannot be asked; it certainly has not been.
            Lost: it was asked, and the connection ended. So it is after cancellation.
        """
        return await (await self._link_to(peer)).ask(what, body)

    # -- connections that this node opens -------------------------------------------------------------------------

    async def _link_to(self, peer: int) -> Link:
        while (link := self._links.get(peer)) is None:
            if peer in self._connecting:
                await self._connecting[peer].wait()
                if peer not in self._links:
                    raise Unreachable(f"node {peer} cannot be reached")
            else:
                await self._connect(peer)
        return link

    async def _connect(self, peer: int) -> None:
        """Open a connection, unless that has just failed; raises Unreachable."""
        if peer not in self.voters or trio.current_time() < self._not_before.get(peer, 0.0):
            raise Unreachable(f"node {peer} cannot be reached")
        connecting = self._connecting[peer] = trio.Event()
        try:
            with trio.fail_after(CONNECT_TIMEOUT_S):
                stream, frames, _ = await self._open(self.voters[peer], peer)
        except _FAILED as error:
            self._failed(peer, error)
            raise Unreachable(f"node {peer} cannot be reached: {error}") from error
        except trio.TooSlowError:
            self._delay(peer)
            raise Unreachable(f"node {peer} cannot be reached: it does not answer") from None
        except Refused as error:
            self._delay(peer)
            self._say(str(error))
            self._on_refused(peer, str(error))
            raise Unreachable(str(error)) from error
        else:
            self._backoff_s.pop(peer, None)
            assert self._nursery is not None, "run has begun"
            link = self._links[peer] = Link(stream, frames, peer, self._on_ask)
            self._nursery.start_soon(self._keep, link, self._links)
        finally:
            del self._connecting[peer]
            connecting.set()

    async def _open(self, address: Address, peer: int | None) -> tuple[trio.abc.Stream, Frames, Hello]:
        stream = await self._network.connect(*address)
        try:
            frames = Frames(stream, HELLO_SIZE_MAX)
            hello = await greet(stream, frames, self._hello(peer), first=True)
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        frames.allow(FRAME_SIZE_MAX)
        self._heard_of(hello)
        return stream, frames, hello

    async def discover(self, addresses: Sequence[Address], *, wait_for_all: bool) -> dict[int, Address]:
        """The voters of the quorum, as the first of `addresses` that knows them tells.

        Args:
            wait_for_all: of controllers that all know addresses alone, all together are the voters, once each has
                told its id.
        """
        found: dict[int, Address] = {}
        while True:
            for address in addresses:
                try:
                    with trio.fail_after(CONNECT_TIMEOUT_S):
                        stream, _, hello = await self._open(address, None)
                except Refused as error:
                    self._say(str(error))
                    continue
                except (*_FAILED, trio.TooSlowError):
                    continue
                await trio.aclose_forcefully(stream)
                if hello.voters:
                    return dict(hello.voters)
                found[hello.node_id] = address
                if wait_for_all and len(found) == len(addresses):
                    return found
            await trio.sleep(BACKOFF_S_MAX)

    def _failed(self, peer: int, error: Exception) -> None:
        self._delay(peer)
        if isinstance(error, OSError):
            self._on_lost(peer)

    def _delay(self, peer: int) -> None:
        backoff_s = min(BACKOFF_S_MAX, self._backoff_s.get(peer, BACKOFF_S_MIN / 2) * 2)
        self._backoff_s[peer] = backoff_s
        self._not_before[peer] = trio.current_time() + backoff_s

    # -- connections that others open -----------------------------------------------------------------------------

    async def _accept_on(self, listener: trio.abc.Listener[trio.abc.Stream]) -> None:
        assert self._nursery is not None, "run has begun"
        await trio.serve_listeners(self._accept, [listener], handler_nursery=self._nursery)

    async def _accept(self, stream: trio.abc.Stream) -> None:
        if self._connections >= CONNECTIONS_MAX:
            await trio.aclose_forcefully(stream)
            return
        self._connections += 1
        try:
            await self._serve(stream)
        finally:
            self._connections -= 1
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    async def _serve(self, stream: trio.abc.Stream) -> None:
        frames = Frames(stream, HELLO_SIZE_MAX)
        try:
            with trio.fail_after(CONNECT_TIMEOUT_S):
                hello = await greet(stream, frames, self._hello(None), first=False)
        except Refused as error:
            self._say(str(error))
            return
        except (*_FAILED, trio.TooSlowError) as error:
            log.warning("a connection to the controller listener said no hello", problem=str(error))
            return
        frames.allow(FRAME_SIZE_MAX)
        self._heard_of(hello)
        self._not_before.pop(hello.node_id, None)  # it is there: whoever has something to ask it may try at once
        older = self._accepted.pop(hello.node_id, None)
        if older is not None:
            older.close()
        link = self._accepted[hello.node_id] = Link(stream, frames, hello.node_id, self._on_ask)
        await self._keep(link, self._accepted)

    async def _keep(self, link: Link, among: dict[int, Link]) -> None:
        """Serve a connection; its end is told, unless another has taken its place or this node is ending."""
        await link.run()
        if among.get(link.peer) is link:
            del among[link.peer]
            self._on_lost(link.peer)

    def _hello(self, to: int | None) -> Hello:
        return Hello(self._node_id, to, self._cluster_id(), self.voters)

    def _heard_of(self, hello: Hello) -> None:
        if self._cluster_id() is None and hello.cluster_id is not None:
            self._learn(hello.cluster_id)

    def _say(self, reason: str) -> None:
        """Once each."""
        if reason not in self._told:
            self._told.add(reason)
            log.error("a connection is refused", reason=reason)
