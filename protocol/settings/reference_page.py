"""The reference page of all settings, `docs/settings.md`, made from their declarations."""

from collections.abc import Iterable, Mapping

from minikafka.protocol.settings.registry import (
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    NODE_SETTINGS,
    QUOTA_SETTINGS,
    REQUIRED,
    THROTTLE_SETTINGS,
    TOPIC_SETTINGS,
    Setting,
    node_synonyms,
)

__all__ = ["settings_page"]

_INTRODUCTION = """\
# Settings

Made from the declarations in `protocol/settings*.py`; a test holds this page to them.

Names, types, bounds and defaults are those of Apache Kafka 4.3. A node takes them from a `.properties` file
(`--config`), from the environment (`KAFKA_LOG_DIRS` or `MINIKAFKA_LOG_DIRS` for `log.dirs`) and from
`--set name=value`; the later of these counts more. Topics, groups and running nodes are changed with
AlterConfigs, by any tool for Kafka. A wrong value is refused with what is allowed, an unknown name warned about.

*Not acted on* marks what minikafka knows and checks, but what changes nothing.
"""

_OWN = """\
## Defaults that differ from Kafka's

One node works with no file at all. Replication factors and min.isr of internal topics keep Kafka's defaults, but
where they are not given they follow the number of live brokers.

| setting | minikafka | Kafka | why |
|---|---|---|---|
"""


def settings_page(own_defaults: Mapping[str, tuple[str, str]]) -> str:
    """The page, in Markdown.

    Args:
        own_defaults: name to default and reason, where minikafka's differs from Kafka's.
    """
    own = "".join(
        f"| `{name}` | {_code(text)} | {_kafkas(NODE_SETTINGS[name])} | {why} |\n"
        for name, (text, why) in own_defaults.items()
    )
    parts = [
        _INTRODUCTION,
        _OWN + own,
        _section("Node settings", "of a node, in its file", NODE_SETTINGS.values()),
        _section("Topic settings", "of a topic; the default is the node setting behind", TOPIC_SETTINGS.values()),
        _section("Group settings", "of a group; the default is the node setting behind", GROUP_SETTINGS.values()),
        _section("Replication throttles", "of a node, set while it runs", THROTTLE_SETTINGS.values()),
        _section("Client metrics", "of a client metrics subscription", CLIENT_METRICS_SETTINGS.values()),
        _section("Client quotas", "of a user, a client id, or both together", QUOTA_SETTINGS.values()),
    ]
    return "\n".join(parts)


def _section(title: str, what: str, settings: Iterable[Setting]) -> str:
    declared = list(settings)
    acted = sum(setting.acted_on for setting in declared)
    return "\n".join(
        [
            f"## {title}",
            "",
            f"{len(declared)} settings {what}; {acted} are acted on.",
            "",
            *map(_entry, declared),
            "",
        ]
    )


def _entry(setting: Setting) -> str:
    facts = [setting.type.name.lower(), f"default {_kafkas(setting)}"]
    facts += [f"allowed {_code(setting.valid.text)}"] if setting.valid else []
    facts += [setting.update_mode] if setting.update_mode else []
    facts += [f"node setting `{setting.synonym}`"] if setting.synonym else []
    synonyms = [f"`{name}`" for name in node_synonyms(setting.name) if name != setting.name]
    facts += [f"see also {', '.join(synonyms)}"] if synonyms else []
    mark = "" if setting.acted_on else " *Not acted on.*"
    return f"- **`{setting.name}`** ({'; '.join(facts)}). {setting.doc}{mark}"


def _kafkas(setting: Setting) -> str:
    if setting.default is REQUIRED:
        return "none, required"
    return "null" if setting.default is None else _code(setting.default_text or "")


def _code(text: str) -> str:
    return f"`{text}`" if text else "empty"
