"""What a node was started with, in the form that decisions and DescribeConfigs take it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from minikafka.protocol.settings.registry import NODE_SETTINGS, SettingValue

__all__ = ["StaticSettings"]


@dataclass(frozen=True, slots=True)
class StaticSettings:
    """The settings of one node before anything was changed while it ran.

    Attributes:
        node_id: the node they belong to.
        given: name to text, as file, environment and command line gave them; names may be unknown.
        own_defaults: name to text where minikafka's default is not Kafka's.
    """

    node_id: int
    given: Mapping[str, str] = field(default_factory=dict)
    own_defaults: Mapping[str, str] = field(default_factory=dict)

    def default_text(self, name: str) -> str | None:
        """The default of a known setting as text; None where it is null."""
        return self.own_defaults[name] if name in self.own_defaults else NODE_SETTINGS[name].default_text

    def default(self, name: str) -> SettingValue:
        """The default of a known setting; null where Kafka has none."""
        setting = NODE_SETTINGS[name]
        if name in self.own_defaults:
            return setting.parse(self.own_defaults[name])
        return setting.kafkas_default

    def value(self, name: str) -> SettingValue:
        """What the node was started with: given or default."""
        text = self.given.get(name)
        return self.default(name) if text is None else NODE_SETTINGS[name].parse(text)

    def number(self, name: str) -> int:
        """A whole number that is not null."""
        value = self.value(name)
        assert isinstance(value, int), f"{name} is {value!r}"
        return value
