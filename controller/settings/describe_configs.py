"""DescribeConfigs: the configs of a resource with values, config sources, synonyms, documentation.

`ConfigDescriptions` is pure: it knows the effective settings and log levels (KIP-133, KIP-226, KIP-569). Fields that
older versions do not have are dropped when the response is encoded. Source: `ConfigHelper`.
"""

from collections.abc import Callable, Iterable, Mapping

from minikafka.controller.settings.effective_settings import ALL_BROKERS, ConfigSource, EffectiveSettings, ResourceType
from minikafka.protocol.errors import (
    InvalidRequestError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from minikafka.protocol.names import check_topic_name
from minikafka.protocol.settings.registry import (
    ANY_TOPIC_SETTINGS,
    AUTHORIZER_SETTINGS,
    BROKER_SETTINGS,
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    NODE_SETTINGS,
    STATIC_SETTINGS,
    Setting,
    listener_base_name,
    node_synonyms,
)
from minikafka.protocol.settings.value_types import NotOfType, parse_int

__all__ = ["ConfigDescriptions"]

Entry = DescribeConfigsResourceResult
Synonyms = list[DescribeConfigsSynonym]
Shared = dict[tuple[int, str, str | None, bool], Entry]
"""The entries of a response by type of the resource, name, value, and whether the config is set on the resource.

Resources share equal entries, so that a topic or group in a response takes only the memory of about 30 references.
"""


class ConfigDescriptions:
    """Makes the results of one node for a DescribeConfigs request, resource by resource.

    Args:
        request: As in Kafka, an unknown resource type makes every result INVALID_REQUEST.
        settings: The effective settings of the node.
        log_levels: Level by logger of the node.

    Attributes:
        unexpected: The error of every result, if a resource of the request has an unknown type.
    """

    def __init__(
        self, request: DescribeConfigsRequest, settings: EffectiveSettings, log_levels: Mapping[str, str]
    ) -> None:
        self._request = request
        self._settings = settings
        self._log_levels = log_levels
        self.unexpected = _unexpected_type(request)
        self._shared: Shared = {}
        self._own: dict[ResourceType, list[Entry]] = {}

    def named(self, requested: DescribeConfigsResource) -> tuple[int, str]:
        """The type and the normalized name of a requested resource. The id of a broker may have leading zeros."""
        kind, name = requested.resource_type, requested.resource_name
        if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and _is_node(name, self._settings):
            name = str(self._settings.static.node_id)
        return kind, name

    def of(self, requested: DescribeConfigsResource) -> DescribeConfigsResult:
        """The result for one resource of the request."""
        kind, name = requested.resource_type, requested.resource_name
        if self.unexpected is not None:
            return _refused(kind, name, self.unexpected)
        try:
            entries = self._entries(ResourceType(kind), name)
        except KafkaError as error:
            return _refused(kind, name, error)
        keys = set(requested.configuration_keys or ())
        wanted = [entry for entry in entries if not keys or entry.name in keys]
        _leave_out(
            wanted,
            synonyms=not self._request.include_synonyms,
            documentation=not self._request.include_documentation,
        )
        return DescribeConfigsResult(error_message="", resource_type=kind, resource_name=name, configs=wanted)

    def _entries(self, kind: ResourceType, name: str) -> list[Entry]:
        settings = self._settings
        match kind:
            case ResourceType.TOPIC:
                return _topic(name, settings, self._shared)
            case ResourceType.BROKER:
                if name == ALL_BROKERS:
                    return _all_brokers(settings)
                _check_node_id(name, settings, " or empty string,")
                return self._once(kind, lambda: _broker(settings))
            case ResourceType.BROKER_LOGGER:
                if not name:
                    raise InvalidRequestError("Broker id must not be empty")
                _check_node_id(name, settings, "")
                return self._once(kind, lambda: _loggers(self._log_levels))
            case ResourceType.CLIENT_METRICS:
                return _client_metrics(name, settings, self._shared)
            case ResourceType.GROUP:
                return _group(name, settings, self._shared)

    def _once(self, kind: ResourceType, describe: Callable[[], list[Entry]]) -> list[Entry]:
        """The entries of this node, computed once for a request. They take up to 2 ms, and a request may name this node
        many times."""
        if kind not in self._own:
            self._own[kind] = describe()
        return self._own[kind]


def _unexpected_type(request: DescribeConfigsRequest) -> InvalidRequestError | None:
    known = set(ResourceType)
    for requested in request.resources:
        if requested.resource_type not in known:
            problem = f"Unexpected resource type {requested.resource_type} for resource {requested.resource_name}"
            return InvalidRequestError(problem)
    return None


def _refused(kind: int, name: str, error: KafkaError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=error.code, error_message=error.detail or "", resource_type=kind, resource_name=name
    )


def _leave_out(entries: Iterable[Entry], *, synonyms: bool, documentation: bool) -> None:
    for entry in entries:
        entry.synonyms = [] if synonyms else entry.synonyms
        entry.documentation = None if documentation else entry.documentation


def _topic(name: str, settings: EffectiveSettings, shared: Shared) -> list[Entry]:
    check_topic_name(name)
    if name not in settings.image.topics:
        raise UnknownTopicOrPartitionError
    values, given = settings.topic(name), settings.image.config(ResourceType.TOPIC, name)
    broker_synonyms = _broker_synonyms(settings)
    entries: list[Entry] = []
    for key, setting in ANY_TOPIC_SETTINGS.items():
        if key not in values:
            continue
        value = setting.render(values[key])
        known = ResourceType.TOPIC, key, value, key in given
        if known not in shared:
            synonyms = broker_synonyms(setting.synonym) if setting.synonym else []
            if key in given:
                synonyms.insert(0, _synonym(key, value, ConfigSource.TOPIC))
            shared[known] = _entry(setting, value, synonyms)
        entries.append(shared[known])
    return entries


def _group(name: str, settings: EffectiveSettings, shared: Shared) -> list[Entry]:
    if not name:
        raise InvalidRequestError("Group name must not be empty")
    values, given = settings.group(name), settings.image.config(ResourceType.GROUP, name)
    broker_synonyms = _broker_synonyms(settings)
    entries: list[Entry] = []
    for key, setting in GROUP_SETTINGS.items():
        value, default = setting.render(values[key]), setting.render(setting.kafkas_default)
        known = ResourceType.GROUP, key, value, key in given
        if known not in shared:
            synonyms = (
                broker_synonyms(setting.synonym) if setting.synonym else [_synonym(key, default, ConfigSource.DEFAULT)]
            )
            if key in given:
                synonyms.insert(0, _synonym(key, value, ConfigSource.GROUP))
            shared[known] = _entry(setting, value, synonyms)
        entries.append(shared[known])
    return entries


def _client_metrics(name: str, settings: EffectiveSettings, shared: Shared) -> list[Entry]:
    if not name:
        raise InvalidRequestError("Client metrics subscription name must not be empty")
    given = settings.image.config(ResourceType.CLIENT_METRICS, name)
    entries: list[Entry] = []
    for key, setting in CLIENT_METRICS_SETTINGS.items():
        value = given.get(key, setting.default_text)
        known = ResourceType.CLIENT_METRICS, key, value, key in given
        if known not in shared:
            synonyms = [_synonym(key, value, ConfigSource.CLIENT_METRICS)] if key in given else []
            shared[known] = _entry(setting, value, synonyms)
        entries.append(shared[known])
    return entries


def _loggers(log_levels: Mapping[str, str]) -> list[Entry]:
    return [
        Entry(name=logger, value=level, config_source=ConfigSource.BROKER_LOGGER, documentation="")
        for logger, level in sorted(log_levels.items())
    ]


def _is_node(name: str, settings: EffectiveSettings) -> bool:
    try:
        return parse_int(name) == settings.static.node_id
    except NotOfType:
        return False


def _check_node_id(name: str, settings: EffectiveSettings, also: str) -> None:
    """Check that a name is the id of this node, since a node describes only its own configs."""
    try:
        node_id = parse_int(name)
    except NotOfType:
        raise InvalidRequestError(f"Broker id must be an integer, but it is: {name}") from None
    if node_id != settings.static.node_id:
        raise InvalidRequestError(
            f"Unexpected broker id, expected {settings.static.node_id}{also} but received {name}"
        )


_KNOWN = {name: setting for name, setting in BROKER_SETTINGS.items() if name not in AUTHORIZER_SETTINGS}
"""The settings of a broker whose types Kafka knows."""


def _broker(settings: EffectiveSettings) -> list[Entry]:
    values, synonyms = settings.node(), _broker_synonyms(settings)
    known = [
        _entry(setting, setting.render(values[key]), synonyms(key), read_only=setting.read_only)
        for key, setting in NODE_SETTINGS.items()
    ]
    texts = settings.node_texts()
    others = sorted(texts.keys() - NODE_SETTINGS.keys())
    for key in others:
        setting = _KNOWN.get(key)
        if setting is None:
            known.append(_other(key, texts[key], synonyms(key)))
        else:
            known.append(_entry(setting, texts[key], synonyms(key), read_only=setting.read_only))
    return known


def _all_brokers(settings: EffectiveSettings) -> list[Entry]:
    """The entries of the cluster-wide dynamic configs."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    entries: list[Entry] = []
    for key, text in sorted(settings.image.config(ResourceType.BROKER, ALL_BROKERS).items()):
        setting = _KNOWN.get(key)
        if setting is None:
            entries.append(_other(key, text, [_synonym(key, None if _secret(key) else text, source)]))
        else:
            value = None if setting.sensitive else text
            entries.append(_entry(setting, value, [_synonym(key, value, source)], read_only=setting.read_only))
    return entries


def _other(name: str, value: str | None, synonyms: Synonyms) -> Entry:
    """The entry of a listener config, or of an unknown config, whose value is hidden since it may be a secret."""
    base = _KNOWN.get(listener_base_name(name) or "")
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


def _broker_synonyms(settings: EffectiveSettings) -> Callable[[str], Synonyms]:
    """A function that returns the values of a broker config and its synonyms, highest precedence first.

    As in Kafka, the list starts with the config itself: synonyms that precede it are left out.
    """
    layers = settings.layers

    def synonyms(name: str) -> Synonyms:
        names = node_synonyms(name)
        found = [
            _synonym(one, None if _secret(one) else layer[one], source)
            for source, layer in layers
            for one in names
            if one in layer
        ]
        for one in names:
            default = settings.static.default_text(one) if one in STATIC_SETTINGS and one in _KNOWN else None
            if default is not None:
                found.append(_synonym(one, default, ConfigSource.DEFAULT))
        own = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
        return found[own:]

    return synonyms


def _secret(name: str) -> bool:
    setting = _KNOWN.get(listener_base_name(name) or name)
    return setting is None or setting.sensitive
