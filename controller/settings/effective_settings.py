"""Resolves the effective value of each setting at each use, by precedence: dynamic, static, default.

Code that reads `NodeConfig` instead has the value of the start of the node, whatever AlterConfigs has accepted since.

The precedence of a broker config: dynamic config of the broker, cluster-wide dynamic config, static broker config,
default config (KIP-226). A config of a topic or group takes precedence over the broker config that is its default.

Source: `DynamicBrokerConfig`, `KafkaConfig.extractLogConfigMap`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from minikafka.controller.metadata.image import Image
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.settings.registry import (
    ANY_TOPIC_SETTINGS,
    GROUP_SETTINGS,
    INTERNAL_TOPIC_SETTINGS,
    NODE_SETTINGS,
    TOPIC_SETTINGS,
    SettingValue,
    node_synonyms,
    value_with_synonyms,
)

__all__ = ["ALL_BROKERS", "ConfigSource", "EffectiveSettings", "ResourceType"]


class ResourceType(IntEnum):
    """The types of resources that have configs, by their protocol ids."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The sources of a value, by their protocol ids."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


ALL_BROKERS = ""
"""The resource name of the cluster-wide dynamic broker configs."""


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """The effective settings of one node: its static config and the dynamic configs in an image.

    Values that do not depend on a topic are cached until a dynamic broker config changes: a node reads them for each of
    its partitions, and for each heartbeat of a consumer.

    Attributes:
        static: the static config of the node.
        image: the metadata; read at each call.
    """

    static: StaticSettings
    image: Image
    _cache: dict[str, dict[str, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _cached_for: list[object] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def layers(self) -> list[tuple[ConfigSource, Mapping[str, str]]]:
        """The configs of each source by name, highest precedence first, without the defaults."""
        own = self.image.config(ResourceType.BROKER, str(self.static.node_id))
        shared = self.image.config(ResourceType.BROKER, ALL_BROKERS)
        return [
            (ConfigSource.DYNAMIC_BROKER, own),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, shared),
            (ConfigSource.STATIC_BROKER, self.static.given),
        ]

    def node_texts(self) -> dict[str, str]:
        """Every broker config that is not at its default, as text.

        A name that is set on a higher layer overrides its synonyms on lower ones, even those that precede it by name.
        """
        texts: dict[str, str] = {}
        for _, layer in reversed(self.layers):
            overridden = {synonym for name in layer for synonym in node_synonyms(name)}
            texts = {name: text for name, text in texts.items() if name not in overridden}
            texts.update(layer)
        return texts

    def node(self) -> Mapping[str, SettingValue]:
        """The values of all broker configs; the caller must not change them."""
        return self._cached("node", self._compute_node)

    def _compute_node(self) -> dict[str, SettingValue]:
        texts = self.node_texts()
        return {
            name: setting.parse(texts[name]) if name in texts else self.static.default(name)
            for name, setting in NODE_SETTINGS.items()
        }

    def node_value(self, name: str) -> SettingValue:
        """The value of one broker config, which has no synonyms."""
        text = next((layer[name] for _, layer in self.layers if name in layer), None)
        return self.static.default(name) if text is None else NODE_SETTINGS[name].parse(text)

    def _cached(self, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The cached result unless a dynamic broker config has changed. The caller must not change it."""
        dynamic = [list(layer.items()) for _, layer in self.layers[:2]]
        if self._cached_for != dynamic:
            self._cache.clear()
            self._cached_for[:] = dynamic
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]

    def topic_defaults(self) -> dict[str, SettingValue]:
        """The value of each topic config that is not set on the topic."""
        return dict(self._cached("topic defaults", self._compute_topic_defaults))

    def _compute_topic_defaults(self) -> dict[str, SettingValue]:
        texts = self.node_texts()

        def node(name: str) -> SettingValue:
            return NODE_SETTINGS[name].parse(texts[name]) if name in texts else self.static.default(name)

        values = {
            name: value_with_synonyms(setting.synonym, node) if setting.synonym else setting.kafkas_default
            for name, setting in TOPIC_SETTINGS.items()
        }
        retention_ms = values["retention.ms"]
        values["retention.ms"] = max(retention_ms, -1) if isinstance(retention_ms, int) else -1
        return values

    def topic_sources(self) -> dict[str, ConfigSource]:
        """The source of each topic default: the layer that has the broker config, or a synonym of it."""
        return dict(self._cached("topic sources", self._compute_topic_sources))

    def _compute_topic_sources(self) -> dict[str, ConfigSource]:
        layers = self.layers
        sources: dict[str, ConfigSource] = {}
        for name, setting in TOPIC_SETTINGS.items():
            synonyms = node_synonyms(setting.synonym) if setting.synonym else ()
            sources[name] = next(
                (source for source, layer in layers if any(synonym in layer for synonym in synonyms)),
                ConfigSource.DEFAULT,
            )
        return sources

    def min_insync_replicas(self, topic: str) -> int:
        """The topic's min.insync.replicas, without resolving all other configs."""
        value = self._of_topic(topic, "min.insync.replicas")
        assert isinstance(value, int), "it has a default"
        return value

    def unclean_leader_election(self, topic: str) -> bool:
        """Whether unclean leader election is enabled for the topic."""
        return bool(self._of_topic(topic, "unclean.leader.election.enable"))

    def _of_topic(self, topic: str, name: str) -> SettingValue:
        """A config that has the same name for topics and brokers."""
        text = self.image.config(ResourceType.TOPIC, topic).get(name)
        if text is None:
            text = next((layer[name] for _, layer in self.layers if name in layer), None)
        return self.static.default(name) if text is None else TOPIC_SETTINGS[name].parse(text)

    def topic(self, name: str) -> dict[str, SettingValue]:
        """The values of all configs of a topic, including the internal configs that are set on it."""
        given = self.image.config(ResourceType.TOPIC, name)
        own = {key: ANY_TOPIC_SETTINGS[key].parse(text) for key, text in given.items() if key in ANY_TOPIC_SETTINGS}
        return {**self._cached("topic defaults", self._compute_topic_defaults), **own}

    def of_new_topic(self, settings: Mapping[str, str]) -> Iterator[tuple[str, str | None, ConfigSource]]:
        """Name, value and source of all configs of a topic that is created with `settings`, in order of the names."""
        sources = self.topic_sources()
        defaults = self.topic_defaults()
        for name in sorted(set(settings) & INTERNAL_TOPIC_SETTINGS.keys()):
            yield name, settings[name], ConfigSource.TOPIC
        for name, setting in TOPIC_SETTINGS.items():
            if name in settings:
                yield name, settings[name], ConfigSource.TOPIC
            else:
                yield name, setting.render(defaults[name]), sources[name]

    def group(self, name: str) -> dict[str, SettingValue]:
        """The values of all configs of a group."""
        node, given = self.node(), self.image.config(ResourceType.GROUP, name)
        values = {
            key: node[setting.synonym] if setting.synonym else setting.kafkas_default
            for key, setting in GROUP_SETTINGS.items()
        }
        own = {key: GROUP_SETTINGS[key].parse(text) for key, text in given.items() if key in GROUP_SETTINGS}
        return {**values, **own}
