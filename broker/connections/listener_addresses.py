"""Which address clients are told: the one that is right for whoever asks."""

from collections.abc import Mapping, Sequence

from minikafka.broker.apis.cluster_answers import Address
from minikafka.broker.settings.listeners import Listener
from minikafka.controller.metadata.image import Image

EVERY_ADDRESS = ("", "0.0.0.0", "::")


def advertised_endpoints(
    advertised: Sequence[Listener], bound_ports: Mapping[str, int]
) -> tuple[tuple[str, str, int, str], ...]:
    """What a node registers: (listener, host, port, protocol), with ports that were taken free filled in."""
    return tuple(
        (listener.name, listener.host, listener.port or bound_ports[listener.name], listener.protocol)
        for listener in advertised
    )


def addresses(image: Image, listener: str, reached_host: str, *, fenced: bool = False) -> list[Address]:
    """The live nodes as a client of `listener` can reach them; with `fenced`, those that are fenced instead.

    A node that listens on every address of its machine without saying which one to use is told by the address at which
    the client reached this node: on one machine, or in one container, that is right for everybody.
    """
    found: list[Address] = []
    for node_id, broker in sorted(image.brokers.items()):
        if broker.fenced is not fenced:
            continue
        for name, host, port, _ in broker.endpoints:
            if name == listener:
                found.append(Address(node_id, reached_host if host in EVERY_ADDRESS else host, port, broker.rack))
    return found
