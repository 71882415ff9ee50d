"""Describes the quorum of the metadata log: its replicas, the voters' addresses, and the level of `kraft.version`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.quorum.quorum_description import QuorumDescription
from minikafka.controller.quorum_controller import QuorumController
from minikafka.controller.raft.voter_set import VoterSet

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


async def quorum_of(config: NodeConfig, controller: QuorumController) -> Quorum:
    """Describe the quorum as its leader sees it. Raises RequestTimedOutError if there is no leader."""
    description = await controller.describe_quorum()
    return Quorum(description, tuple(addresses_in(description.voters)) or voters_of(config, controller))


def voters_of(config: NodeConfig, controller: QuorumController) -> tuple[VoterAddress, ...]:
    """Return the voters' addresses, in the order of their ids.

    The address of a lone node without a controller listener is the one that its broker has registered.
    """
    if config.listeners.for_controllers or not config.is_alone:
        return tuple(addresses_in(controller.membership.voter_set))
    listener = config.listeners.advertised[0]
    registered = {name: (host, port) for name, host, port, _ in controller.image.brokers[config.node_id].endpoints}
    host, port = registered.get(listener.name, (listener.host, listener.port))
    return (VoterAddress(config.node_id, listener.name, host, port),)


def addresses_in(voters: VoterSet) -> Iterator[VoterAddress]:
    """Yield every endpoint of every voter."""
    for voter in voters:
        for endpoint in voter.endpoints:
            yield VoterAddress(voter.key.id, *endpoint)


def controllers_of(config: NodeConfig, controller: QuorumController) -> tuple[VoterAddress, ...]:
    """Return all controllers that this node knows, in the order of their ids, whether they are voters or not.

    The address of each is that of the listener by which controllers reach each other.
    """
    name = default_listener(config)
    first = {one.node_id: one for one in reversed(voters_of(config, controller))}
    for node_id, (host, port) in controller.membership.controllers().items():
        first[node_id] = VoterAddress(node_id, name, host, port)
    return tuple(first[node_id] for node_id in sorted(first))


def default_listener(config: NodeConfig) -> str:
    """Return the listener by which controllers reach each other: the first of `controller.listener.names`."""
    return (config.listeners.controller_names or (DEFAULT_CONTROLLER_LISTENER,))[0]


def kraft_versions_of(controller: QuorumController) -> KraftVersions:
    """Return the levels of `kraft.version`."""
    return KraftVersions(controller.membership.kraft_version, controller.membership.kraft_version_max)
