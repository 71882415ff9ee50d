"""Settings of a node that change while it runs."""

from types import SimpleNamespace
from typing import Any

import pytest

from minikafka.broker.node.runtime_settings import RuntimeSettings
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ConfigRecord
from minikafka.controller.settings.effective_settings import EffectiveSettings, ResourceType
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.storage.directories.data_directory import DataDirectory


class Logs:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.expiration_ms: list[int] = []
        self.directories: list[DataDirectory] = []

    def set_producer_expiration(self, expiration_ms: int) -> None:
        self.expiration_ms.append(expiration_ms)


def changed(*configs: tuple[str, str, str | None]) -> tuple[RuntimeSettings, Logs]:
    """The settings of node 1 after changes of the configs of brokers, made one after the other."""
    image, logs = Image(), Logs()
    static = StaticSettings(1, {"max.connections": "50", "max.connections.per.ip": "7"})
    told: Any = logs
    settings = RuntimeSettings(EffectiveSettings(static, image), told, 100)
    assert settings.connections_max == 50
    for broker, name, value in configs:
        record = ConfigRecord(ResourceType.BROKER, broker, name, value)
        image.apply(record)
        settings.apply([record])
    return settings, logs


def test_limits_of_connections_change_and_change_back() -> None:
    settings, _ = changed(
        ("", "max.connections", "60"),
        ("1", "max.connections.per.ip", "3"),
        ("", "max.connections.per.ip.overrides", "10.0.0.1:9, ::1:4"),
        ("2", "max.connections", "1"),
    )
    assert settings.connections_max == 60
    assert [settings.connections_max_of(host) for host in ("10.0.0.2", "10.0.0.1", "::1")] == [3, 9, 4]
    settings, _ = changed(("", "max.connections", "60"), ("", "max.connections", None))
    assert (settings.connections_max, settings.connections_max_of("10.0.0.2")) == (50, 7)


@pytest.mark.parametrize("stored", ["h", "h:x", "h:²", "h:" + "9" * 5_000, ":3", "h:1,h", "9" * 5_000])
def test_limits_that_are_none_change_nothing(stored: str) -> None:
    """A controller takes any text from a tool."""
    overrides = "max.connections.per.ip.overrides"
    settings, _ = changed(("", overrides, "h:4"), ("", overrides, stored), ("", "max.connections", "60"))
    assert (settings.connections_max, settings.connections_max_of("h")) == (60, 4)


def test_there_are_never_more_connections_than_descriptors() -> None:
    assert changed(("", "max.connections", "1000"))[0].connections_max == 100


def test_the_expiration_of_producers_reaches_the_logs() -> None:
    _, logs = changed(("", "producer.id.expiration.ms", "5000"))
    assert logs.expiration_ms == [5000]


def test_other_records_change_nothing() -> None:
    settings, logs = changed()
    settings.apply([ConfigRecord(ResourceType.TOPIC, "t", "retention.ms", "1"), SimpleNamespace()])  # type: ignore[list-item]
    assert logs.expiration_ms == []
