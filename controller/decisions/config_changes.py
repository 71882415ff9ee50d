"""Decides changes of dynamic configs for AlterConfigs and IncrementalAlterConfigs, for all types of resources.

AlterConfigs replaces all configs of a resource, IncrementalAlterConfigs changes the listed configs; validation and
records are the same. An invalid config rejects the change of its resource, but not the changes of other resources.

Source: `ConfigAdminManager`, `ConfigurationControlManager`, `ControllerConfigurationValidator`.
"""

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Generic, TypeVar

from minikafka.controller.decisions import (
    broker_config_rules,
    broker_config_validation,
    client_metrics_config_validation,
    group_config_validation,
    log_levels,
)
from minikafka.controller.decisions.access_checks import on_cluster, on_topic
from minikafka.controller.decisions.decision import Context, check_size
from minikafka.controller.decisions.eligible_leader_replicas import cleared_by_config_change
from minikafka.controller.decisions.topic_config_validation import check_topic_settings
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ConfigRecord, Record
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP, RECORDS_IN_A_STEP
from minikafka.controller.settings.effective_settings import ResourceType
from minikafka.controller.settings.metadata_log_settings import data_directories
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.errors import (
    BrokerIdNotRegisteredError,
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    InvalidConfigError,
    InvalidRequestError,
    KafkaError,
    PolicyViolationError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    without_frames,
)
from minikafka.protocol.messages import alter_configs, incremental_alter_configs
from minikafka.protocol.names import check_topic_name
from minikafka.protocol.settings.registry import ANY_TOPIC_SETTINGS, GROUP_SETTINGS, NODE_SETTINGS, Setting, SettingType
from minikafka.storage.steps import Pauses

__all__ = ["Alteration", "Altered", "Operation", "OperationKind", "altering"]

Resource = TypeVar("Resource", alter_configs.AlterConfigsResource, incremental_alter_configs.AlterConfigsResource)
Answer = TypeVar(
    "Answer", alter_configs.AlterConfigsResourceResponse, incremental_alter_configs.AlterConfigsResourceResponse
)


class OperationKind(IntEnum):
    """The operations of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Operation:
    """The change of one config; `kind` is an `OperationKind`, or an unknown number."""

    name: str
    kind: int
    value: str | None


@dataclass(frozen=True, slots=True)
class Alteration:
    """The requested changes of one resource.

    Attributes:
        kind: the type of the resource, a `ResourceType` or an unknown number.
        name: the name of the resource.
        operations: the changes of its configs.
        replace: whether configs that are not listed are deleted.
    """

    kind: int
    name: str
    operations: tuple[Operation, ...]
    replace: bool


@dataclass(slots=True)
class Altered(Generic[Answer]):
    """The result of all alterations: records, log levels, and a response for each alteration."""

    records: list[Record]
    log_levels: dict[str, str]
    responses: list[Answer]


def altering(
    image: Image,
    resources: Sequence[Resource],
    alteration_of: Callable[[Resource], Alteration],
    response: type[Answer],
    context: Context,
) -> Generator[None, None, Altered[Answer]]:
    """Decide the alteration of each resource on its own, in steps. The responses are instances of `response`."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    altered = Altered[Answer]([], {}, [])
    errors: list[KafkaError | None] = []
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for resource in resources:
        if pauses.is_due(items=1 + len(resource.configs)):
            yield
        try:
            if counts[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequestError("Each resource must appear at most once.")
            yield from _altering(image, alteration_of(resource), context, altered)
        except KafkaError as refusal:
            errors.append(without_frames(refusal))
        else:
            errors.append(None)
    refusal_of_all = yield from _adding_elr_changes(image, altered, context)
    for resource, error in zip(resources, errors, strict=True):
        if pauses.is_due():
            yield
        altered.responses.append(_response(response, resource, error or refusal_of_all))
    return altered


def _altering(
    image: Image, alteration: Alteration, context: Context, altered: Altered[Answer]
) -> Generator[None, None, None]:
    yield from _after_many(alteration)
    _check_form(alteration)
    _check_access(alteration, context)
    if alteration.kind == ResourceType.BROKER_LOGGER and not (alteration.replace or context.forwarded):
        altered.log_levels.update(_levels(alteration, context))
    else:
        records = yield from _deciding(image, alteration, context)
        check_size(altered.records, records)
        altered.records += records


def _check_access(alteration: Alteration, context: Context) -> None:
    """A node that receives a request checks the access to its own log levels, the active controller all others.

    Raises:
        ClusterAuthorizationFailedError, TopicAuthorizationFailedError, GroupAuthorizationFailedError: the client may
            not change the configs of the resource.
    """
    access, operation, name = context.access, AclOperation.ALTER_CONFIGS, alteration.name
    if not context.forwarded and alteration.kind != ResourceType.BROKER_LOGGER:
        return
    match alteration.kind:
        case ResourceType.TOPIC:
            if not on_topic(access, operation, name):
                raise TopicAuthorizationFailedError
        case ResourceType.GROUP:
            if not access.allows(operation, AclResourceType.GROUP, name):
                raise GroupAuthorizationFailedError
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER | ResourceType.CLIENT_METRICS:
            if not on_cluster(access, operation):
                raise ClusterAuthorizationFailedError


def _after_many(alteration: Alteration) -> Generator[None, None, None]:
    """Pause between the parts of the decision about a resource if its alteration names very many configs."""
    if len(alteration.operations) >= RECORDS_IN_A_STEP:
        yield


def _adding_elr_changes(
    image: Image, altered: Altered[Answer], context: Context
) -> Generator[None, None, PolicyViolationError | None]:
    """Add the changes of eligible leader replicas that follow from the config changes. If all records together do not
    fit into one decision, drop all of them and return the error, which is then the error of all resources."""
    for change in cleared_by_config_change(image, altered.records, context.settings(image)):
        if change is None:
            yield
        else:
            altered.records.append(change)
    try:
        check_size(altered.records)
    except PolicyViolationError as refusal:
        altered.records, altered.log_levels = [], {}
        return without_frames(refusal)
    return None


def _response(kind: type[Answer], resource: Resource, error: KafkaError | None) -> Answer:
    return kind(
        error_code=error.code if error else 0,
        error_message=error.detail if error else None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _check_form(alteration: Alteration) -> None:
    names = [operation.name for operation in alteration.operations]
    if len(set(names)) < len(names):
        raise InvalidRequestError("Error due to duplicate config keys")
    without = [
        operation.name
        for operation in alteration.operations
        if operation.value is None and operation.kind != OperationKind.DELETE
    ]
    if without:
        raise InvalidRequestError(f"Null value not supported for : {', '.join(without)}")
    strange = [operation.kind for operation in alteration.operations if operation.kind not in _KINDS]
    if strange:
        raise InvalidRequestError(f"Unknown operations type {strange[0]}")


_KINDS = frozenset(OperationKind)


def _levels(alteration: Alteration, context: Context) -> dict[str, str]:
    """The new log levels by logger. As in Kafka, the first invalid operation determines the error."""
    broker_config_validation.check_node_id(alteration.name, context.static.node_id, "node")
    found: dict[str, str] = {}
    for operation in alteration.operations:
        if operation.kind in (OperationKind.APPEND, OperationKind.SUBTRACT):
            raise InvalidRequestError(
                f"{OperationKind(operation.kind).name} operation is not allowed for the BROKER_LOGGER resource"
            )
        level = operation.value if operation.kind == OperationKind.SET else None
        found[operation.name] = log_levels.changed(operation.name, level, context.log_levels)
    return found


def _deciding(image: Image, alteration: Alteration, context: Context) -> Generator[None, None, list[Record]]:
    """The records of one alteration.

    Raises:
        KafkaError: the alteration is invalid.
    """
    kind, name = alteration.kind, alteration.name
    if kind not in _SCHEMAS:
        raise InvalidRequestError(f"Unknown resource type {kind}")
    if kind == ResourceType.BROKER and name and not context.forwarded:
        broker_config_validation.check_node_id(name, context.static.node_id, "broker")
    current = image.config(kind, name)
    yield from _after_many(alteration)
    wanted = _wanted(alteration, current)
    yield from _after_many(alteration)
    match kind:
        case ResourceType.BROKER:
            if name and context.forwarded:
                _check_node(name, image, context)
            broker_config_validation.check(wanted, per_broker=bool(name))
            altered = {operation.name for operation in alteration.operations}
            if name and not context.forwarded:
                broker_config_validation.check_cordoned(wanted, data_directories(context.static))
            if not context.forwarded:
                broker_config_rules.check_on_broker(wanted, context.settings(image), per_broker=bool(name))
            broker_config_validation.check_min_isr(current, wanted, altered, per_broker=bool(name))
            broker_config_validation.check_cordoning_supported(image.features, wanted, altered)
        case ResourceType.TOPIC:
            _check_topic(name, wanted, image)
        case ResourceType.GROUP:
            group_config_validation.check(name, wanted, context.settings(image).node())
        case _:
            client_metrics_config_validation.check(name, wanted)
    yield from _after_many(alteration)
    return _records(alteration, current, wanted)


VALUE_SIZE_BYTES_MAX = 32_767
"""The largest size of a config value after an append, as in Kafka. The protocol allows no larger value in a request."""

_SCHEMAS: dict[int, Mapping[str, Setting]] = {
    ResourceType.TOPIC: ANY_TOPIC_SETTINGS,
    ResourceType.BROKER: NODE_SETTINGS,
    ResourceType.GROUP: GROUP_SETTINGS,
    ResourceType.CLIENT_METRICS: {},  # as in Kafka, their lists cannot be appended to
}


def _wanted(alteration: Alteration, current: Mapping[str, str]) -> dict[str, str]:
    """All configs of the resource after the alteration."""
    wanted = {} if alteration.replace else dict(current)
    for operation in alteration.operations:
        value = _operate(operation, wanted.get(operation.name), alteration.kind)
        wanted.pop(operation.name, None)
        if value is not None:
            wanted[operation.name] = value
    return wanted


def _operate(operation: Operation, current: str | None, resource_kind: int) -> str | None:
    if operation.kind in (OperationKind.SET, OperationKind.DELETE):
        return operation.value if operation.kind == OperationKind.SET else None
    setting = _SCHEMAS[resource_kind].get(operation.name)
    if setting is None or setting.type is not SettingType.LIST:
        verb = OperationKind(operation.kind).name
        if resource_kind == ResourceType.BROKER:
            problem = f"Config value {verb.lower()} is not allowed for config key: {operation.name}"
        else:
            problem = f"Can't {verb} to key {operation.name} because its type is not LIST."
        raise InvalidConfigError(problem)
    items = [item for item in (setting.default_text or "" if current is None else current).split(",") if item]
    given = (operation.value or "").split(",")
    value = ",".join(_appended(items, given) if operation.kind == OperationKind.APPEND else _subtracted(items, given))
    if len(value.encode()) > VALUE_SIZE_BYTES_MAX:
        raise InvalidConfigError(
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{VALUE_SIZE_BYTES_MAX} bytes."
        )
    return value


def _appended(items: list[str], more: list[str]) -> list[str]:
    known = set(items)
    return items + [item for item in dict.fromkeys(more) if item not in known]


def _subtracted(items: list[str], fewer: list[str]) -> list[str]:
    """Remove from `items` the first occurrence of an item for each time that `fewer` names the item."""
    left: list[str] = []
    counts = Counter(fewer)
    for item in items:
        if counts[item]:
            counts[item] -= 1
        else:
            left.append(item)
    return left


def _check_topic(name: str, wanted: Mapping[str, str], image: Image) -> None:
    """Check the configs of a topic. As in Kafka, the values are checked before the existence of the topic."""
    if not name:
        raise InvalidRequestError("Default topic resources are not allowed.")
    check_topic_name(name)
    check_topic_settings(wanted)
    if name not in image.topics:
        raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")


def _check_node(name: str, image: Image, context: Context) -> None:
    node_id = broker_config_validation.node_id_of(name)
    if node_id not in image.brokers and node_id not in context.controllers:
        raise BrokerIdNotRegisteredError(f"No node with id {node_id} found.")


def _records(alteration: Alteration, current: Mapping[str, str], wanted: Mapping[str, str]) -> list[Record]:
    """A record for each config that changes.

    A broker config is written even if it is unchanged, so that the broker reloads the file that the config names
    (KAFKA-14136).
    """
    named = [operation.name for operation in alteration.operations]
    names = dict.fromkeys([*named, *current])
    forced = set(named) if alteration.kind == ResourceType.BROKER else set()
    return [
        ConfigRecord(alteration.kind, alteration.name, name, wanted.get(name))
        for name in names
        if name in forced or wanted.get(name) != current.get(name)
    ]
