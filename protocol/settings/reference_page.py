"""Generates the reference page of all settings, `docs/settings.md`, from their declarations."""

from collections.abc import Iterable, Mapping

from minikafka.protocol.settings.registry import (
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    INTERNAL_SETTINGS,
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

Generated from the declarations in `protocol/settings/`; a test verifies that this page is up to date.

Names, types, bounds and defaults are those of Apache Kafka 4.3. A node reads its settings from a `.properties` file
(`--config`), from environment variables (`KAFKA_LOG_DIRS` or `MINIKAFKA_LOG_DIRS` for `log.dirs`) and from
`--set name=value`, in increasing order of precedence. The settings of topics, groups and running nodes are changed
with AlterConfigs, by any Kafka tool. An invalid value is an error, an unknown name a warning.

*Not supported* marks settings that minikafka parses and validates but that have no effect.

## Changes while a node runs

Node settings that are not *read-only* change while the node runs, for one broker (*per-broker*, *cluster-wide*) or for
all (*cluster-wide*), by `kafka-configs --entity-type brokers` for example. As in Kafka a broker refuses values that do
not fit those that it has:

- numbers of threads grow at most to the double and shrink at most to the half in one step;
- `log.cleaner.dedupe.buffer.size` is above 1 MiB for each of `log.cleaner.threads`;
- `log.local.retention.ms` and `.bytes` are -1 only if `log.retention.ms` and `.bytes` are;
- `max.connections` and `max.connection.creation.rate` are not 0, `max.connections.per.ip` only with overrides, whose
  entries are `address:number`;
- `group.*.assignment.interval.ms` are within their bounds;
- settings that name Java classes take only Kafka's own, none of which is loaded;
- `listeners` and `listener.security.protocol.map` cannot change here, unlike in Kafka.

A topic also takes `internal.segment.bytes`, which is described only where it is set. The address of a quota for an `ip`
is an IP address as Java reads it (`127.1`, `010.0.0.1`) or `localhost`: other names are not resolved, and refused. A
topic that a broker creates because somebody asked for it has the `num.partitions` and `default.replication.factor` of
that broker, one that is created with -1 those of the active controller.
"""

_OWN = """\
## Defaults that differ from Kafka's

A single node starts without a configuration file. The replication factors and `min.isr` of internal topics have
Kafka's defaults, but if they are not configured, they are limited to the number of live brokers.

| setting | minikafka | Kafka | why |
|---|---|---|---|
"""


_OWN_SETTINGS = """\
## Settings that Kafka does not have

Of a node, read at its start; DescribeConfigs does not show them. None is set by default.

"""


def settings_page(own_defaults: Mapping[str, tuple[str, str]], own_settings: Mapping[str, tuple[str, str]]) -> str:
    """The page, in Markdown.

    Args:
        own_defaults: name to default and reason, for settings whose default differs from Kafka's.
        own_settings: name to allowed values and documentation, for settings that Kafka does not have.
    """
    own = "".join(
        f"| `{name}` | {_code(text)} | {_kafkas(NODE_SETTINGS[name])} | {why} |\n"
        for name, (text, why) in own_defaults.items()
    )
    own_lines = "".join(f"- **`{name}`** (allowed: {valid}). {doc}\n" for name, (valid, doc) in own_settings.items())
    parts = [
        _INTRODUCTION,
        _OWN + own,
        _OWN_SETTINGS + own_lines,
        _section("Node settings", "of a node, set in its configuration", NODE_SETTINGS.values()),
        _section("Internal settings", "of a node that Kafka's documentation leaves out", INTERNAL_SETTINGS.values()),
        _section("Topic settings", "of a topic; the default is the value of the node setting", TOPIC_SETTINGS.values()),
        _section("Group settings", "of a group; the default is the value of the node setting", GROUP_SETTINGS.values()),
        _section("Replication throttles", "of a node, set dynamically", THROTTLE_SETTINGS.values()),
        _section("Client metrics", "of a client metrics subscription", CLIENT_METRICS_SETTINGS.values()),
        _section("Client quotas", "of a user, a client id, or both", QUOTA_SETTINGS.values()),
    ]
    return "\n".join(parts)


def _section(title: str, what: str, settings: Iterable[Setting]) -> str:
    declared = list(settings)
    supported = sum(setting.supported for setting in declared)
    return "\n".join(
        [
            f"## {title}",
            "",
            f"{len(declared)} setting{'s' if len(declared) > 1 else ''} {what}; {supported} supported.",
            "",
            *map(_entry, declared),
            "",
        ]
    )


def _entry(setting: Setting) -> str:
    facts = [setting.type.name.lower(), f"default {_kafkas(setting)}"]
    facts += [f"allowed {_code(setting.valid.text)}"] if setting.valid and setting.valid.text else []
    facts += [setting.update_mode] if setting.update_mode else []
    facts += [f"node setting `{setting.synonym}`"] if setting.synonym else []
    synonyms = [f"`{name}`" for name in node_synonyms(setting.name) if name != setting.name]
    facts += [f"see also {', '.join(synonyms)}"] if synonyms else []
    mark = "" if setting.supported else " *Not supported.*"
    return f"- **`{setting.name}`** ({'; '.join(facts)}). {setting.doc}{mark}"


def _kafkas(setting: Setting) -> str:
    if setting.default is REQUIRED:
        return "none, required"
    return "null" if setting.default is None else _code(setting.default_text or "")


def _code(text: str) -> str:
    return f"`{text}`" if text else "empty"
