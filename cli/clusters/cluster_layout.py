"""The layout of a local cluster on disk and on the network: nodes, ports, settings. Pure.

    DIR/node-1/server.properties    written once; later changes by hand are kept
    DIR/node-1/pid                  pid of the current or last process of the node
    DIR/node-1/server.log           output of the node, of all its runs
    DIR/node-1/data/                its logs

With N brokers from port P on, node i serves clients at port P + i - 1, a controller listens at P + 99 + i, and metrics,
if wanted, are at P + 199 + i. By default the first three nodes are broker and controller (Kafka's *combined* mode).
With fewer controllers the other nodes are broker-only; with more, controller-only nodes are added. *Isolated*
controllers are controller-only nodes with ids after those of the brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
CONTROLLER_PORT_OFFSET = 100
METRICS_PORT_OFFSET = 200
PORT_MAX = 65_535
USUAL_CONTROLLERS_MAX = 3
"""A quorum of three tolerates the loss of one controller; with more voters commits take longer."""

FAST_FAILOVER = {
    "broker.heartbeat.interval.ms": "250",
    "broker.session.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "400",
    "controller.quorum.fetch.timeout.ms": "800",
}
"""Short timeouts, as nodes on one machine have no network latency: session timeout 1 s (Kafka's default: 9 s)."""

_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}


class ClusterError(Exception):
    """A cluster cannot be created, started or stopped; the message is for the user."""


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """The ports and roles of one node.

    Attributes:
        node_id: the id of the node.
        port: port of the client listener; 0 for a controller-only node.
        controller_port: port of the controller listener; 0 for a broker-only node.
        metrics_port: port of the metrics listener; 0 for none.
    """

    node_id: int
    port: int
    controller_port: int
    metrics_port: int = 0

    @property
    def roles(self) -> str:
        """The value of `process.roles`."""
        return ",".join(role for role, port in (("broker", self.port), ("controller", self.controller_port)) if port)


def layout(
    *, brokers: int, controllers: int | None = None, isolated: bool = False, port: int, metrics: bool = False
) -> list[NodeLayout]:
    """The nodes of a new cluster, by id from 1.

    Raises ClusterError for impossible numbers of brokers or controllers, and for ports that do not exist.
    """
    wanted = min(brokers, USUAL_CONTROLLERS_MAX) if controllers is None else controllers
    if brokers < 1 or wanted < 1:
        raise ClusterError("a cluster needs at least one broker and one controller")
    if brokers >= CONTROLLER_PORT_OFFSET or wanted >= CONTROLLER_PORT_OFFSET:
        raise ClusterError(
            f"at most {CONTROLLER_PORT_OFFSET - 1} brokers and as many controllers: the ports after these are taken"
        )
    first = brokers + 1 if isolated else 1
    nodes: list[NodeLayout] = []
    for node_id in range(1, max(brokers, first + wanted - 1) + 1):
        is_controller = first <= node_id < first + wanted
        nodes.append(
            NodeLayout(
                node_id,
                port=port + node_id - 1 if node_id <= brokers else 0,
                controller_port=port + CONTROLLER_PORT_OFFSET + node_id - 1 if is_controller else 0,
                metrics_port=port + METRICS_PORT_OFFSET + node_id - 1 if metrics else 0,
            )
        )
    if max(ports(nodes)) > PORT_MAX:
        raise ClusterError(f"port {port} is too high: the nodes would use ports up to {max(ports(nodes))}")
    return nodes


def ports(nodes: Iterable[NodeLayout]) -> list[int]:
    """All ports that the nodes listen on."""
    return [port for node in nodes for port in (node.port, node.controller_port, node.metrics_port) if port]


def voters(nodes: Iterable[NodeLayout]) -> str:
    """The value of `controller.quorum.voters`."""
    return ",".join(f"{node.node_id}@{HOST}:{node.controller_port}" for node in nodes if node.controller_port)


def properties(
    node: NodeLayout, nodes: Iterable[NodeLayout], folder: Path, listener: str = "PLAINTEXT"
) -> dict[str, str]:
    """The settings of one new node; `listener` is the name of the listener for clients and other brokers."""
    nodes = list(nodes)
    brokers = sum(1 for one in nodes if one.port)
    replicas = min(3, brokers)
    listeners = {listener: node.port, "CONTROLLER": node.controller_port}
    given = {
        "node.id": str(node.node_id),
        "process.roles": node.roles,
        "controller.quorum.voters": voters(nodes),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in listeners.items() if port),
        "advertised.listeners": f"{listener}://{HOST}:{node.port}" if node.port else "",
        "inter.broker.listener.name": listener,
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
    return given


def metrics_listener(node: NodeLayout) -> str:
    """The value of `metrics.listener` for a node with a metrics port."""
    return f"http://{HOST}:{node.metrics_port}"


def properties_text(given: Mapping[str, str]) -> str:
    """The text of a new `server.properties`."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in given.items())


def with_settings(text: str, settings: Mapping[str, str]) -> str:
    """The text of a `server.properties` with settings changed or added, and all other lines kept."""
    left = dict(settings)
    lines = []
    for line in text.splitlines():
        name = line.partition("=")[0].strip()
        lines.append(f"{name}={_escaped(left.pop(name))}" if name in left else line)
    return "".join(f"{line}\n" for line in lines) + properties_text(left)


def layout_of(given: Mapping[str, str]) -> NodeLayout:
    """The layout of the node with this `server.properties`. Raises ClusterError if it is not of a local cluster."""
    try:
        addresses = [listener.partition("://") for listener in given["listeners"].split(",")]
        found = {name.strip().upper(): int(address.rpartition(":")[2]) for name, _, address in addresses}
        controllers = given.get("controller.listener.names", "").upper()
        clients = next((port for name, port in found.items() if name != controllers), 0)
        metrics = int(given.get("metrics.listener", "").rstrip("/").rpartition(":")[2] or 0)
        return NodeLayout(int(given["node.id"]), clients, found.get(controllers, 0), metrics)
    except (KeyError, ValueError) as error:
        raise ClusterError(f"not a node of a local cluster: {error}") from None


def _escaped(value: str) -> str:
    """Escape a value for a `.properties` file, in which `\\` is the escape character and leading blanks are skipped."""
    text = "".join(_ESCAPES.get(letter, letter) for letter in value)
    return f"\\{text}" if text[:1] == " " else text
