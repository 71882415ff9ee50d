"""Advertised addresses: the endpoints that a node registers, and the broker addresses that a client receives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from minikafka.broker.settings.listeners import Listener
from minikafka.controller.metadata.image import Image

WILDCARD_HOSTS = ("", "0.0.0.0", "::")


@dataclass(slots=True, frozen=True)
class Address:
    """Where clients of one listener reach a broker."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def advertised_endpoints(
    advertised: Sequence[Listener], bound_ports: Mapping[str, int]
) -> tuple[tuple[str, str, int, str], ...]:
    """The endpoints that a node registers: (listener, host, port, protocol), with the bound port in place of port 0."""
    return tuple(
        (listener.name, listener.host, listener.port or bound_ports[listener.name], listener.protocol)
        for listener in advertised
    )


def addresses(image: Image, listener: str, reached_host: str, *, fenced: bool = False) -> list[Address]:
    """The unfenced brokers as a client of `listener` can reach them; with `fenced`, the fenced brokers instead.

    For a broker that advertises a wildcard address, the host is the one at which the client reached this node. That is
    right for every client of brokers that share one machine or one container.
    """
    found: list[Address] = []
    for node_id, broker in sorted(image.brokers.items()):
        if broker.fenced is not fenced:
            continue
        for name, host, port, _ in broker.endpoints:
            if name == listener:
                found.append(Address(node_id, reached_host if host in WILDCARD_HOSTS else host, port, broker.rack))
    return found
