"""Dataclass fields that take default and value from a declared setting."""

from dataclasses import dataclass, fields
from typing import Any

import pytest

from minikafka.broker.coordinator.groups.group_settings import GroupSettings
from minikafka.protocol.settings.dataclass_fields import from_values, setting_field
from minikafka.protocol.settings.registry import NODE_SETTINGS, TOPIC_SETTINGS
from minikafka.storage.log_config import LogConfig


@dataclass(frozen=True, slots=True)
class Limits:
    owner: str
    size_max: int = setting_field(NODE_SETTINGS["group.max.size"])
    retention_s: int = setting_field(NODE_SETTINGS["offsets.retention.minutes"], lambda minutes: minutes * 60)


def test_the_default_is_that_of_the_setting() -> None:
    assert Limits("a") == Limits("a", size_max=2_147_483_647, retention_s=7 * 86_400)


@pytest.mark.parametrize("values", [{}, {"group.max.size": None, "node.id": 5}], ids=["absent", "null"])
def test_absent_and_null_values_keep_the_default(values: dict[str, Any]) -> None:
    assert from_values(Limits, values, owner="a") == Limits("a")


def test_values_are_found_by_setting_name_and_converted() -> None:
    values = {"group.max.size": 3, "offsets.retention.minutes": 2}
    assert from_values(Limits, values, owner="a") == Limits("a", size_max=3, retention_s=120)


def test_every_field_of_a_log_is_named_after_its_topic_setting() -> None:
    for item in fields(LogConfig):
        assert item.metadata["setting"] == item.name.replace("_", ".")


def test_a_log_and_a_group_take_every_value_from_its_setting() -> None:
    topic = {name: setting.kafkas_default for name, setting in TOPIC_SETTINGS.items()}
    node = {name: setting.kafkas_default for name, setting in NODE_SETTINGS.items()}
    assert LogConfig.from_settings(topic) == LogConfig()
    assert GroupSettings.of(node) == GroupSettings()
    assert GroupSettings.of({"offsets.retention.minutes": 1}).retention_ms == 60_000
