"""Parses the value of `max.connections.per.ip.overrides`: `host:count, …`."""

from minikafka.protocol.addresses import javas_address
from minikafka.protocol.settings.value_types import NotOfType, parse_int


def limits_of_hosts(text: str) -> dict[str, int]:
    """Parse the text into the maximum number of connections from each host, whose address is as Java writes it.

    Raises:
        NotOfType: an entry is not a host and a number; the message is the entry.
    """
    limits: dict[str, int] = {}
    for entry in filter(None, (one.strip() for one in text.split(","))):
        host, _, count = entry.rpartition(":")
        try:
            limits[javas_address(host.strip())] = parse_int(count.strip())
        except NotOfType:
            raise NotOfType(entry) from None
        if not host:
            raise NotOfType(entry)
    return limits
