"""Describes the quorum of the metadata log: its replicas, the voters' addresses, and the level of `kraft.version`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.quorum.quorum_description import QuorumDescription, ReplicaDescription
from minikafka.controller.raft.voter_set import KRAFT_VERSION_MAX, VoterSet
from minikafka.controller.standalone_controller import StandaloneController

if TYPE_CHECKING:
    from minikafka.controller.quorum_controller import QuorumController


DEFAULT_CONTROLLER_LISTENER = "CONTROLLER"


@dataclass(slots=True, frozen=True)
class VoterAddress:
    """The address of one controller listener of a voter; a voter may have several listeners."""

    node_id: int
    listener: str
    host: str
    port: int


@dataclass(slots=True, frozen=True)
class Quorum:
    """The replicas of the metadata log.

    Attributes:
        description: The replicas and their progress, as the leader sees them.
        addresses: The addresses of the voters, by node id.
    """

    description: QuorumDescription
    addresses: tuple[VoterAddress, ...]


class KraftVersions(NamedTuple):
    """The level of the feature `kraft.version` (0: fixed voters, 1: voters may change), and its highest level."""

    level: int
    highest: int


async def quorum_of(
    config: NodeConfig, controller: "StandaloneController | QuorumController", now_ms: int
) -> Quorum:
    """Describe the quorum as its leader sees it. Raises RequestTimedOutError if there is no leader."""
    if not isinstance(controller, StandaloneController):
        description = await controller.describe_quorum()
        return Quorum(description, tuple(addresses_in(description.voters)) or voters_of(config, controller))
    replica = ReplicaDescription(config.node_id, True, controller.offset, now_ms, now_ms)
    return Quorum(
        QuorumDescription(config.node_id, controller.leader_epoch, controller.offset, (replica,)),
        voters_of(config, controller),
    )


def voters_of(config: NodeConfig, controller: "StandaloneController | QuorumController") -> tuple[VoterAddress, ...]:
    """Return the voters' addresses, in the order of their ids.

    The address of a standalone node without a controller listener is the one that its broker has registered.
    """
    if not isinstance(controller, StandaloneController):
        return tuple(addresses_in(controller.voter_set))
    if config.listeners.for_controllers:
        listener = config.listeners.for_controllers[0]
        return (VoterAddress(config.node_id, listener.name, listener.host or "localhost", listener.port),)
    listener = config.listeners.advertised[0]
    registered = {name: (host, port) for name, host, port, _ in controller.image.brokers[config.node_id].endpoints}
    host, port = registered.get(listener.name, (listener.host, listener.port))
    return (VoterAddress(config.node_id, listener.name, host, port),)


def addresses_in(voters: VoterSet) -> Iterator[VoterAddress]:
    """Yield every endpoint of every voter."""
    for voter in voters:
        for endpoint in voter.endpoints:
            yield VoterAddress(voter.key.id, *endpoint)


def controllers_of(
    config: NodeConfig, controller: "StandaloneController | QuorumController"
) -> tuple[VoterAddress, ...]:
    """Return all controllers that this node knows, in the order of their ids, whether they are voters or not.

    The address of each is that of the listener by which controllers reach each other.
    """
    first = {one.node_id: one for one in reversed(voters_of(config, controller))}
    if not isinstance(controller, StandaloneController):
        name = default_listener(config)
        for node_id, (host, port) in controller.membership.controllers().items():
            first[node_id] = VoterAddress(node_id, name, host, port)
    return tuple(first[node_id] for node_id in sorted(first))


def default_listener(config: NodeConfig) -> str:
    """Return the listener by which controllers reach each other: the first of `controller.listener.names`."""
    return (config.listeners.controller_names or (DEFAULT_CONTROLLER_LISTENER,))[0]


def kraft_versions_of(controller: "StandaloneController | QuorumController") -> KraftVersions:
    """Return the levels of `kraft.version`; 0 for a standalone node, whose voter is fixed."""
    if isinstance(controller, StandaloneController):
        return KraftVersions(0, 0)
    return KraftVersions(controller.kraft_version, KRAFT_VERSION_MAX)
