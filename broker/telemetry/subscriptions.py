"""`subscription_of`: finds which metrics a client is to push, from the resources of type client-metrics. Pure.

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
    """The attributes by which patterns select clients. `instance_id` is in base64, as clients write it."""

    instance_id: str
    client_id: str
    software_name: str
    software_version: str
    address: str
    port: str

    @property
    def size_bytes(self) -> int:
        """The bytes that the object takes in memory, estimated."""
        return 500 + 4 * (len(self.client_id) + len(self.software_name) + len(self.software_version))


@dataclass(slots=True, frozen=True)
class Subscription:
    """The metrics that a client is to push, and how often.

    Attributes:
        id: The subscription id; it differs between clients, and changes with `metrics` or `interval_ms`.
        metrics: Prefixes of the names of metrics; `*` for all metrics.
        interval_ms: The time between two pushes.
    """

    id: int
    metrics: tuple[str, ...]
    interval_ms: int


def subscription_of(client: Client, configs: Iterable[Mapping[str, str]]) -> Subscription:
    """Combine all subscriptions that match a client: the metrics of all of them, and the shortest interval.

    Matching a pattern takes at most 2 s, during which other threads run.
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

    The patterns were checked when they were set, but maybe by a version of minikafka that accepted other patterns: an
    invalid pattern matches no client.
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
