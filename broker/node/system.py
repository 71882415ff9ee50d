"""Everything that a node uses of the system that it runs on, in one object, which simulations replace."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from minikafka.broker.connections.listening import Listen
from minikafka.broker.connections.tcp_listening import listen_on_tcp
from minikafka.broker.node.logging_setup import ROOT
from minikafka.broker.node.step_watch import StepWatch
from minikafka.client.connections.seams import open_stream
from minikafka.client.connections.stream import OpenStream
from minikafka.controller.quorum.peer_network import Network, TcpNetwork
from minikafka.storage.disk import Disk

__all__ = ["System"]


@dataclass(frozen=True)
class System:
    """What a node uses of the system that it runs on; time and timeouts are trio's.

    Attributes:
        disk: Where all data is kept.
        now_ms: The wall clock, in milliseconds since 1970.
        random: For ids, the placement of replicas, backoff and election timeouts.
        peers: Connects the nodes of a cluster on their controller listeners.
        listen: Binds a listener for clients.
        open_stream: Connects to other brokers.
        log_levels: Level by logger; changed in place by AlterConfigs.
        connections_max: The most connections of clients that there are descriptors for.
        tools_max: The most connections of clients on the controller listener that there are descriptors for.
        loop: Measures the steps of the event loop; None where nobody does.
    """

    disk: Disk
    now_ms: Callable[[], int]
    random: Random
    peers: Network = field(default_factory=TcpNetwork)
    listen: Listen = listen_on_tcp
    open_stream: OpenStream = open_stream
    log_levels: dict[str, str] = field(default_factory=lambda: {ROOT: "INFO"})
    connections_max: int = sys.maxsize
    tools_max: int = sys.maxsize
    loop: StepWatch | None = None

    def loop_rounds(self) -> int:
        """How many rounds of the event loop have begun, if somebody counts them; else always the same."""
        return 0 if self.loop is None else self.loop.rounds
