"""The quorum of the metadata log as DescribeQuorum tells it. Today it has one voter: the node itself."""

from dataclasses import dataclass

from minikafka.broker.config import NodeConfig
from minikafka.controller.controller import Controller
from minikafka.protocol.names import uuid_from_text
from minikafka.storage.data_directory import DataDirectory


@dataclass(slots=True, frozen=True)
class Voter:
    """One voter. `log_end_offset` as far as the leader knows; `last_caught_up_ms` is now for the leader."""

    node_id: int
    directory_id: bytes
    log_end_offset: int
    last_caught_up_ms: int
    listener: str
    host: str
    port: int


@dataclass(slots=True, frozen=True)
class Quorum:
    """Who leads the metadata log, in which epoch, and how far it is committed."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[Voter, ...]


def quorum_of(config: NodeConfig, controller: Controller, directory: DataDirectory, now_ms: int) -> Quorum:
    """The quorum of a node that is alone in it.

    A node without a controller listener is reached where clients reach it: DescribeQuorum must name some address.
    """
    controllers = [one for one in config.listeners.all if one.name in config.listeners.controller_names]
    listener = (controllers or list(config.listeners.advertised))[0]
    registered = {name: (host, port) for name, host, port, _ in controller.image.brokers[config.node_id].endpoints}
    host, port = registered.get(listener.name, (listener.host, listener.port))
    voter = Voter(
        config.node_id,
        uuid_from_text(directory.directory_id),
        controller.offset,
        now_ms,
        listener.name,
        host,
        port,
    )
    return Quorum(config.node_id, controller.leader_epoch, controller.offset, (voter,))
