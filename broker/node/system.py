"""`System`: everything that a node uses of the machine that it runs on, in one object, which simulations replace."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from minikafka.broker.connections.listening import Listen
from minikafka.broker.connections.request_steps import Interposer
from minikafka.broker.connections.tcp_listening import listen_on_tcp
from minikafka.broker.node.downloads import download
from minikafka.broker.node.logging_setup import ROOT
from minikafka.broker.node.step_watch import StepWatch
from minikafka.client.connections.seams import open_stream
from minikafka.client.connections.stream import OpenStream
from minikafka.controller.quorum.peer_network import Network, TcpNetwork
from minikafka.storage.disks.disk import Disk

__all__ = ["System"]


@dataclass(frozen=True)
class System:
    """The disk, wall clock, network and randomness of a node. Timeouts use trio's clock, which is not part of it.

    Attributes:
        disk: The disk for all data of the node.
        now_ms: The wall clock, in milliseconds since 1970.
        steady: Seconds that only grow, cheap to read, for measuring short times; None for trio's clock.
        interposer: Stands in front of the handlers, to inject faults; only nodes of `minikafka.testing` have one.
        random: The randomness for ids, the placement of replicas, backoff and election timeouts.
        peers: Connects the nodes of a cluster on their controller listeners.
        listen: Binds a listener for clients.
        open_stream: Connects to other brokers.
        download: Reads a URL of http or https; it blocks. Raises OSError.
        log_levels: The level of each logger; changed in place by AlterConfigs.
        connections_max: The largest number of client connections for which the process has descriptors.
        tools_max: The same number for connections of clients on the controller listener.
        loop: Measures the steps of the event loop; None if they are not measured.
    """

    disk: Disk
    now_ms: Callable[[], int]
    random: Random
    peers: Network = field(default_factory=TcpNetwork)
    listen: Listen = listen_on_tcp
    open_stream: OpenStream = open_stream
    download: Callable[[str], bytes] = download
    log_levels: dict[str, str] = field(default_factory=lambda: {ROOT: "INFO"})
    connections_max: int = sys.maxsize
    tools_max: int = sys.maxsize
    loop: StepWatch | None = None
    steady: Callable[[], float] | None = None
    interposer: Interposer | None = None

    def loop_rounds(self) -> int:
        """The number of rounds of the event loop that have begun; always 0 if `loop` is None."""
        return 0 if self.loop is None else self.loop.measured.rounds

    def nobody_waited(self) -> None:
        """Begin the measurement of the current step anew: the step was long, but no client or peer could connect."""
        if self.loop is not None:
            self.loop.begin_anew()
