"""Every setting of Kafka 4.3, declared once: name, type, default, bounds, when it may change, one sentence.

Parsing, DescribeConfigs, the checks of CreateTopics and AlterConfigs, and the reference page all come from
these declarations; `acted_on` says whether minikafka does anything about a setting. `settings_schema.py` says
what a declaration is; the tables stand in `settings_cluster.py`, `settings_log.py`, `settings_tiered.py`,
`settings_groups.py`, `settings_security.py` and `resources.py`.
"""

import re
from collections.abc import Iterable

from minikafka.protocol.settings import broker, coordinators, logs, resources, security, tiered_storage
from minikafka.protocol.settings.declaration import REQUIRED, InvalidSetting, Setting, SettingType, SettingValue

__all__ = [
    "BROKER_SETTINGS",
    "CLIENT_METRICS_SETTINGS",
    "GROUP_SETTINGS",
    "NODE_SETTINGS",
    "QUOTA_SETTINGS",
    "REQUIRED",
    "THROTTLE_SETTINGS",
    "TOPIC_SETTINGS",
    "InvalidSetting",
    "Setting",
    "SettingType",
    "SettingValue",
    "listener_base_name",
    "node_synonyms",
]


def _by_name(settings: Iterable[Setting]) -> dict[str, Setting]:
    return {setting.name: setting for setting in sorted(settings, key=lambda setting: setting.name)}


NODE_SETTINGS = _by_name(
    broker.SETTINGS
    + logs.SETTINGS
    + tiered_storage.SETTINGS
    + coordinators.SETTINGS
    + security.SETTINGS
)
"""Settings of a node, by name, in order of name."""

TOPIC_SETTINGS = _by_name(resources.TOPIC_SETTINGS)
"""Settings of a topic; `synonym` names the node setting that supplies the default."""

GROUP_SETTINGS = _by_name(resources.GROUP_SETTINGS)
"""Settings of a group."""

QUOTA_SETTINGS = _by_name(resources.QUOTA_SETTINGS)
"""What can be limited for a user or a client id."""

THROTTLE_SETTINGS = _by_name(resources.THROTTLE_SETTINGS)
"""Settings of a node that no file has: they are set while it runs (KIP-73)."""

BROKER_SETTINGS = NODE_SETTINGS | THROTTLE_SETTINGS
"""What a node may have, from its file or while it runs."""

CLIENT_METRICS_SETTINGS = _by_name(resources.CLIENT_METRICS_SETTINGS)
"""Settings of a client metrics subscription (KIP-714)."""

_RETENTION = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")
_ROLL = ("log.roll.ms", "log.roll.hours")
_ROLL_JITTER = ("log.roll.jitter.ms", "log.roll.jitter.hours")
_SYNONYMS = {
    **dict.fromkeys(_RETENTION, _RETENTION),
    **dict.fromkeys(_ROLL, _ROLL),
    **dict.fromkeys(_ROLL_JITTER, _ROLL_JITTER),
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
}


def node_synonyms(name: str) -> tuple[str, ...]:
    """Names that set the same thing as the node setting `name`, the one that counts most first.

    Source: `DynamicBrokerConfig.brokerConfigSynonyms`.
    """
    return _SYNONYMS.get(name, (name,))


_LISTENER_SETTING = re.compile(r"listener\.name\.[^.]*\.(?P<base>.*)")


def listener_base_name(name: str) -> str | None:
    """The setting behind `listener.name.<listener>.<setting>`; None when `name` is not of that form."""
    found = _LISTENER_SETTING.fullmatch(name)
    return found["base"] if found else None
