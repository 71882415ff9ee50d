"""The settings of the nodes of a cluster for tests: those of Kafka, but for what makes a small cluster slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from minikafka.broker.node.free_ports import HOST, free_port

__all__ = ["Ports", "find_ports", "settings_of"]

FIRST_ELECTION_MS, ELECTION_MS = 5, 1000
"""The election timeouts: that of the first node is the shortest, so that it usually becomes the active controller."""


@dataclass(frozen=True)
class Ports:
    """The ports of the nodes, in order: for clients, and for controllers (none if there is only one node)."""

    clients: Sequence[int]
    controllers: Sequence[int]

    @property
    def nodes(self) -> dict[int, int]:
        """The id of the node that listens at each port."""
        return {port: node for ports in (self.clients, self.controllers) for node, port in enumerate(ports, 1)}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.clients)


def find_ports(brokers: int, port: int | None = None) -> Ports:
    """Find free ports for so many nodes; with `port`, the nodes have this one for clients, and those that follow.

    Raises OSError.
    """
    of_controllers = brokers if brokers > 1 else 0
    of_clients = brokers if port is None else 0
    base = free_port(lambda base: list(range(base, base + of_clients + of_controllers)))
    clients = range(base, base + brokers) if port is None else range(port, port + brokers)
    return Ports(clients, range(base + of_clients, base + of_clients + of_controllers))


def settings_of(node_id: int, ports: Ports, given: Mapping[str, str]) -> dict[str, str]:
    """The settings of one node, by Kafka's names; those given take precedence."""
    count = len(ports.clients)
    settings = {
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://{HOST}:{ports.clients[node_id - 1]}",
        "log.dirs": "/kafka",
        "num.partitions": "1",
        "default.replication.factor": str(min(count, 3)),
        "min.insync.replicas": "1",
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": str(min(count, 3)),
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": str(min(count, 3)),
        "transaction.state.log.min.isr": str(min(count, 2)),
        "group.initial.rebalance.delay.ms": "0",
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "3000",
        "replica.lag.time.max.ms": "3000",
        "connections.max.idle.ms": str(2**63 - 1),
        "max.incremental.fetch.session.cache.slots": "0",
    }
    if ports.controllers:
        settings |= {
            "process.roles": "broker,controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(
                f"{number}@{HOST}:{port}" for number, port in enumerate(ports.controllers, 1)
            ),
            "controller.quorum.election.timeout.ms": str(FIRST_ELECTION_MS if node_id == 1 else ELECTION_MS),
        }
        settings["listeners"] += f",CONTROLLER://{HOST}:{ports.controllers[node_id - 1]}"
    return {**settings, **given}
