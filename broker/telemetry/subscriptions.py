"""Which metrics a client is to push: the subscriptions, resources of type client-metrics. Pure.

Source: Kafka's `ClientMetricsManager`, `ClientMetricsConfigs`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crc32c import crc32c

from minikafka.controller.patterns import InvalidPattern, Pattern
from minikafka.protocol.settings.registry import CLIENT_METRICS_SETTINGS

__all__ = ["Client", "Subscription", "subscription_of"]

ALL = "*"
SELECTORS = {
    "client_instance_id": "instance_id",
    "client_id": "client_id",
    "client_software_name": "software_name",
    "client_software_version": "software_version",
    "client_source_address": "address",
    "client_source_port": "port",
}


@dataclass(slots=True, frozen=True)
class Client:
    """What patterns select clients by. `instance_id` as clients write it: base64."""

    instance_id: str
    client_id: str
    software_name: str
    software_version: str
    address: str
    port: str

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""
        return 500 + 4 * (len(self.client_id) + len(self.software_name) + len(self.software_version))


@dataclass(slots=True, frozen=True)
class Subscription:
    """What a client is to push.

    Attributes:
        id: Differs between clients, and when anything below changes.
        metrics: Prefixes of names; `*` for all.
    """

    id: int
    metrics: tuple[str, ...]
    interval_ms: int


def subscription_of(client: Client, configs: Iterable[Mapping[str, str]]) -> Subscription:
    """All subscriptions that match a client, together: the metrics of all, and the shortest interval.

    Each pattern takes at most 2 s, in which other threads run.
    """
    metrics: dict[str, None] = {}
    interval_ms = _number({}, "interval.ms")
    for config in configs:
        if _matches(client, _list(config, "match")):
            metrics.update(dict.fromkeys(_list(config, "metrics")))
            interval_ms = min(interval_ms, _number(config, "interval.ms"))
    wanted = (ALL,) if ALL in metrics else tuple(metrics)
    identity = f"{sorted(wanted)} {interval_ms} {client.instance_id}"
    return Subscription(int.from_bytes(crc32c(identity.encode()).to_bytes(4), signed=True), wanted, interval_ms)


def _list(config: Mapping[str, str], name: str) -> tuple[str, ...]:
    setting = CLIENT_METRICS_SETTINGS[name]
    value = setting.parse(config[name]) if name in config else setting.default
    assert isinstance(value, tuple), "a list"
    return value


def _number(config: Mapping[str, str], name: str) -> int:
    setting = CLIENT_METRICS_SETTINGS[name]
    value = setting.parse(config[name]) if name in config else setting.default
    assert isinstance(value, int), "a number"
    return value


def _matches(client: Client, patterns: tuple[str, ...]) -> bool:
    """Whether a client matches all patterns: `client_id=regular expression`.

    They were checked when they were set, maybe by a version that took others: one that is none matches no client.
    """
    for pattern in patterns:
        selector, _, expression = pattern.partition("=")
        attribute = SELECTORS.get(selector.strip())
        if attribute is None or not _matches_text(expression.strip(), getattr(client, attribute)):
            return False
    return True


def _matches_text(expression: str, text: str) -> bool:
    try:
        return Pattern(expression).matches(text)
    except InvalidPattern:
        return False
