"""Every setting of Kafka 4.3 by resource type and name: the tables that the rest of the code uses."""

import re

from minikafka.protocol.settings import client_metrics, groups, quotas, security, topics
from minikafka.protocol.settings.declaration import REQUIRED, InvalidSetting, Setting
from minikafka.protocol.settings.node_settings import INTERNAL_SETTINGS, NODE_SETTINGS, UNSTABLE_VERSIONS, by_name
from minikafka.protocol.settings.synonyms import node_synonyms, value_with_synonyms
from minikafka.protocol.settings.value_types import SettingType, SettingValue

__all__ = [
    "ANY_TOPIC_SETTINGS",
    "AUTHORIZER_SETTINGS",
    "BROKER_SETTINGS",
    "CLIENT_METRICS_SETTINGS",
    "GROUP_SETTINGS",
    "INTERNAL_SETTINGS",
    "INTERNAL_TOPIC_SETTINGS",
    "LISTENER_LIMITS",
    "NODE_SETTINGS",
    "QUOTA_SETTINGS",
    "REQUIRED",
    "SECURITY_NAMES",
    "STATIC_SETTINGS",
    "STORE_SETTINGS",
    "THROTTLE_SETTINGS",
    "TOPIC_SETTINGS",
    "UNSTABLE_VERSIONS",
    "InvalidSetting",
    "Setting",
    "SettingType",
    "SettingValue",
    "listener_base_name",
    "node_synonyms",
    "value_with_synonyms",
]

TOPIC_SETTINGS = by_name(topics.SETTINGS)
"""Settings of a topic; `synonym` names the node setting that supplies the default."""

INTERNAL_TOPIC_SETTINGS = by_name(topics.INTERNAL_SETTINGS)
"""Settings of a topic that Kafka does not list."""

ANY_TOPIC_SETTINGS = TOPIC_SETTINGS | INTERNAL_TOPIC_SETTINGS
"""All settings that may be set on a topic."""

SECURITY_NAMES = frozenset({"authorizer.class.name", *by_name(security.SETTINGS)})
"""The names of the node settings of authentication, authorization and encryption."""

AUTHORIZER_SETTINGS = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
"""The settings that only the authorizer of Kafka knows. DescribeConfigs hides their values, as of unknown settings."""

LISTENER_LIMITS = frozenset({"max.connection.creation.rate", "max.connections", "num.network.threads"})
"""The settings of a listener that may be set for all brokers, while they run. Source: `ClusterLevelListenerConfigs`."""

STORE_SETTINGS = frozenset(
    f"ssl.{name}"
    for name in (
        "key.password",
        "keystore.certificate.chain",
        "keystore.key",
        "keystore.location",
        "keystore.password",
        "keystore.type",
        "truststore.certificates",
        "truststore.location",
        "truststore.password",
        "truststore.type",
    )
)
"""The settings that name stores of keys and certificates. Source: `SslConfigs.RECONFIGURABLE_CONFIGS`."""

GROUP_SETTINGS = by_name(groups.SETTINGS)
"""Settings of a group; `synonym` names the node setting that supplies the default."""

QUOTA_SETTINGS = by_name(quotas.QUOTA_SETTINGS)
"""Quotas of a user or client id."""

THROTTLE_SETTINGS = by_name(quotas.THROTTLE_SETTINGS)
"""Node settings that cannot be configured in the file, only dynamically (KIP-73)."""

STATIC_SETTINGS = NODE_SETTINGS | INTERNAL_SETTINGS
"""All settings that a node's configuration may set."""

BROKER_SETTINGS = STATIC_SETTINGS | THROTTLE_SETTINGS
"""All settings of a node, static or dynamic."""

CLIENT_METRICS_SETTINGS = by_name(client_metrics.SETTINGS)
"""Settings of a client metrics subscription (KIP-714)."""

_LISTENER_SETTING = re.compile(r"listener\.name\.[^.]*\.(?P<base>.*)")


def listener_base_name(name: str) -> str | None:
    """The base setting of `listener.name.<listener>.<setting>`; None if `name` does not have that form."""
    found = _LISTENER_SETTING.fullmatch(name)
    return found["base"] if found else None
