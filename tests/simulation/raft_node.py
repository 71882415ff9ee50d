"""A node of a simulated quorum, its disk, and the network of all nodes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from minikafka.controller.raft.election_state import ElectionState
from minikafka.controller.raft.voter_history import Membership
from minikafka.controller.raft.voter_set import ReplicaKey, Voter, VoterEndpoint
from simulation.raft_log import DiskLog, SimulatedLog

if TYPE_CHECKING:
    from minikafka.controller.raft.effects import Effect
    from minikafka.controller.raft.raft import Raft


@dataclass(slots=True)
class Network:
    """The faults of the network.

    Attributes:
        loss, doubling: probabilities per message. delay: the mean of an exponential distribution, in seconds.
        cut: pairs (sender, receiver) whose messages are lost.
        encoding: the probability that a message is encoded and decoded on its way.
    """

    loss: float = 0.0
    doubling: float = 0.0
    delay: float = 0.001
    encoding: float = 0.01
    cut: set[tuple[int, int]] = field(default_factory=set)


@dataclass(slots=True)
class Disk:
    """The durable state of a node."""

    log: DiskLog = field(default_factory=DiskLog)
    election: ElectionState = field(default_factory=ElectionState)


class Node:
    """A node and its driver."""

    __slots__ = (
        "applied", "carrying_out", "clock_offset", "clock_rate", "disk", "high_watermark", "id", "incarnation",
        "key", "log", "membership", "paused_until", "port", "queue", "raft", "state", "ticks_at", "voters",
    )  # fmt: skip

    def __init__(self, id_: int, *, voters: tuple[int, ...], bootstrap: Membership | None, clock_rate: float) -> None:
        self.id = id_
        self.key = ReplicaKey(id_, directory(id_, 0))
        self.port = 0
        self.voters = voters
        """Those of its settings."""
        self.disk = Disk(DiskLog(bootstrap))
        self.membership = Membership()
        self.clock_rate = clock_rate
        self.clock_offset = 0.0
        self.incarnation = 0
        self.paused_until = 0.0
        self.raft: Raft | None = None
        self.log: SimulatedLog
        self.queue: deque[Effect] = deque()
        self.carrying_out = False
        self.ticks_at = 0.0
        self.applied = 0
        self.state = 0
        self.high_watermark = 0

    def __str__(self) -> str:
        return f"n{self.id}"

    @property
    def own(self) -> Voter:
        return Voter(self.key, (VoterEndpoint("CONTROLLER", f"node-{self.id}", self.port),))


def directory(node_id: int, number: int) -> bytes:
    """The directory id of a node's disk of this number."""
    return bytes([0x40, node_id, number]) + bytes(13)
