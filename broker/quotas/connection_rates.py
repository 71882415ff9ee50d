"""`ConnectionRates`: the rates at which connections are accepted (KIP-612), of a node, of a listener, of an address.

Above the rate of the node or of a listener, the listener accepts nothing for a while. A connection above the rate of
its address is accepted, not read, and closed after a while; it does not count. Neither takes longer than one sample.

Source: `SocketServer`: `ConnectionQuotas`.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from contextlib import suppress

from minikafka.controller.metadata.image import Entity
from minikafka.controller.quotas.rates import Rate, Samples
from minikafka.controller.quotas.sensors import Sensors

__all__ = ["ConnectionRates", "address_of"]

KEY, IP = "connection_creation_rate", "ip"
LOCALHOST = "localhost"


class ConnectionRates:
    """The rates of the connections of a node.

    Args:
        samples: Over what time connections are counted.
        clock: Seconds that only grow.
        protected: The listener of the brokers if clients have others: the limit of the node does not hold for it.

    Attributes:
        delayed: How many refused connections are not closed yet.
    """

    def __init__(self, samples: Samples, clock: Callable[[], float], protected: str = "") -> None:
        self.delayed = 0
        self._samples = samples
        self._clock = clock
        self._of_node = Rate(samples)
        self._of_listeners: dict[str, Rate] = {}
        self._of_hosts: Sensors[Rate] = Sensors(lambda: Rate(samples))
        self._node_max: float | None = None
        self._listener_max: Mapping[str, float] = {}
        self._host_max: dict[str | None, float] = {}
        self._protected = protected

    def set_limits(self, node_max: float | None, listener_max: Mapping[str, float]) -> None:
        """Take the settings `max.connection.creation.rate`.

        Args:
            node_max: The connections a second of all listeners together; None without a limit.
            listener_max: The connections a second of listeners that have a limit of their own, by name in lower case.
        """
        self._node_max, self._listener_max = node_max, listener_max

    def set(self, entity: Entity, key: str, value: float | None) -> None:
        """Take a quota of the metadata, if it is one of an address; None removes it."""
        kinds = dict(entity)
        if key != KEY or IP not in kinds:
            return
        host = None if (name := kinds[IP]) is None else address_of(name)
        if value is None:
            self._host_max.pop(host, None)
        else:
            self._host_max[host] = value

    def pause_s(self, listener: str) -> float:
        """Count a connection of a listener; returns for how many seconds the listener is to accept nothing."""
        now_ms, pause_ms = self._clock() * 1000, 0
        if self._node_max is not None and listener != self._protected:
            pause_ms = self._count(self._of_node, self._node_max, now_ms)
        if (limit := self._listener_max.get(listener.lower())) is not None:
            rate = self._of_listeners.setdefault(listener, Rate(self._samples))
            pause_ms = max(pause_ms, self._count(rate, limit, now_ms))
        return pause_ms / 1000

    def refused_for_s(self, host: str) -> float:
        """Count a connection of an address; returns after how many seconds it is to be closed, 0 if it is admitted."""
        if not self._host_max:
            return 0.0
        host = str(_ip(host) or host)
        limit = self._host_max.get(host, self._host_max.get(None))
        if limit is None:
            return 0.0
        now_ms = self._clock() * 1000
        rate = self._of_hosts.sensor(("", host), now_ms)
        refused_ms = self._count(rate, limit, now_ms)
        if refused_ms:
            rate.record(-1, now_ms)
        return refused_ms / 1000

    def _count(self, rate: Rate, limit: float, now_ms: float) -> int:
        rate.record(1, now_ms)
        return min(rate.above_for_ms(limit, now_ms), self._samples.size_ms)


def address_of(name: str) -> str:
    """Return the address that the name of an entity stands for, which may be written in Java's ways: `127.1`."""
    if name.lower() == LOCALHOST:
        return "127.0.0.1"
    numbers = name.split(".")
    if all(re.fullmatch("[0-9]+", number) for number in numbers):
        *parts, last = map(int, numbers)
        value = sum(part << 8 * (3 - place) for place, part in enumerate(parts)) + last
        return str(ipaddress.IPv4Address(value))
    return str(_ip(name.strip("[]")) or name)


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    with suppress(ValueError):
        address = ipaddress.ip_address(text)
        return getattr(address, "ipv4_mapped", None) or address
    return None
