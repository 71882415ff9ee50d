"""DescribeConfigs: every setting of a topic, a node, a group, with its value and where that comes from.

Pure: the image and what the node was started with in, the answer out (KIP-133, KIP-226, KIP-569). What older
versions lack is dropped when the answer is encoded. Source: `ConfigHelper`.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from minikafka.controller.settings.effective_settings import ALL_BROKERS, ConfigSource, InForce, ResourceType
from minikafka.protocol.errors import (
    InvalidRequestError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from minikafka.protocol.names import check_topic_name
from minikafka.protocol.settings.registry import (
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    NODE_SETTINGS,
    THROTTLE_SETTINGS,
    TOPIC_SETTINGS,
    Setting,
    listener_base_name,
    node_synonyms,
)

__all__ = ["describe_configs"]

_INTEGER = re.compile(r"[+-]?[0-9]+")
"""As Java reads one: no blanks."""

Entry = DescribeConfigsResourceResult
Synonyms = list[DescribeConfigsSynonym]


def describe_configs(
    request: DescribeConfigsRequest, in_force: InForce, log_levels: Mapping[str, str]
) -> DescribeConfigsResponse:
    """The answer of one node.

    Args:
        request: one unknown resource type makes every result INVALID_REQUEST, as in Kafka.
        in_force: the settings of the node that was asked.
        log_levels: level by logger, of this node.
    """
    known = set(ResourceType)
    strange = [asked for asked in request.resources if asked.resource_type not in known]
    if strange:
        problem = f"Unexpected resource type {strange[0].resource_type} for resource {strange[0].resource_name}"
        return DescribeConfigsResponse(
            results=[
                _refused(asked.resource_type, asked.resource_name, InvalidRequestError(problem))
                for asked in request.resources
            ]
        )
    results: list[DescribeConfigsResult] = []
    for asked in request.resources:
        kind, name = ResourceType(asked.resource_type), asked.resource_name
        try:
            entries = _entries(kind, name, in_force, log_levels)
        except KafkaError as error:
            results.append(_refused(kind, name, error))
            continue
        keys = set(asked.configuration_keys or ())
        wanted = [entry for entry in entries if not keys or entry.name in keys]
        _leave_out(wanted, synonyms=not request.include_synonyms, documentation=not request.include_documentation)
        results.append(
            DescribeConfigsResult(error_message=None, resource_type=kind, resource_name=name, configs=wanted)
        )
    return DescribeConfigsResponse(results=results)


def _refused(kind: int, name: str, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code, error_message=error.message, resource_type=kind, resource_name=name
    )


def _leave_out(entries: Iterable[Entry], *, synonyms: bool, documentation: bool) -> None:
    for entry in entries:
        entry.synonyms = [] if synonyms else entry.synonyms
        entry.documentation = None if documentation else entry.documentation


def _entries(kind: ResourceType, name: str, in_force: InForce, log_levels: Mapping[str, str]) -> list[Entry]:
    match kind:
        case ResourceType.TOPIC:
            return _topic(name, in_force)
        case ResourceType.BROKER:
            return _all_brokers(in_force) if name == ALL_BROKERS else _broker(name, in_force)
        case ResourceType.BROKER_LOGGER:
            return _loggers(name, in_force, log_levels)
        case ResourceType.CLIENT_METRICS:
            return _client_metrics(name, in_force)
        case ResourceType.GROUP:
            return _group(name, in_force)


def _topic(name: str, in_force: InForce) -> list[Entry]:
    check_topic_name(name)
    if name not in in_force.image.topics:
        raise UnknownTopicOrPartitionError
    values, given = in_force.topic(name), in_force.image.config(ResourceType.TOPIC, name)
    behind = _synonyms_of_nodes(in_force)
    entries: list[Entry] = []
    for key, setting in TOPIC_SETTINGS.items():
        value = setting.render(values[key])
        synonyms = behind(setting.synonym) if setting.synonym else []
        if key in given:
            synonyms.insert(0, _synonym(key, value, ConfigSource.TOPIC))
        entries.append(_entry(setting, value, synonyms))
    return entries


def _group(name: str, in_force: InForce) -> list[Entry]:
    if not name:
        raise InvalidRequestError("Group name must not be empty")
    values, given = in_force.group(name), in_force.image.config(ResourceType.GROUP, name)
    behind = _synonyms_of_nodes(in_force)
    entries: list[Entry] = []
    for key, setting in GROUP_SETTINGS.items():
        value = setting.render(values[key])
        synonyms = behind(setting.synonym) if setting.synonym else [_synonym(key, value, ConfigSource.DEFAULT)]
        if key in given:
            synonyms.insert(0, _synonym(key, value, ConfigSource.GROUP))
        entries.append(_entry(setting, value, synonyms))
    return entries


def _client_metrics(name: str, in_force: InForce) -> list[Entry]:
    if not name:
        raise InvalidRequestError("Client metrics subscription name must not be empty")
    given = in_force.image.config(ResourceType.CLIENT_METRICS, name)
    entries: list[Entry] = []
    for key, setting in CLIENT_METRICS_SETTINGS.items():
        value = given.get(key, setting.default_text)
        synonyms = [_synonym(key, value, ConfigSource.CLIENT_METRICS)] if key in given else []
        entries.append(_entry(setting, value, synonyms))
    return entries


def _loggers(name: str, in_force: InForce, log_levels: Mapping[str, str]) -> list[Entry]:
    if not name:
        raise InvalidRequestError("Broker id must not be empty")
    _check_node_id(name, in_force, "")
    return [
        Entry(name=logger, value=level, config_source=ConfigSource.BROKER_LOGGER, documentation="")
        for logger, level in sorted(log_levels.items())
    ]


def _check_node_id(name: str, in_force: InForce, also: str) -> None:
    """A node tells only its own settings."""
    if not _INTEGER.fullmatch(name):
        raise InvalidRequestError(f"Broker id must be an integer, but it is: {name}")
    node_id = int(name)
    if node_id != in_force.static.node_id:
        raise InvalidRequestError(
            f"Unexpected broker id, expected {in_force.static.node_id}{also}, but received {name}"
        )


def _broker(name: str, in_force: InForce) -> list[Entry]:
    _check_node_id(name, in_force, " or empty string")
    values, synonyms = in_force.node(), _synonyms_of_nodes(in_force)
    known = [
        _entry(setting, setting.render(values[key]), synonyms(key), read_only=setting.read_only)
        for key, setting in NODE_SETTINGS.items()
    ]
    texts = in_force.node_texts()
    others = sorted(texts.keys() - NODE_SETTINGS.keys())
    for key in others:
        setting = THROTTLE_SETTINGS.get(key)
        known.append(
            _other(key, texts[key], synonyms(key)) if setting is None else _entry(setting, texts[key], synonyms(key))
        )
    return known


def _all_brokers(in_force: InForce) -> list[Entry]:
    """What was set for all nodes while they ran, and nothing else."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    entries: list[Entry] = []
    for key, text in sorted(in_force.image.config(ResourceType.BROKER, ALL_BROKERS).items()):
        setting = BROKER_SETTINGS.get(key)
        if setting is None:
            entries.append(_other(key, text, [_synonym(key, None if _secret(key) else text, source)]))
        else:
            value = None if setting.sensitive else text
            entries.append(_entry(setting, value, [_synonym(key, value, source)], read_only=setting.read_only))
    return entries


def _other(name: str, value: str | None, synonyms: Synonyms) -> Entry:
    """A listener's own setting, or one that nobody knows and that might be a secret."""
    base = BROKER_SETTINGS.get(listener_base_name(name) or "")
    hidden = base is None or base.sensitive
    return Entry(
        name=name,
        value=None if hidden else value,
        read_only=True,
        config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_sensitive=hidden,
        synonyms=synonyms,
        config_type=base.type if base else 0,
        documentation=base.doc if base else None,
    )


def _entry(setting: Setting, value: str | None, synonyms: Synonyms, *, read_only: bool = False) -> Entry:
    return Entry(
        name=setting.name,
        value=None if setting.sensitive else value,
        read_only=read_only,
        config_source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_sensitive=setting.sensitive,
        synonyms=synonyms,
        config_type=setting.type,
        documentation=setting.doc,
    )


def _synonym(name: str, value: str | None, source: ConfigSource) -> DescribeConfigsSynonym:
    return DescribeConfigsSynonym(name=name, value=value, source=source)


def _synonyms_of_nodes(in_force: InForce) -> Callable[[str], Synonyms]:
    """A function from a node setting to all that is set of it and its synonyms, the one that counts first.

    As in Kafka they begin with the setting itself: what counts only by another name is not told.
    """
    layers = in_force.layers

    def synonyms(name: str) -> Synonyms:
        names = node_synonyms(name)
        found = [
            _synonym(one, None if _secret(one) else layer[one], source)
            for source, layer in layers
            for one in names
            if one in layer
        ]
        for one in names:
            default = in_force.static.default_text(one) if one in NODE_SETTINGS else None
            if default is not None:
                found.append(_synonym(one, default, ConfigSource.DEFAULT))
        own = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
        return found[own:]

    return synonyms


def _secret(name: str) -> bool:
    setting = BROKER_SETTINGS.get(listener_base_name(name) or name)
    return setting is None or setting.sensitive
