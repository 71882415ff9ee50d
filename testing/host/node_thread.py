"""`NodeThread`: one node of a cluster for tests, in a thread of its own. Uses trio: the thread runs its event loop.

The thread outlives the node: a node that is killed, stopped or replaced by an empty one leaves the event loop, and the
next one starts there within milliseconds.
"""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import trio

from minikafka.broker.connections.connection import Connection
from minikafka.broker.connections.request_steps import Interposer
from minikafka.broker.connections.tcp_listening import listen_on_tcp
from minikafka.broker.node.main import make_node, serve, why_ended
from minikafka.broker.node.node import Node
from minikafka.broker.node.system import System
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.testing.host.clock import Clock
from minikafka.testing.host.guarded_listening import GuardedListening
from minikafka.testing.host.links import NodeLinks
from minikafka.testing.host.node_disk import NodeDisk

__all__ = ["NodeFailed", "NodeThread"]

READY_TIMEOUT_S = 60.0
T = TypeVar("T")


class NodeFailed(Exception):
    """A node has not started, or has not ended. The text says why."""


class NodeThread:
    """The thread of one node. Its methods are called by other threads, one at a time.

    Args:
        node_id: The id of the node.
        clock: The clock of the event loop.
        interposer: Sees the requests of clients.
        links: Opens its connections to other nodes.

    Attributes:
        skew_ms: How far the wall clock of the node is ahead of that of the others.
    """

    def __init__(self, node_id: int, clock: Clock, interposer: Interposer, links: NodeLinks) -> None:
        self.node_id = node_id
        self.skew_ms = 0
        self._links = links
        self._refused = 0
        """How many faults refuse clients."""
        self._clock = clock
        self._interposer = interposer
        self._life: _Life | None = None
        self._go_on: threading.Event | None = None
        """Set it to resume a paused node; None if the node is not paused."""
        begun = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(begun,), name=f"kafka-node-{node_id}", daemon=True)
        self._thread.start()
        begun.wait()

    def _run(self, begun: threading.Event) -> None:
        trio.run(self._main, begun, clock=self._clock)

    async def _main(self, begun: threading.Event) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._ended = trio.Event()
        async with trio.open_nursery() as self._nursery:
            begun.set()
            await self._ended.wait()

    @property
    def is_running(self) -> bool:
        """Whether the node has started and not ended; a paused node runs."""
        return self._life is not None and not self._life.ended.is_set()

    @property
    def is_paused(self) -> bool:
        return self._go_on is not None

    @property
    def connections(self) -> list[Connection]:
        """The connections of clients and other nodes that are open now."""
        life = self._life
        if life is None or life.node is None:
            return []
        return list(life.node.parts.server.connections)

    def launch(self, config: NodeConfig, *, keeps_disk: bool) -> None:
        """Begin to start the node, which does not run: `wait_ready` waits until it serves clients."""
        assert not self.is_running, "it runs already"
        kept = self._life.kept if self._life is not None and keeps_disk else None
        disk = kept or NodeDisk(self._now_ms)
        system = System(
            disk=disk,
            now_ms=self._now_ms,
            random=random.Random(),
            peers=self._links,
            listen=lambda listener: GuardedListening(listen_on_tcp(listener), lambda: self._refused > 0),
            open_stream=self._links.open_stream,
            interposer=self._interposer,
        )
        self._life = _Life(config, system, disk)
        self._call(self._nursery.start_soon, self._life.live)

    def _now_ms(self) -> int:
        return self._clock.now_ms() + self.skew_ms

    @property
    def disk(self) -> NodeDisk:
        """The disk of the node, which runs or will run."""
        assert self._life is not None, "not launched"
        return self._life.kept

    def refuse_clients(self) -> None:
        """Close the connections of clients, and those to come, until `admit_clients` was called as often."""
        self._refused += 1

        def close() -> None:
            for connection in self.connections:
                connection.scope.cancel()

        self._token.run_sync_soon(close)

    def admit_clients(self) -> None:
        """Serve clients again."""
        self._refused -= 1

    def in_node(self, function: Callable[[Node], Awaitable[T]]) -> T:
        """Call a function in the event loop of the node, with the node. Raises ValueError if the node does not run."""
        node = None if self._life is None else self._life.node
        if node is None or self.is_paused:
            raise ValueError(f"node {self.node_id} does not run")
        return trio.from_thread.run(function, node, trio_token=self._token)

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until the node that was launched serves clients. Raises NodeFailed."""
        life = self._life
        assert life is not None, "not launched"
        if not life.ready.wait(timeout_s):
            raise NodeFailed(f"node {self.node_id} does not serve clients after {timeout_s:.0f} s")
        if life.failure is not None:
            raise NodeFailed(f"node {self.node_id} has not started: {life.failure}") from life.failure

    def kill(self) -> None:
        """End the node as SIGKILL does: it tells nobody, and writes nothing more. What it has written stays."""
        self._end(_Life.kill)

    def discard(self) -> None:
        """End the node, and forget its data."""
        self._end(_Life.discard)

    def stop(self) -> None:
        """Stop the node as SIGTERM does, and wait until it has ended. Raises NodeFailed."""
        self._end(_Life.stop)

    def _end(self, how: Callable[[_Life], None]) -> None:
        if self._life is None:
            return
        self.resume()
        if not self._life.ended.is_set():
            self._call(how, self._life)
        if not self._life.ended.wait(READY_TIMEOUT_S):
            raise NodeFailed(f"node {self.node_id} has not ended after {READY_TIMEOUT_S:.0f} s")

    def pause(self) -> None:
        """Stop the event loop of the node, as SIGSTOP does: connections stay open, and nothing is answered."""
        if self._go_on is not None:
            return
        self._go_on = go_on = threading.Event()
        stopped = threading.Event()

        def stop() -> None:
            stopped.set()
            go_on.wait()

        self._token.run_sync_soon(stop)
        stopped.wait()

    def resume(self) -> None:
        """Let the event loop of a paused node run on."""
        if self._go_on is not None:
            self._go_on.set()
            self._go_on = None

    def wake(self) -> None:
        """Make the event loop look at the clock again."""
        self._token.run_sync_soon(lambda: None)

    def end(self) -> None:
        """End the node, and the thread."""
        self.discard()
        self._call(self._ended.set)
        self._thread.join()

    def _call(self, function: Callable[..., Any], *args: Any) -> None:
        trio.from_thread.run_sync(function, *args, trio_token=self._token)


class _Life:
    """A node from its start to its end, in the event loop of its thread.

    Attributes:
        kept: The disk for the next life.
    """

    def __init__(self, config: NodeConfig, system: System, disk: NodeDisk) -> None:
        self.ready, self.ended = threading.Event(), threading.Event()
        self.node: Node | None = None
        self.failure: BaseException | None = None
        self.kept = disk
        self._config, self._system = config, system
        self._scope = trio.CancelScope()
        self._stops, self._signals = trio.open_memory_channel[int](1)

    async def live(self) -> None:
        """Run the node. Errors are kept: they end neither the thread nor other nodes."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    made = make_node(self._config, self._system)
                    assert isinstance(made, Node), "each node is a broker"
                    self.node = made
                    await nursery.start(serve, made, self._received())
                    self.ready.set()
        except Exception as error:  # noqa: BLE001 (`wait_ready` raises it)
            self.failure = why_ended(error, self._config)
        finally:
            self.node = None
            self.ended.set()
            self.ready.set()

    async def _received(self) -> AsyncIterator[int]:
        async for number in self._signals:
            yield number

    def stop(self) -> None:
        self._stops.send_nowait(signal.SIGTERM)

    def kill(self) -> None:
        self.kept = self.kept.copied()
        self._scope.cancel()

    def discard(self) -> None:
        self._scope.cancel()
