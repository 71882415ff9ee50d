"""Settings of a node that change while it runs."""

from types import SimpleNamespace
from typing import Any

import pytest

from minikafka.broker.node.runtime_settings import RuntimeSettings
from minikafka.broker.quotas.connection_rates import ConnectionRates
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ConfigRecord
from minikafka.controller.quotas.rates import Samples
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


def changed(
    *configs: tuple[str, str, str | None], rates: ConnectionRates | None = None
) -> tuple[RuntimeSettings, Logs]:
    """The settings of node 1 after changes of the configs of brokers, made one after the other."""
    image, logs = Image(), Logs()
    static = StaticSettings(1, {"max.connections": "50", "max.connections.per.ip": "7"})
    told: Any = logs
    settings = RuntimeSettings(EffectiveSettings(static, image), told, 100, connection_rates=rates, protected="BROKERS")
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
    assert settings.connections_max_of("0:0:0:0:0:0:0:1") == 4
    settings, _ = changed(("", "max.connections", "60"), ("", "max.connections", None))
    assert (settings.connections_max, settings.connections_max_of("10.0.0.2")) == (50, 7)


@pytest.mark.parametrize("stored", ["h", "h:x", "h:²", "h:" + "9" * 5_000, ":3", "h:1,h", "9" * 5_000])
def test_limits_that_are_none_change_nothing(stored: str) -> None:
    """A controller takes any text from a tool."""
    overrides = "max.connections.per.ip.overrides"
    settings, _ = changed(("", overrides, "h:4"), ("", overrides, stored), ("", "max.connections", "60"))
    assert (settings.connections_max, settings.connections_max_of("h")) == (60, 4)


def test_the_listener_of_brokers_has_no_limit_but_its_own() -> None:
    of_listener = "listener.name.brokers.max.connections"
    settings, _ = changed(("", "max.connections", "60"), ("1", of_listener, "9"), ("2", of_listener, "1"))
    assert [settings.connections_max_for(name) for name in ("CLIENTS", "BROKERS")] == [60, 100]
    assert [settings.connections_max_on(name) for name in ("CLIENTS", "BROKERS")] == [100, 9]


@pytest.mark.parametrize("name", ["max.connections", "max.connection.creation.rate"])
def test_limits_of_listeners_that_are_none_change_nothing(name: str) -> None:
    rates = ConnectionRates(Samples(3, 1000), lambda: 0.0)
    settings, _ = changed(("1", f"listener.name.a.{name}", "x"), ("", "max.connections", "60"), rates=rates)
    assert (settings.connections_max, settings.connections_max_on("A")) == (60, 100)


def test_there_are_never_more_connections_than_descriptors() -> None:
    assert changed(("", "max.connections", "1000"))[0].connections_max == 100


def test_the_expiration_of_producers_reaches_the_logs() -> None:
    _, logs = changed(("", "producer.id.expiration.ms", "5000"))
    assert logs.expiration_ms == [5000]


def test_other_records_change_nothing() -> None:
    settings, logs = changed()
    settings.apply([ConfigRecord(ResourceType.TOPIC, "t", "retention.ms", "1"), SimpleNamespace()])  # type: ignore[list-item]
    assert logs.expiration_ms == []


@pytest.mark.parametrize(
    ("configs", "pauses"),
    [
        ([], {"A": 0.0, "B": 0.0}),
        ([("", "max.connection.creation.rate", "1")], {"A": 1.0, "B": 1.0}),
        ([("", "max.connection.creation.rate", "1"), ("1", "max.connection.creation.rate", "90")], {"A": 0.0}),
        ([("1", "listener.name.a.max.connection.creation.rate", "1")], {"A": 1.0, "B": 0.0}),
        ([("2", "listener.name.a.max.connection.creation.rate", "1")], {"A": 0.0}),
    ],
)
def test_rates_of_connections_are_those_of_the_node_and_of_listeners(
    configs: list[tuple[str, str, str | None]], pauses: dict[str, float]
) -> None:
    for listener, pause_s in pauses.items():
        rates = ConnectionRates(Samples(3, 1000), lambda: 0.0)
        changed(*configs, rates=rates)
        assert [rates.pause_s(listener) for _ in range(9)][-1] == pause_s
