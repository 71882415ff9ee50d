"""The quorum of the metadata log as DescribeQuorum returns it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from minikafka.broker.settings.node_config import NodeConfig
from minikafka.controller.quorum.quorum_description import QuorumDescription, ReplicaDescription
from minikafka.controller.standalone_controller import StandaloneController
from minikafka.protocol.types import NIL_UUID

if TYPE_CHECKING:
    from minikafka.controller.quorum_controller import QuorumController


@dataclass(slots=True, frozen=True)
class VoterAddress:
    """A voter's controller listener."""

    node_id: int
    listener: str
    host: str
    port: int


@dataclass(slots=True, frozen=True)
class Quorum:
    """The replicas of the metadata log.

    Attributes:
        addresses: Of the voters, by node id.
        directory_ids: 16 bytes by node id, of nodes whose metadata directory is known.
    """

    description: QuorumDescription
    addresses: tuple[VoterAddress, ...]
    directory_ids: dict[int, bytes]

    def directory_id(self, node_id: int) -> bytes:
        """A replica's directory id; nil for voters from the settings, as in Kafka."""
        return self.directory_ids.get(node_id, NIL_UUID)


async def quorum_of(
    config: NodeConfig, controller: "StandaloneController | QuorumController", directory_id: bytes, now_ms: int
) -> Quorum:
    """The quorum as its leader sees it. Raises RequestTimedOutError where there is no leader.

    Args:
        directory_id: Of a standalone node's metadata directory.
    """
    addresses = voters_of(config, controller)
    if not isinstance(controller, StandaloneController):
        return Quorum(await controller.describe_quorum(), addresses, {})
    replica = ReplicaDescription(config.node_id, True, controller.offset, now_ms, now_ms)
    return Quorum(
        QuorumDescription(config.node_id, controller.leader_epoch, controller.offset, (replica,)),
        addresses,
        {config.node_id: directory_id},
    )


def voters_of(config: NodeConfig, controller: "StandaloneController | QuorumController") -> tuple[VoterAddress, ...]:
    """The controllers and their addresses, by id; that of a standalone node is the address that its broker registered
    where it has no controller listener."""
    if not isinstance(controller, StandaloneController):
        name = config.listeners.controller_names[0] if config.listeners.controller_names else "CONTROLLER"
        return tuple(VoterAddress(node, name, *where) for node, where in sorted(controller.voters.items()))
    if config.listeners.for_controllers:
        listener = config.listeners.for_controllers[0]
        return (VoterAddress(config.node_id, listener.name, listener.host or "localhost", listener.port),)
    listener = config.listeners.advertised[0]
    registered = {name: (host, port) for name, host, port, _ in controller.image.brokers[config.node_id].endpoints}
    host, port = registered.get(listener.name, (listener.host, listener.port))
    return (VoterAddress(config.node_id, listener.name, host, port),)
