"""What a local cluster looks like on disk and on the network: nodes, ports, settings. Pure.

    DIR/node-1/server.properties    written once; what is changed by hand is kept
    DIR/node-1/pid                  of the process that runs it, or ran it last
    DIR/node-1/server.log           what it says, over all its starts
    DIR/node-1/data/                its logs

Of N brokers from port P on, node i serves clients at P + i - 1; a controller listens at P + 99 + i. The first three
nodes are broker and controller both (Kafka's *combined* mode), unless the number of controllers says otherwise: fewer
make the others mere brokers, more are added as mere controllers. *Isolated* controllers are never brokers; their
numbers follow the brokers'.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
CONTROLLER_PORT_OFFSET = 100
USUAL_CONTROLLERS_MAX = 3
"""A quorum of three survives one loss; more make every decision slower."""

FAST_FAILOVER = {
    "broker.heartbeat.interval.ms": "250",
    "broker.session.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "400",
    "controller.quorum.fetch.timeout.ms": "800",
}
"""Nodes on one machine hear of each other at once: what is silent for a second is gone (Kafka's default: nine)."""


class ClusterError(Exception):
    """In words for whoever wanted the cluster: what is wrong, and where."""


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """One node.

    Attributes:
        port: where clients are served; 0 for a mere controller.
        controller_port: where the quorum meets; 0 for a mere broker.
    """

    node_id: int
    port: int
    controller_port: int

    @property
    def roles(self) -> str:
        """`process.roles`."""
        return ",".join(role for role, port in (("broker", self.port), ("controller", self.controller_port)) if port)


def layout(*, brokers: int, controllers: int | None = None, isolated: bool = False, port: int) -> list[NodeLayout]:
    """The nodes of a new cluster, by id from 1.

    Raises ClusterError for numbers of which no cluster can be made.
    """
    wanted = min(brokers, USUAL_CONTROLLERS_MAX) if controllers is None else controllers
    if brokers < 1 or wanted < 1:
        raise ClusterError("a cluster has at least one broker and one controller")
    if brokers >= CONTROLLER_PORT_OFFSET:
        raise ClusterError(f"at most {CONTROLLER_PORT_OFFSET - 1} brokers: the controllers' ports come next")
    first = brokers + 1 if isolated else 1
    nodes = []
    for node_id in range(1, max(brokers, first + wanted - 1) + 1):
        is_controller = first <= node_id < first + wanted
        nodes.append(
            NodeLayout(
                node_id,
                port=port + node_id - 1 if node_id <= brokers else 0,
                controller_port=port + CONTROLLER_PORT_OFFSET + node_id - 1 if is_controller else 0,
            )
        )
    return nodes


def ports(nodes: Iterable[NodeLayout]) -> list[int]:
    """Every port that the nodes listen on."""
    return [port for node in nodes for port in (node.port, node.controller_port) if port]


def voters(nodes: Iterable[NodeLayout]) -> str:
    """`controller.quorum.voters`."""
    return ",".join(f"{node.node_id}@{HOST}:{node.controller_port}" for node in nodes if node.controller_port)


def properties(
    node: NodeLayout, nodes: Iterable[NodeLayout], folder: Path, settings: Mapping[str, str]
) -> dict[str, str]:
    """The settings of one node; `settings` count most."""
    nodes = list(nodes)
    brokers = sum(1 for one in nodes if one.port)
    replicas = min(3, brokers)
    listeners = {"PLAINTEXT": node.port, "CONTROLLER": node.controller_port}
    given = {
        "node.id": str(node.node_id),
        "process.roles": node.roles,
        "controller.quorum.voters": voters(nodes),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items() if port),
        "advertised.listeners": f"PLAINTEXT://{HOST}:{node.port}" if node.port else "",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": str(replicas),
        "offsets.topic.num.partitions": "10",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(max(1, replicas - 1)),
        "transaction.state.log.num.partitions": "10",
        **FAST_FAILOVER,
    }
    if not node.port:
        del given["advertised.listeners"]
        del given["inter.broker.listener.name"]
    return {**given, **settings}


def properties_text(given: Mapping[str, str]) -> str:
    """A new `server.properties`."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in given.items())


def with_settings(text: str, settings: Mapping[str, str]) -> str:
    """A `server.properties` with some settings changed, added where they are missing; all else as it was."""
    left = dict(settings)
    lines = []
    for line in text.splitlines():
        name = line.partition("=")[0].strip()
        lines.append(f"{name}={_escaped(left.pop(name))}" if name in left else line)
    return "".join(f"{line}\n" for line in lines) + properties_text(left)


def layout_of(given: Mapping[str, str]) -> NodeLayout:
    """The node of an existing `server.properties`. Raises ClusterError where it is not one of ours."""
    try:
        addresses = [listener.partition("://") for listener in given["listeners"].split(",")]
        found = {name.strip().upper(): int(address.rpartition(":")[2]) for name, _, address in addresses}
        controllers = given.get("controller.listener.names", "").upper()
        clients = next((port for name, port in found.items() if name != controllers), 0)
        return NodeLayout(int(given["node.id"]), clients, found.get(controllers, 0))
    except (KeyError, ValueError) as error:
        raise ClusterError(f"not a node of a local cluster: {error}") from None


def _escaped(value: str) -> str:
    """As `.properties` files want it: `\\` is their escape character."""
    return value.replace("\\", "\\\\")
