"""Rejects broker config values that conflict with other values of the broker that received the request.

The broker checks the values that it would have after the change. The controller does not know these values and does not
repeat the check.

Source: `DynamicBrokerConfig.processReconfiguration`, `DynamicThreadPool`, `LogCleaner`, `KafkaConfig.validateValues`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from minikafka.controller.settings.effective_settings import EffectiveSettings, ResourceType
from minikafka.protocol.errors import InvalidRequestError
from minikafka.protocol.settings.connection_limits import limits_of_hosts
from minikafka.protocol.settings.registry import NODE_SETTINGS, SettingValue, listener_base_name
from minikafka.protocol.settings.value_types import NotOfType

__all__ = ["check_on_broker"]

THREADS = (
    "background.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
FOLLOWER_THREADS = 2
"""The number of threads where `remote.log.manager.follower.thread.pool.size` is -1."""
DEDUPE_BYTES_PER_THREAD_MIN = 1 << 20
KNOWN_CLASSES = {
    "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
    "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "ssl.engine.factory.class": "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",
}
"""The settings that name a Java class, with the only accepted class. The class is not loaded."""
ORDERED = [
    (f"group.{kind}.min.assignment.interval.ms", f"group.{kind}.assignment.interval.ms")
    for kind in ("consumer", "share", "streams")
] + [
    (f"group.{kind}.assignment.interval.ms", f"group.{kind}.max.assignment.interval.ms")
    for kind in ("consumer", "share", "streams")
]


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of broker configs.

    Attributes:
        new: returns the value of a setting after the change.
        changed: the new text of each setting that changes, by name.
        old: returns the current value of a setting.
    """

    new: Callable[[str], SettingValue]
    changed: Mapping[str, str]
    old: Callable[[str], SettingValue]

    def number(self, name: str) -> int:
        value = self.new(name)
        return value if isinstance(value, int) else 0


def check_on_broker(wanted: Mapping[str, str], settings: EffectiveSettings, *, per_broker: bool) -> None:
    """Reject values that conflict with the other values of this broker.

    Args:
        wanted: all dynamic configs that the resource would have; each is valid by itself.
        settings: the effective settings of the broker that received the request.
        per_broker: True if the resource is this broker, False if it is all brokers.

    Raises:
        InvalidRequestError: the first value that does not fit.
    """
    own = {} if per_broker else settings.image.config(ResourceType.BROKER, str(settings.static.node_id))
    current, texts = settings.node(), settings.node_texts()
    changed = {name: text for name, text in wanted.items() if name not in own and texts.get(name) != text}

    def new(name: str) -> SettingValue:
        return NODE_SETTINGS[name].parse(changed[name]) if name in changed else current[name]

    change = _Change(new, changed, current.__getitem__)
    for check in (_check_numbers, _check_connections, _check_classes, _check_cleaner, _check_threads, _check_order):
        check(change)


def _check_numbers(change: _Change) -> None:
    for name, least in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        if name in change.changed and change.number(name) < least:
            raise InvalidRequestError(f"{name} must be greater than or equal to {least}")
    retention = {"ms": _retention_ms(change), "bytes": change.number("log.retention.bytes")}
    for unit, limit in retention.items():
        local, name = f"log.local.retention.{unit}", f"log.retention.{unit}"
        if local in change.changed and change.number(local) == -1 and limit != -1:
            raise _invalid(local, "-1", f"Value must not be -1 as {name} value is set as {limit}.")
        if local in change.changed and change.number(local) > limit > -1:
            value = str(change.number(local))
            raise _invalid(local, value, f"Value must not be more than property: {name} value: {limit}.")


def _retention_ms(change: _Change) -> int:
    """The node's retention in milliseconds, -1 without limit. The setting with the finest unit that is given counts."""
    for unit, factor in (("ms", 1), ("minutes", 60_000)):
        if change.new(f"log.retention.{unit}") is not None:
            return max(change.number(f"log.retention.{unit}") * factor, -1)
    return max(change.number("log.retention.hours") * 3_600_000, -1)


def _check_connections(change: _Change) -> None:
    for name in change.changed:
        base = listener_base_name(name) or name
        if base in ("max.connections", "max.connection.creation.rate") and change.changed[name].strip() == "0":
            raise InvalidRequestError(f"Invalid {base} 0")
    overrides = "max.connections.per.ip.overrides"
    if overrides in change.changed:
        try:
            limits_of_hosts(change.changed[overrides])
        except NotOfType as error:
            raise InvalidRequestError(f"Error parsing configuration property '{overrides}': {error}") from None
    limit = "max.connections.per.ip"
    if limit in change.changed and change.number(limit) == 0 and not change.new(overrides):
        raise InvalidRequestError(f"{limit} can be set to zero only if {overrides} property is set.")


def _check_classes(change: _Change) -> None:
    for name, known in KNOWN_CLASSES.items():
        if name not in change.changed:
            continue
        text = change.changed[name]
        named = [one.strip() for one in text.split(",") if one.strip()] if name == "metric.reporters" else [text]
        for one in named:
            if one != known:
                raise _invalid(name, one, f"Class {one} could not be found.")


def _check_cleaner(change: _Change) -> None:
    threads, buffer = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
    if threads not in change.changed and buffer not in change.changed:
        return
    if change.number(threads) < 1:
        raise InvalidRequestError("Log cleaner threads should be at least 1")
    if change.number(buffer) // change.number(threads) <= DEDUPE_BYTES_PER_THREAD_MIN:
        raise InvalidRequestError(f"{buffer} must be at least 1MB per cleaner thread.")
    old = change.old(threads)
    assert isinstance(old, int), "a number"
    if change.number(threads) < old // 2:
        raise InvalidRequestError(f"Log cleaner threads cannot be reduced to less than half the current value {old}")
    if change.number(threads) > old * 2:
        raise InvalidRequestError(
            f"Log cleaner threads cannot be increased to more than double the current value {old}"
        )


def _check_threads(change: _Change) -> None:
    for name in THREADS:
        old, value = change.old(name), change.number(name)
        assert isinstance(old, int), "a number"
        old = FOLLOWER_THREADS if old == -1 else old
        if name not in change.changed or value in (old, change.old(name)):
            continue
        problem = f"Dynamic thread count update validation failed for {name}={value}"
        if value <= 0:
            raise InvalidRequestError(f"{problem}, value should be at least 1")
        if value < old // 2:
            raise InvalidRequestError(f"{problem}, value should be at least half the current value {old}")
        if value > old * 2:
            raise InvalidRequestError(f"{problem}, value should not be greater than double the current value {old}")


def _check_order(change: _Change) -> None:
    for smaller, larger in ORDERED:
        if (smaller in change.changed or larger in change.changed) and change.number(smaller) > change.number(larger):
            raise InvalidRequestError(f"{smaller} must be less than or equal to {larger}")


def _invalid(name: str, value: str, reason: str) -> InvalidRequestError:
    return InvalidRequestError(f"Invalid value {value} for configuration {name}: {reason}")
