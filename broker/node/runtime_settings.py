"""`RuntimeSettings`: applies changes of settings and quotas that are not read at each use, while the node runs.

Source: `DynamicBrokerConfig`: `DynamicConnectionQuota`, `DynamicProducerStateManagerConfig`.
"""

import contextlib
from collections.abc import Callable, Generator, Sequence

from minikafka.broker.quotas.client_quotas import ClientQuotas
from minikafka.broker.quotas.connection_rates import ConnectionRates
from minikafka.controller.decisions.broker_config_validation import CORDONED, CORDONED_ALL
from minikafka.controller.metadata.features import cordons_directories
from minikafka.controller.metadata.records import ConfigRecord, FeatureRecord, Record
from minikafka.controller.quotas.changes import TakeQuota, quota_changes, quotas_now
from minikafka.controller.settings.effective_settings import EffectiveSettings, ResourceType
from minikafka.protocol.addresses import javas_address
from minikafka.protocol.settings.connection_limits import limits_of_hosts
from minikafka.protocol.settings.value_types import INT_MAX, NotOfType, parse_int
from minikafka.storage.directories.log_manager import LogManager

__all__ = ["RuntimeSettings"]

CONNECTIONS, CREATION_RATE = "max.connections", "max.connection.creation.rate"
LISTENER_PREFIX = "listener.name."


class RuntimeSettings:
    """Holds the connection limits of a node, and applies changes of these and of the settings of logs.

    The latter are `producer.id.expiration.ms` and `cordoned.log.dirs` (KIP-1066).

    Args:
        settings: The effective settings of the node.
        logs: The logs of the node.
        connections_max: The largest number of connections for which the process has descriptors.
        cordoned: Called when directories may have been cordoned or uncordoned.
        quotas: The quotas of clients, which take those of the metadata.
        connection_rates: The rates of new connections, which take the settings and the quotas of addresses.
        protected: The listener of the brokers if clients have others: `max.connections` does not hold for it.

    Attributes:
        connections_max: The largest number of connections now. Further connections that are open already stay open.
        quotas: The argument `quotas`.
        connection_rates: The argument `connection_rates`.
    """

    def __init__(
        self,
        settings: EffectiveSettings,
        logs: LogManager,
        connections_max: int,
        cordoned: Callable[[], None] = lambda: None,
        quotas: ClientQuotas | None = None,
        connection_rates: ConnectionRates | None = None,
        protected: str = "",
    ) -> None:
        self._settings = settings
        self._logs = logs
        self._descriptors = connections_max
        self._cordoned = cordoned
        self.quotas = quotas
        self.connection_rates = connection_rates
        self._protected = protected
        self._of_hosts: dict[str, int] = {}
        self._of_listeners: dict[str, int] = {}
        self._read_limits()

    def connections_max_for(self, listener: str) -> int:
        """The number of the node's connections from which on a listener accepts none."""
        return self._descriptors if listener == self._protected else self.connections_max

    def connections_max_on(self, listener: str) -> int:
        """The largest number of connections of a listener."""
        return self._of_listeners.get(listener.lower(), self._descriptors)

    def connections_max_of(self, host: str) -> int:
        """The largest number of connections from the address `host`."""
        return self._of_hosts.get(javas_address(host), self._of_others)

    def update(self) -> None:
        """Read the effective settings, and apply them."""
        self._read_limits()
        self._logs.set_producer_expiration(self._number("producer.id.expiration.ms"))
        self._cordon()

    def apply(self, records: Sequence[Record]) -> None:
        """Update if `records`, which are committed metadata, change a setting of brokers or a feature."""
        for record in records:
            of_brokers = isinstance(record, ConfigRecord) and record.resource_type == ResourceType.BROKER
            if of_brokers or isinstance(record, FeatureRecord):
                self.update()
                return

    def load_quotas(self) -> Generator[None, None, None]:
        """Take all quotas of the metadata, in steps."""
        return quotas_now(self._settings.image.quotas, *self._takers())

    def apply_quotas(self, records: Sequence[Record]) -> Generator[None, None, None]:
        """Take the quotas that `records`, which are committed metadata, change; in steps."""
        return quota_changes(records, *self._takers())

    def _takers(self) -> list[TakeQuota]:
        return [one.set for one in (self.quotas, self.connection_rates) if one is not None]

    def _cordon(self) -> None:
        """Cordon the data directories that the settings name, if the metadata version supports cordons."""
        named = self._settings.node_value(CORDONED)
        listed = named if isinstance(named, tuple) and cordons_directories(self._settings.image.features) else ()
        for directory in self._logs.directories:
            directory.cordoned = CORDONED_ALL in listed or directory.path in listed
        self._cordoned()

    def _read_limits(self) -> None:
        self.connections_max = min(self._number(CONNECTIONS), self._descriptors)
        self._of_others = self._number("max.connections.per.ip")
        text = str(self._settings.node_value("max.connections.per.ip.overrides") or "")
        with contextlib.suppress(NotOfType):  # a controller accepts any text from a tool: the last valid one counts
            self._of_hosts = limits_of_hosts(text)
        self._of_listeners = self._by_listener(CONNECTIONS)
        self._read_connection_rates()

    def _read_connection_rates(self) -> None:
        if self.connection_rates is None:
            return
        of_node = self._number(CREATION_RATE)
        self.connection_rates.set_limits(None if of_node == INT_MAX else of_node, self._by_listener(CREATION_RATE))

    def _by_listener(self, setting: str) -> dict[str, int]:
        """The values of a setting that listeners have for themselves, by name in lower case."""
        values: dict[str, int] = {}
        for _, layer in reversed(self._settings.layers):
            for name in layer:
                listener, _, base = name.removeprefix(LISTENER_PREFIX).partition(".")
                if base == setting and name.startswith(LISTENER_PREFIX):
                    with contextlib.suppress(NotOfType):  # as above
                        values[listener] = parse_int(layer[name])
        return values

    def _number(self, name: str) -> int:
        value = self._settings.node_value(name)
        assert isinstance(value, int), f"{name} is {value!r}"
        return value
