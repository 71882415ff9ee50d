"""Parses lists of listeners (`NAME://host:port`) and their security protocols, and finds conflicts of ports.

Source: `SocketServerConfigs.listenerListToEndPoints` and `KafkaConfig.validateValues`.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from minikafka.protocol.settings.value_types import split_list

__all__ = [
    "Listener",
    "ListenerError",
    "check_ports",
    "is_setting_of_listeners",
    "listener_prefix",
    "parse_listeners",
    "protocol_map",
]


@dataclass(frozen=True, slots=True)
class Listener:
    """An address to listen on or to advertise.

    Attributes:
        name: The name in upper case, as Kafka normalizes names.
        host: "" stands for all addresses of the machine; if advertised, for the address that the client connected to.
        port: The TCP port; 0 binds a free port.
        protocol: "PLAINTEXT", "SSL", "SASL_PLAINTEXT" or "SASL_SSL"; "HTTP" or "HTTPS" for `metrics.listener`.
    """

    name: str
    host: str
    port: int
    protocol: str

    @property
    def is_local(self) -> bool:
        """Whether only clients on this machine reach it: its host is a loopback address, or `localhost`."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class ListenerError(ValueError):
    """A list of listeners is invalid. The text is the message of a `Problem`."""


def listener_prefix(name: str) -> str:
    """The prefix of the settings of one listener, in lower case as in Kafka."""
    return f"listener.name.{name.lower()}."


def is_setting_of_listeners(name: str) -> bool:
    """Whether a supported setting may be given for one listener, as `listener.name.<listener>.<name>`."""
    is_of_tls = name.startswith("ssl.") and name not in ("ssl.allow.dn.changes", "ssl.allow.san.changes")
    return is_of_tls or name in ("max.connections", "max.connection.creation.rate")


PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ADDRESS = re.compile(
    r"(?P<name>[^:/]+)://(?:\[(?P<bracketed>[0-9a-zA-Z%._:-]*)\]|(?P<host>[^\[\]/]*)):(?P<port>\d+)"
)
_HOST = re.compile(r"[0-9a-zA-Z%._:-]*")


def parse_listeners(items: Iterable[str], protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """Parse a list of listeners with distinct names.

    Args:
        items: The entries of the list, as `NAME://host:port`.
        protocols: The security protocol of each listener name.

    Raises:
        ListenerError: An entry is invalid (the first one is named), or two have the same name.
    """
    found = tuple(_parse(item, protocols) for item in items)
    twice = [name for name, count in Counter(listener.name for listener in found).items() if count > 1]
    if twice:
        raise ListenerError(f"Each listener must have a different name, but {', '.join(twice)} occurs twice")
    return found


def _parse(item: str, protocols: Mapping[str, str]) -> Listener:
    found = _ADDRESS.fullmatch(item)
    if not found or not _HOST.fullmatch(found["host"] or ""):
        raise ListenerError(f"Unable to parse {item} to a listener; allowed: NAME://host:port")
    name, port = found["name"].upper(), int(found["port"])
    if port > 65535:
        raise ListenerError(f"{item} has an invalid port; allowed: 0 to 65535")
    if name not in protocols:
        raise ListenerError(
            f"No security protocol defined for listener {name}; listener.security.protocol.map has "
            + ", ".join(protocols)
        )
    return Listener(name, found["bracketed"] or found["host"] or "", port, protocols[name])


def check_ports(listeners: Sequence[Listener]) -> None:
    """Check that no two listeners share a port, unless one is IPv4 and the other IPv6.

    Raises:
        ListenerError: Two listeners share a port, which the text names.
    """
    by_port: dict[int, list[Listener]] = {}
    for listener in listeners:
        if listener.port:
            by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        if sorted(map(_family, sharing)) not in (["IPv4", "IPv6"], [_family(sharing[0])]):
            raise ListenerError(
                f"Listeners must have different ports unless one has an IPv4 and the other an IPv6 address, "
                f"but {' and '.join(map(str, sharing))} share port {port}"
            )


def _family(listener: Listener) -> str:
    try:
        return f"IPv{ipaddress.ip_address(listener.host).version}"
    except ValueError:
        return "name"


def protocol_map(text: str) -> dict[str, str]:
    """Parse `listener.security.protocol.map`: the security protocol by listener name, both in upper case.

    Raises:
        ListenerError: An entry is not NAME:PROTOCOL.
    """
    protocols: dict[str, str] = {}
    for entry in filter(None, split_list(text.strip())):
        name, colon, protocol = (part.strip() for part in entry.rpartition(":"))
        if not name or not colon or protocol.upper() not in PROTOCOLS:
            raise ListenerError(f"{entry} is not NAME:PROTOCOL with a protocol of {', '.join(PROTOCOLS)}")
        protocols[name.upper()] = protocol.upper()
    return protocols
