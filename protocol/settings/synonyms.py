"""Groups of node settings that set the same value under several names, such as `log.retention.ms` and `.hours`.

Source: `DynamicBrokerConfig.brokerConfigSynonyms`, `KafkaConfig.extractLogConfigMap`.
"""

from collections.abc import Callable

from minikafka.protocol.settings.declaration import SettingValue

HOUR_MS, MINUTE_MS = 3_600_000, 60_000

_RETENTION = {"log.retention.ms": 1, "log.retention.minutes": MINUTE_MS, "log.retention.hours": HOUR_MS}
_ROLL = {"log.roll.ms": 1, "log.roll.hours": HOUR_MS}
_ROLL_JITTER = {"log.roll.jitter.ms": 1, "log.roll.jitter.hours": HOUR_MS}
_FLUSH = {"log.flush.interval.ms": 1, "log.flush.scheduler.interval.ms": 1}
_SYNONYMS: dict[str, dict[str, int]] = {
    **dict.fromkeys(_RETENTION, _RETENTION),
    **dict.fromkeys(_ROLL, _ROLL),
    **dict.fromkeys(_ROLL_JITTER, _ROLL_JITTER),
    "log.flush.interval.ms": _FLUSH,
}
"""By name of a setting, the names that set the same value, in order of precedence, with their units in milliseconds."""


def node_synonyms(name: str) -> tuple[str, ...]:
    """The names that set the same value as the node setting `name`, in order of precedence."""
    return tuple(_SYNONYMS.get(name, (name,)))


def value_with_synonyms(name: str, value_of: Callable[[str], SettingValue]) -> SettingValue:
    """The value of a node setting, or of its first synonym that is not null, in the unit of `name` (milliseconds)."""
    for synonym, unit_ms in _SYNONYMS.get(name, {}).items():
        if isinstance(value := value_of(synonym), int):
            return value * unit_ms
    return value_of(name)
