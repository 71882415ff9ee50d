"""Settings of security and of listeners that are altered while the node runs: which are refused, and which hold.

Of the settings of a listener only its stores and its limits of connections can change while it is open. As in Kafka,
other settings with its prefix are accepted and stored, but have no effect; settings of all listeners are refused from
then on. Source: `DynamicListenerConfig`, `ListenerReconfigurable`.
"""

from collections.abc import Iterable, Mapping

from minikafka.broker.settings.listeners import Listener, listener_prefix
from minikafka.controller.metadata.records import ConfigRecord, Record
from minikafka.controller.settings.effective_settings import ALL_BROKERS, EffectiveSettings, ResourceType
from minikafka.protocol.settings.registry import (
    AUTHORIZER_SETTINGS,
    LISTENER_LIMITS,
    SECURITY_NAMES,
    STORE_SETTINGS,
    listener_base_name,
)

__all__ = ["is_of_listeners", "tls_texts", "why_refused", "without_effect"]

_OF_ALL_LISTENERS = frozenset({
    "listener.security.protocol.map",
    "listeners",
    "max.connection.creation.rate",
    "max.connections",
    "num.network.threads",
    "principal.builder.class",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.mechanism.inter.broker.protocol",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.provider",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
})  # fmt: skip
"""The settings whose change makes Kafka compare those of each listener. Source: `DynamicListenerConfig`."""
_CHANGEABLE = STORE_SETTINGS | LISTENER_LIMITS
"""The settings with the prefix of a listener that may change while it is open."""


def is_of_listeners(name: str) -> bool:
    """Whether a change of the setting may be refused because of the listeners that are open."""
    return name in _OF_ALL_LISTENERS or (listener_base_name(name) or name).startswith("ssl.")


def why_refused(
    listeners: Iterable[Listener], static: Mapping[str, str], before: Mapping[str, str], after: Mapping[str, str]
) -> str:
    """Why the settings may not change so, as in Kafka; "" if they may.

    Args:
        listeners: Those that are open.
        static: The settings with which the node was started.
        before: All settings of the node that are given, as they are now.
        after: As they would be.
    """
    if all(before.get(name) == after.get(name) for name in _OF_ALL_LISTENERS):
        return ""
    for listener in listeners:
        if _fixed(listener, after) != _fixed(listener, static):
            return (
                f"Configs cannot be updated dynamically for existing listener {listener.name}, "
                "restart broker or create a new listener for update"
            )
    return ""


def _fixed(listener: Listener, texts: Mapping[str, str]) -> dict[str, str]:
    prefix = listener_prefix(listener.name)
    return {
        name: text
        for name, text in texts.items()
        if name.startswith(prefix) and name != prefix and name.removeprefix(prefix) not in _CHANGEABLE
    }


def tls_texts(settings: EffectiveSettings) -> dict[str, str]:
    """The settings by which TLS is set up: the stores as they are now, all others as they were at the start."""
    stores = {name: text for name, text in settings.node_texts().items() if listener_base_name(name) in STORE_SETTINGS}
    return {**settings.static.given, **stores}


def without_effect(records: Iterable[Record], node_id: int) -> list[str]:
    """The settings of security and of listeners that `records` set for this node, but that do not hold."""
    return [
        record.name
        for record in records
        if isinstance(record, ConfigRecord)
        and record.resource_type == ResourceType.BROKER
        and record.resource_name in (ALL_BROKERS, str(node_id))
        and record.value is not None
        and not _holds(record.name)
    ]


def _holds(name: str) -> bool:
    base = listener_base_name(name)
    return name not in SECURITY_NAMES | AUTHORIZER_SETTINGS if base is None else base in _CHANGEABLE
