"""`RuntimeSettings`: applies changes of a node's settings that are not read at each use, while the node runs.

Source: `DynamicBrokerConfig`: `DynamicConnectionQuota`, `DynamicProducerStateManagerConfig`.
"""

import contextlib
from collections.abc import Callable, Iterable

from minikafka.controller.decisions.broker_config_validation import CORDONED, CORDONED_ALL
from minikafka.controller.metadata.features import cordons_directories
from minikafka.controller.metadata.records import ConfigRecord, FeatureRecord, Record
from minikafka.controller.settings.effective_settings import EffectiveSettings, ResourceType
from minikafka.protocol.settings.connection_limits import limits_of_hosts
from minikafka.protocol.settings.value_types import NotOfType
from minikafka.storage.directories.log_manager import LogManager

__all__ = ["RuntimeSettings"]


class RuntimeSettings:
    """Holds the connection limits of a node, and applies changes of these and of the settings of logs.

    The latter are `producer.id.expiration.ms` and `cordoned.log.dirs` (KIP-1066).

    Args:
        settings: The effective settings of the node.
        logs: The logs of the node.
        connections_max: The largest number of connections for which the process has descriptors.
        cordoned: Called when directories may have been cordoned or uncordoned.

    Attributes:
        connections_max: The largest number of connections now. Further connections that are open already stay open.
    """

    def __init__(
        self,
        settings: EffectiveSettings,
        logs: LogManager,
        connections_max: int,
        cordoned: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._logs = logs
        self._descriptors = connections_max
        self._cordoned = cordoned
        self._of_hosts: dict[str, int] = {}
        self._read_limits()

    def connections_max_of(self, host: str) -> int:
        """The largest number of connections from the address `host`."""
        return self._of_hosts.get(host, self._of_others)

    def update(self) -> None:
        """Read the effective settings, and apply them."""
        self._read_limits()
        self._logs.set_producer_expiration(self._number("producer.id.expiration.ms"))
        self._cordon()

    def apply(self, records: Iterable[Record]) -> None:
        """Update if `records`, which are committed metadata, change a setting of brokers or a feature."""
        for record in records:
            of_brokers = isinstance(record, ConfigRecord) and record.resource_type == ResourceType.BROKER
            if of_brokers or isinstance(record, FeatureRecord):
                self.update()
                return

    def _cordon(self) -> None:
        """Cordon the data directories that the settings name, if the metadata version supports cordons."""
        named = self._settings.node_value(CORDONED)
        listed = named if isinstance(named, tuple) and cordons_directories(self._settings.image.features) else ()
        for directory in self._logs.directories:
            directory.cordoned = CORDONED_ALL in listed or directory.path in listed
        self._cordoned()

    def _read_limits(self) -> None:
        self.connections_max = min(self._number("max.connections"), self._descriptors)
        self._of_others = self._number("max.connections.per.ip")
        text = str(self._settings.node_value("max.connections.per.ip.overrides") or "")
        with contextlib.suppress(NotOfType):  # a controller accepts any text from a tool: the last valid one counts
            self._of_hosts = limits_of_hosts(text)

    def _number(self, name: str) -> int:
        value = self._settings.node_value(name)
        assert isinstance(value, int), f"{name} is {value!r}"
        return value
