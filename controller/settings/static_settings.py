"""The static config of a node: the settings of its file, environment and command line, and the defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from minikafka.controller.metadata.formatted_levels import Formatted
from minikafka.protocol.settings.registry import STATIC_SETTINGS, SettingValue

__all__ = ["StaticSettings"]


@dataclass(frozen=True, slots=True)
class StaticSettings:
    """The static config of one node, which dynamic configs override.

    Attributes:
        node_id: the id of the node.
        given: the text of each setting from the file, the environment and the command line; names may be unknown.
        own_defaults: the text of each default that differs from Kafka's.
        formatted: the feature levels and users that the data directories were formatted with, for a new cluster.
    """

    node_id: int
    given: Mapping[str, str] = field(default_factory=dict)
    own_defaults: Mapping[str, str] = field(default_factory=dict)
    formatted: Formatted = field(default_factory=Formatted)

    def default_text(self, name: str) -> str | None:
        """The default of a known setting as text; None if it is null."""
        return self.own_defaults[name] if name in self.own_defaults else STATIC_SETTINGS[name].default_text

    def default(self, name: str) -> SettingValue:
        """The default of a known setting; None if Kafka has none."""
        setting = STATIC_SETTINGS[name]
        if name in self.own_defaults:
            return setting.parse(self.own_defaults[name])
        return setting.kafkas_default

    def value(self, name: str) -> SettingValue:
        """The static value of a known setting, or its default."""
        text = self.given.get(name)
        return self.default(name) if text is None else STATIC_SETTINGS[name].parse(text)

    def number(self, name: str) -> int:
        """The value of a setting that is a whole number and not null."""
        value = self.value(name)
        assert isinstance(value, int), f"{name} is {value!r}"
        return value
