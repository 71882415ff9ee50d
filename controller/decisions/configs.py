"""Changes of settings, whatever they belong to: form, new values, checks by kind of resource, records.

AlterConfigs replaces all settings of a resource, IncrementalAlterConfigs changes those that it names; the
rest is the same. One wrong setting stops its whole resource, never another one. Source:
`ConfigAdminManager`, `ConfigurationControlManager`, `ControllerConfigurationValidator`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from minikafka.controller.decisions import broker_settings, client_metrics_settings, group_settings, log_levels
from minikafka.controller.decisions.decision import Context, check_size
from minikafka.controller.decisions.eligible_leader_replicas import no_longer_eligible
from minikafka.controller.decisions.topic_settings import check_topic_settings
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ConfigRecord, Record
from minikafka.controller.settings.effective_settings import ResourceType
from minikafka.protocol.errors import (
    InvalidConfigError,
    InvalidRequestError,
    KafkaError,
    PolicyViolationError,
    UnknownTopicOrPartitionError,
)
from minikafka.protocol.messages import alter_configs, incremental_alter_configs
from minikafka.protocol.names import check_topic_name
from minikafka.protocol.settings.registry import GROUP_SETTINGS, NODE_SETTINGS, TOPIC_SETTINGS, Setting, SettingType

__all__ = ["Alteration", "Altered", "Operation", "OperationKind", "alter"]

Answer = TypeVar(
    "Answer", alter_configs.AlterConfigsResourceResponse, incremental_alter_configs.AlterConfigsResourceResponse
)


class OperationKind(IntEnum):
    """What IncrementalAlterConfigs does to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Operation:
    """One setting's change; `kind` may be a number that means nothing."""

    name: str
    kind: int
    value: str | None


@dataclass(frozen=True, slots=True)
class Alteration:
    """The change of one resource.

    Attributes:
        replace: whether settings that are not named go.
    """

    kind: int
    name: str
    operations: tuple[Operation, ...]
    replace: bool


@dataclass(slots=True)
class Altered:
    """What came of all alterations: records, levels of loggers, and an error or None for each alteration."""

    records: list[Record]
    log_levels: dict[str, str]
    errors: list[KafkaError | None]

    def answers(self, kind: type[Answer], alterations: Sequence[Alteration]) -> list[Answer]:
        """One for each alteration, in either API's class."""
        return [
            kind(
                error_code=error.code if error else 0,
                error_message=error.message if error else None,
                resource_type=alteration.kind,
                resource_name=alteration.name,
            )
            for alteration, error in zip(alterations, self.errors, strict=True)
        ]


def alter(image: Image, alterations: Sequence[Alteration], context: Context) -> Altered:
    """Decide about every alteration by itself."""
    counts = Counter((alteration.kind, alteration.name) for alteration in alterations)
    altered = Altered([], {}, [])
    for alteration in alterations:
        error: KafkaError | None = None
        try:
            if counts[alteration.kind, alteration.name] > 1:
                raise InvalidRequestError("Each resource must appear at most once.")
            _check_form(alteration)
            if alteration.kind == ResourceType.BROKER_LOGGER and not (alteration.replace or context.handed_on):
                altered.log_levels.update(_levels(alteration, context))
            else:
                records = _decide(image, alteration, context)
                check_size([*altered.records, *records])
                altered.records += records
        except KafkaError as refusal:
            error = refusal
        altered.errors.append(error)
    return _with_eligible(image, altered, context)


def _with_eligible(image: Image, altered: Altered, context: Context) -> Altered:
    """With what follows for eligible leader replicas, or without anything where that is too much."""
    altered.records += no_longer_eligible(image, altered.records, context.in_force(image))
    try:
        check_size(altered.records)
    except PolicyViolationError as refusal:
        return Altered([], {}, [error or refusal for error in altered.errors])
    return altered


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
    strange = [operation.kind for operation in alteration.operations if operation.kind not in set(OperationKind)]
    if strange:
        raise InvalidRequestError(f"Unknown operations type {strange[0]}")


def _levels(alteration: Alteration, context: Context) -> dict[str, str]:
    changes = {operation.name: operation.value for operation in alteration.operations}
    broker_settings.check_node_id(alteration.name, context.static.node_id, "node")
    for operation in alteration.operations:
        if operation.kind in (OperationKind.APPEND, OperationKind.SUBTRACT):
            raise InvalidRequestError(
                f"{OperationKind(operation.kind).name} operation is not allowed for the BROKER_LOGGER resource"
            )
    return log_levels.changed(changes, context.log_levels)


def _decide(image: Image, alteration: Alteration, context: Context) -> list[Record]:
    """The records of one alteration.

    Raises:
        KafkaError: with what is wrong.
    """
    kind, name = alteration.kind, alteration.name
    if kind not in _SCHEMAS:
        raise InvalidRequestError(f"Unknown resource type {kind}")
    if kind == ResourceType.BROKER and name and not context.handed_on:
        broker_settings.check_node_id(name, context.static.node_id, "broker")
    current = image.config(kind, name)
    wanted = _wanted(alteration, current)
    match kind:
        case ResourceType.BROKER:
            broker_settings.check(wanted, per_broker=bool(name))
            altered = {operation.name for operation in alteration.operations}
            broker_settings.check_min_isr(current, wanted, altered, per_broker=bool(name))
        case ResourceType.TOPIC:
            _check_topic(name, wanted, image)
        case ResourceType.GROUP:
            group_settings.check(name, wanted, context.in_force(image).node())
        case _:
            client_metrics_settings.check(name, wanted)
    return _records(alteration, current, wanted)


_SCHEMAS: dict[int, Mapping[str, Setting]] = {
    ResourceType.TOPIC: TOPIC_SETTINGS,
    ResourceType.BROKER: NODE_SETTINGS,
    ResourceType.GROUP: GROUP_SETTINGS,
    ResourceType.CLIENT_METRICS: {},  # their lists can be set but not added to, as in Kafka
}


def _wanted(alteration: Alteration, current: Mapping[str, str]) -> dict[str, str]:
    """All settings of the resource once it is altered."""
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
        raise InvalidConfigError(
            f"Can't {OperationKind(operation.kind).name} to key {operation.name} because its type is not LIST."
        )
    items = [item for item in (setting.default_text or "" if current is None else current).split(",") if item]
    for item in (operation.value or "").split(","):
        if operation.kind == OperationKind.APPEND and item not in items:
            items.append(item)
        elif operation.kind == OperationKind.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def _check_topic(name: str, wanted: Mapping[str, str], image: Image) -> None:
    """Values come before existence, as in Kafka."""
    if not name:
        raise InvalidRequestError("Default topic resources are not allowed.")
    check_topic_name(name)
    check_topic_settings(wanted)
    if name not in image.topics:
        raise UnknownTopicOrPartitionError(f"The topic '{name}' does not exist.")


def _records(alteration: Alteration, current: Mapping[str, str], wanted: Mapping[str, str]) -> list[Record]:
    """A record for every setting that changes.

    A broker's is written even where it stays the same, so that it reads again what the value names
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
