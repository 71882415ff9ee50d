"""Splits a request into the part that the receiving node answers and the part that it forwards to the controller.

Only AlterConfigs and IncrementalAlterConfigs are split. Log levels belong to the node that receives the request, and
configs of a single broker must be sent to that broker. So the receiving node sets its log levels, rejects resources
that name another node and configs of brokers that do not fit its own values, and forwards the rest; the active
controller does not repeat these checks (`Context.forwarded`).

Source: `ConfigAdminManager.preprocess`.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minikafka.controller.decisions import alter_configs, broker_config_validation, incremental_alter_configs
from minikafka.controller.decisions.access_checks import on_cluster
from minikafka.controller.decisions.config_changes import OperationKind
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP
from minikafka.controller.settings.effective_settings import ALL_BROKERS, ResourceType
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import InvalidRequestError
from minikafka.protocol.messages.alter_configs import AlterConfigsRequest
from minikafka.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from minikafka.protocol.shortened import shortened
from minikafka.storage.steps import Pauses

__all__ = ["Split", "part_of", "settings_after", "splitting", "splitting_at_controller"]

TYPES = frozenset(ResourceType)


@dataclass(frozen=True, slots=True)
class Split:
    """The parts of a request.

    Attributes:
        request: the part for the active controller; None if nothing is forwarded.
        log_levels: new level by logger of this node.
        own: this node's response to its own part; None if it has no part.
        order: for each resource of the whole request, whether this node answers it.
    """

    request: Any
    log_levels: Mapping[str, str] = field(default_factory=dict)
    own: Any = None
    order: tuple[bool, ...] = ()

    def merge(self, response: Any) -> Any:
        """The response to the whole request, given the active controller's response (None if nothing was forwarded)."""
        if self.own is None:
            return response
        forwarded = iter([] if response is None else response.responses)
        own = iter(self.own.responses)
        return type(self.own)(responses=[next(own) if is_own else next(forwarded) for is_own in self.order])


def splitting(image: Image, request: Any, context: Context) -> Generator[None, None, Split]:
    """Splits a request, in steps; most requests are forwarded as a whole. The image may change between the steps.

    Args:
        image: the image of the receiving node.
        request: a request of any type in `request_table.DECISIONS`.
        context: the context with the configs and log levels of the receiving node.
    """
    if not isinstance(request, AlterConfigsRequest | IncrementalAlterConfigsRequest):
        return Split(request)
    image = _configs_of_brokers(image, request, context)  # as they are now
    order: list[bool] = []
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for one in request.resources:
        if pauses.is_due(items=1 + len(one.configs)):
            yield
        is_own = _is_own(one.resource_type, one.resource_name, context)
        order.append(is_own or (yield from _is_refused_here(image, request, one, context)))
    return (yield from _answering_own(image, request, context, order))


def splitting_at_controller(image: Image, request: Any, context: Context) -> Generator[None, None, Split]:
    """Split a request that a controller receives from a client. The controller sets its own log levels, and rejects
    unknown resource types and broker names that are not a node id. The arguments are those of `splitting`.

    If a config is listed more than once, its last entry counts, and null deletes the config, as in Kafka.
    """
    if not isinstance(request, AlterConfigsRequest | IncrementalAlterConfigsRequest):
        return Split(request)
    for resource in request.resources:
        resource.configs = _as_a_map(resource.configs)
    image = _configs_of_brokers(image, request, context)
    order = [_is_for_receiver(one.resource_type, one.resource_name) for one in request.resources]
    split = yield from _answering_own(image, request, context, order)
    for answer in [] if split.own is None else split.own.responses:
        if answer.resource_type not in TYPES:
            answer.error_code = ErrorCode.UNSUPPORTED_VERSION
            answer.error_message = f"Unknown resource type {answer.resource_type}."
        elif answer.resource_type == ResourceType.BROKER and not on_cluster(
            context.access, AclOperation.ALTER_CONFIGS
        ):
            answer.error_code, answer.error_message = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None
        elif answer.resource_type == ResourceType.BROKER:
            answer.error_code = ErrorCode.INVALID_REQUEST
            name = shortened(answer.resource_name)
            answer.error_message = f"Invalid broker id {name}: it must be a non-negative integer"
    return split


def _as_a_map(configs: list[Any]) -> list[Any]:
    last = {config.name: config for config in configs}.values()
    for config in last:
        if config.value is None and getattr(config, "config_operation", None) == OperationKind.SET:
            config.config_operation = OperationKind.DELETE
    return [config for config in last if config.value is not None or hasattr(config, "config_operation")]


def settings_after(
    image: Image, request: Any, resource: Any, context: Context
) -> Generator[None, None, Image | None]:
    """The configs of brokers as a resource of a request would change them on the receiving broker.

    None if they would not be changed: the client may not, or they are refused here or are of another node.
    """
    if _is_own(resource.resource_type, resource.resource_name, context):
        return None
    if not on_cluster(context.access, AclOperation.ALTER_CONFIGS, log_denied=False):
        return None
    alone = type(request)(resources=[resource], validate_only=False)
    image = _configs_of_brokers(image, alone, context)
    decision = yield from _deciding(image, alone, context)
    for record in decision.records:
        image.apply(record)
    return image


def _configs_of_brokers(image: Image, request: Any, context: Context) -> Image:
    """A copy of the broker configs and features of the image, which the receiving node decides by. Later changes of the
    image do not change the copy."""
    names = {one.resource_name for one in request.resources if one.resource_type == ResourceType.BROKER}
    names |= {str(context.static.node_id), ALL_BROKERS}
    configs = {(int(ResourceType.BROKER), name): dict(image.config(ResourceType.BROKER, name)) for name in names}
    return Image(configs=configs, features=dict(image.features))


def _answering_own(
    image: Image, request: Any, context: Context, order: Sequence[bool]
) -> Generator[None, None, Split]:
    if not any(order):
        return Split(request)
    own = yield from _deciding(image, part_of(request, order, own=True), context)
    assert not own.records, "the receiving node writes no metadata"
    rest = None if all(order) else part_of(request, order, own=False)
    return Split(rest, own.log_levels, own.reply, tuple(order))


def _is_for_receiver(kind: int, name: str) -> bool:
    """Whether the receiving controller answers for a resource: its log levels, an unknown type, an invalid node id."""
    if kind == ResourceType.BROKER:
        return bool(name) and not _is_node_id(name)
    return kind == ResourceType.BROKER_LOGGER or kind not in TYPES


def _is_node_id(name: str) -> bool:
    try:
        return broker_config_validation.node_id_of(name) >= 0
    except InvalidRequestError:
        return False


def _is_refused_here(
    image: Image, request: Any, resource: Any, context: Context
) -> Generator[None, None, bool]:
    """Whether the receiving broker rejects broker configs that conflict with its own values. Other nodes do not know
    these values."""
    if resource.resource_type != ResourceType.BROKER:
        return False
    if not on_cluster(context.access, AclOperation.ALTER_CONFIGS, log_denied=False):
        return False  # The active controller refuses it, whatever its values.
    alone = type(request)(resources=[resource], validate_only=request.validate_only)
    decision = yield from _deciding(image, alone, context)
    return any(one.error_code for one in decision.reply.responses)


def _is_own(kind: int, name: str, context: Context) -> bool:
    """Whether the receiving node answers for a resource: log levels, or the id of another node, which it rejects."""
    if kind == ResourceType.BROKER_LOGGER:
        return True
    if kind != ResourceType.BROKER or not name:
        return False
    try:
        broker_config_validation.check_node_id(name, context.static.node_id, "broker")
    except InvalidRequestError:
        return True
    return False


def part_of(request: Any, order: Sequence[bool], *, own: bool) -> Any:
    """A request with those resources that this node answers, or with the others."""
    resources = [one for one, is_own in zip(request.resources, order, strict=True) if is_own is own]
    return type(request)(resources=resources, validate_only=request.validate_only)


def _deciding(image: Image, request: Any, context: Context) -> Generator[None, None, Decision[Any]]:
    if isinstance(request, AlterConfigsRequest):
        return alter_configs.deciding(image, request, context)
    return incremental_alter_configs.deciding(image, request, context)
