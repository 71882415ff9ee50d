"""`Nodes`: a cluster for tests in this process, each node in a thread, with memory for disks.

A reset replaces all nodes by empty ones: nothing of the time before it is left, by construction.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import NamedTuple

from minikafka.broker.settings.node_config import load_config
from minikafka.testing.faults.faults import Faults
from minikafka.testing.faults.faulty_handlers import FaultyHandlers, is_of_a_node
from minikafka.testing.faults.helper import HELPER
from minikafka.testing.faults.seen_requests import SeenRequests
from minikafka.testing.host.clock import Clock
from minikafka.testing.host.links import Links, NodeLinks
from minikafka.testing.host.node_settings import Ports, find_ports, settings_of
from minikafka.testing.host.node_thread import NodeThread

__all__ = ["BROKERS_MAX", "Client", "Nodes"]

BROKERS_MAX = 9


class Client(NamedTuple):
    """A client that was connected at a reset: its client id ("" if it has sent no request yet), and its address."""

    client_id: str
    address: str


class Nodes:
    """The nodes of a cluster, by id, from 1. Several threads may use it: methods that change nodes take turns.

    Args:
        brokers: How many nodes; each is a broker, and a controller.
        settings: Settings of all nodes, by Kafka's names.
        port: Of the first node, whatever happens; the others have those that follow. None for free ports.

    Attributes:
        clock: The time of all nodes.
        faults: The faults in force.
        seen: The requests of clients since the last reset.
        links: Which nodes can connect to which.
    """

    def __init__(self, brokers: int, settings: Mapping[str, str], port: int | None = None) -> None:
        self.clock = Clock()
        self.faults = Faults()
        self.seen = SeenRequests()
        self._own = brokers, dict(settings)
        self._port = port
        self._is_disturbed = False
        """Whether a node was ended or paused since the last reset: clients may be about to connect again."""
        self.links = Links()
        self._changes = threading.RLock()
        self._handlers: dict[int, FaultyHandlers] = {}
        self._threads: dict[int, NodeThread] = {}
        self._settings: dict[str, str] = {}
        self._ports = Ports((), ())

    def start(self) -> None:
        """Start all nodes, and wait until they serve clients. Raises NodeFailed, ConfigError, OSError."""
        self.reset()

    @property
    def bootstrap_servers(self) -> str:
        return self._ports.bootstrap_servers

    @property
    def node_ids(self) -> list[int]:
        return list(range(1, len(self._ports.clients) + 1))

    def others(self, node_id: int) -> list[int]:
        """The ids of all nodes but one."""
        return [one for one in self.node_ids if one != node_id]

    def state_of(self, node_id: int) -> str:
        """`running`, `paused` or `down`. Raises ValueError for a node that the cluster has not."""
        thread = self.thread(node_id)
        return "paused" if thread.is_paused else "running" if thread.is_running else "down"

    def reset(self, brokers: int | None = None, settings: Mapping[str, str] | None = None) -> list[Client]:
        """Replace all nodes by empty ones; faults, seen requests and changes of the clock are gone.

        Args:
            brokers, settings: Of the new nodes, until the next reset; None for those of the constructor.

        Returns:
            The clients that were connected. They were disconnected, and cannot come back: the new nodes have other
            ports if there were any, or any that may be about to connect again after a fault.

        Raises:
            NodeFailed, OSError: A node has not started.
            ConfigError: Settings are invalid; nothing has changed.
        """
        with self._changes:
            count = self._own[0] if brokers is None else brokers
            wanted = self._own[1] | dict(settings or {})
            for node_id in range(1, count + 1):
                load_config(settings=settings_of(node_id, Ports(range(1, count + 1), ()), wanted))
            left = self._connected()
            is_disturbed, self._is_disturbed = self._is_disturbed or self.faults.is_any, False
            self.faults.clear()
            for thread in self._threads.values():
                thread.discard()
            self.seen.clear()
            self.clock.reset()
            if left or is_disturbed or count != len(self._ports.clients):
                self._ports = find_ports(count, self._port)
            self.links.use(self._ports.nodes)
            self._settings = wanted
            self._threads_for(count)
            for node_id in reversed(self.node_ids):  # the first one, which others elect, comes last
                self._launch(node_id, keeps_disk=False)
            for node_id in self.node_ids:
                self._threads[node_id].wait_ready()
            return left

    def _threads_for(self, count: int) -> None:
        for node_id in range(1, count + 1):
            if node_id not in self._threads:
                handlers = FaultyHandlers(node_id, self.faults, self.seen, self.clock.now_ms)
                self._handlers[node_id] = handlers
                links = NodeLinks(node_id, self.links)
                self._threads[node_id] = NodeThread(node_id, self.clock, handlers, links)
            self._handlers[node_id].client_ids.clear()
        for node_id in [one for one in self._threads if one > count]:
            self._threads.pop(node_id).end()
            del self._handlers[node_id]

    def _launch(self, node_id: int, *, keeps_disk: bool) -> None:
        config = load_config(settings=settings_of(node_id, self._ports, self._settings))
        self._threads[node_id].launch(config, keeps_disk=keeps_disk)

    def _connected(self) -> list[Client]:
        """The clients that are connected now, without the nodes, the library's own, and those that have just closed."""
        found = []
        for node_id, thread in self._threads.items():
            for connection in thread.connections:
                info, client_id = connection.info, self._handlers[node_id].name_of(connection.info)
                if client_id != HELPER and not is_of_a_node(client_id) and not connection.transport.peer_is_gone():
                    found.append(Client(client_id, f"{info.client_host}:{info.client_port}"))
        return found

    # -- single nodes --------------------------------------------------------------------------------------------

    def thread(self, node_id: int) -> NodeThread:
        """The thread of a node. Raises ValueError for a node that the cluster has not."""
        if node_id not in self._threads:
            raise ValueError(f"there is no node {node_id}: the cluster has {', '.join(map(str, self.node_ids))}")
        return self._threads[node_id]

    def kill(self, node_id: int) -> None:
        """End a node as SIGKILL does."""
        with self._changes:
            self._is_disturbed = True
            self.thread(node_id).kill()

    def stop(self, node_id: int) -> None:
        """Stop a node as SIGTERM does: it hands over what it leads. Raises NodeFailed."""
        with self._changes:
            self._is_disturbed = True
            self.thread(node_id).stop()

    def run(self, node_id: int) -> None:
        """Start a node that was killed or stopped, with its data. Raises ValueError for one that runs; NodeFailed."""
        with self._changes:
            if self.thread(node_id).is_running:
                raise ValueError(f"node {node_id} runs already")
            self._launch(node_id, keeps_disk=True)
            self._threads[node_id].wait_ready()

    def restart(self, node_id: int) -> None:
        """Stop a node, if it runs, and start it. Raises NodeFailed."""
        with self._changes:
            self.stop(node_id)
            self.run(node_id)

    def pause(self, node_id: int) -> None:
        """Stop a node's event loop as SIGSTOP does. Raises ValueError for a node that does not run."""
        with self._changes:
            if not self.thread(node_id).is_running:
                raise ValueError(f"node {node_id} does not run")
            self._is_disturbed = True
            self._threads[node_id].pause()

    def resume(self, node_id: int) -> None:
        """Let a paused node run on."""
        with self._changes:
            self.thread(node_id).resume()

    # -- time ----------------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Move the clock of all nodes forward. Raises ValueError."""
        self.clock.advance(seconds)
        self._wake()

    def run_clock(self, speed: float) -> None:
        """Let the clock of all nodes run so many times as fast; 0 stops it. Raises ValueError."""
        self.clock.run(speed)
        self._wake()

    def _wake(self) -> None:
        for thread in self._threads.values():
            thread.wake()

    def close(self) -> None:
        """End all nodes and their threads."""
        with self._changes:
            self.faults.clear()
            for thread in self._threads.values():
                thread.end()
            self._threads.clear()
