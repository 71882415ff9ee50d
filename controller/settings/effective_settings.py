"""Which value of a setting counts: what was changed while running, what the file had, or the default.

Of each node setting the order is: this node's own change, the change for all nodes, the file, the default
(KIP-226). A topic's or a group's setting counts before the node setting that stands behind it.
Source: `DynamicBrokerConfig`, `KafkaConfig.extractLogConfigMap`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from minikafka.controller.metadata.image import Image
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.settings.registry import (
    GROUP_SETTINGS,
    NODE_SETTINGS,
    TOPIC_SETTINGS,
    SettingValue,
    node_synonyms,
    value_with_synonyms,
)

__all__ = ["ALL_BROKERS", "ConfigSource", "InForce", "ResourceType"]


class ResourceType(IntEnum):
    """What settings belong to, with the numbers of the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from, with the numbers of the wire."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


ALL_BROKERS = ""
"""The resource name of what counts for every broker."""


@dataclass(frozen=True, slots=True)
class InForce:
    """The settings in force on one node, as of an image.

    What does not depend on a topic is found once and kept until a node setting changes: a node asks for each of its
    thousands of partitions.

    Attributes:
        static: what the node was started with.
        image: the cluster; read at each call.
    """

    static: StaticSettings
    image: Image
    _found: dict[str, dict[str, Any]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _found_for: list[object] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def layers(self) -> list[tuple[ConfigSource, Mapping[str, str]]]:
        """Texts of node settings by name, those that count most first; without the defaults."""
        own = self.image.config(ResourceType.BROKER, str(self.static.node_id))
        shared = self.image.config(ResourceType.BROKER, ALL_BROKERS)
        return [
            (ConfigSource.DYNAMIC_BROKER, own),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, shared),
            (ConfigSource.STATIC_BROKER, self.static.given),
        ]

    def node_texts(self) -> dict[str, str]:
        """Every node setting that is not at its default, as text.

        A name set on a higher layer displaces its synonyms on lower ones, even those that count more by name.
        """
        texts: dict[str, str] = {}
        for _, layer in reversed(self.layers):
            displaced = {synonym for name in layer for synonym in node_synonyms(name)}
            texts = {name: text for name, text in texts.items() if name not in displaced}
            texts.update(layer)
        return texts

    def node(self) -> dict[str, SettingValue]:
        """The values of all of Kafka's node settings."""
        texts = self.node_texts()
        return {
            name: setting.parse(texts[name]) if name in texts else self.static.default(name)
            for name, setting in NODE_SETTINGS.items()
        }

    def _kept(self, what: str, find: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was found before if no node setting has changed since. The caller must not change it."""
        changes = [list(layer.items()) for _, layer in self.layers[:2]]
        if self._found_for != changes:
            self._found.clear()
            self._found_for[:] = changes
        if what not in self._found:
            self._found[what] = find()
        return self._found[what]

    def topic_defaults(self) -> dict[str, SettingValue]:
        """What a topic has of each setting unless it is set on the topic."""
        return dict(self._kept("topic defaults", self._find_topic_defaults))

    def _find_topic_defaults(self) -> dict[str, SettingValue]:
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
        """Where a topic's defaults come from: the layer that has the node setting behind, or a synonym."""
        return dict(self._kept("topic sources", self._find_topic_sources))

    def _find_topic_sources(self) -> dict[str, ConfigSource]:
        layers = self.layers
        sources: dict[str, ConfigSource] = {}
        for name, setting in TOPIC_SETTINGS.items():
            behind = node_synonyms(setting.synonym) if setting.synonym else ()
            sources[name] = next(
                (source for source, layer in layers if any(synonym in layer for synonym in behind)),
                ConfigSource.DEFAULT,
            )
        return sources

    def min_insync_replicas(self, topic: str) -> int:
        """How many replicas of a topic have to have a record before it is committed; found without all the others."""
        value = self._of_topic(topic, "min.insync.replicas")
        assert isinstance(value, int), "it has a default"
        return value

    def unclean_leader_election(self, topic: str) -> bool:
        """Whether a partition of the topic may rather lose records than wait."""
        return bool(self._of_topic(topic, "unclean.leader.election.enable"))

    def _of_topic(self, topic: str, name: str) -> SettingValue:
        """A setting that has the same name for topics and nodes."""
        text = self.image.config(ResourceType.TOPIC, topic).get(name)
        if text is None:
            text = next((layer[name] for _, layer in self.layers if name in layer), None)
        return self.static.default(name) if text is None else TOPIC_SETTINGS[name].parse(text)

    def topic(self, name: str) -> dict[str, SettingValue]:
        """The values of all settings of a topic, by Kafka's names."""
        given = self.image.config(ResourceType.TOPIC, name)
        own = {key: TOPIC_SETTINGS[key].parse(text) for key, text in given.items() if key in TOPIC_SETTINGS}
        return {**self._kept("topic defaults", self._find_topic_defaults), **own}

    def group(self, name: str) -> dict[str, SettingValue]:
        """The values of all settings of a group."""
        node, given = self.node(), self.image.config(ResourceType.GROUP, name)
        values = {
            key: node[setting.synonym] if setting.synonym else setting.kafkas_default
            for key, setting in GROUP_SETTINGS.items()
        }
        own = {key: GROUP_SETTINGS[key].parse(text) for key, text in given.items() if key in GROUP_SETTINGS}
        return {**values, **own}
