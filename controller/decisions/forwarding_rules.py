"""Requests that are handed on to the active controller, and what the node that was asked decides by itself.

A node's loggers are its own: only itself can say which there are, and set them. Its own settings are changed by asking
that very node. So whoever is asked decides about its loggers, refuses what names another node, and hands on the rest;
the controller then need not know who was asked (`Context.handed_on`). Source: `ConfigAdminManager.preprocess`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minikafka.controller.decisions import alter_configs, broker_settings, incremental_alter_configs
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.settings.effective_settings import ResourceType
from minikafka.protocol.errors import InvalidRequestError
from minikafka.protocol.messages.alter_configs import AlterConfigsRequest
from minikafka.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

__all__ = ["Split", "split"]


@dataclass(frozen=True, slots=True)
class Split:
    """A request as it is handed on.

    Attributes:
        request: for the active controller; None where nothing is left for it.
        log_levels: loggers of this node whose level changes now.
        own: what this node answers by itself: a response, None where nothing was its own.
        order: of each resource of the whole request, whether this node answers it.
    """

    request: Any
    log_levels: Mapping[str, str] = field(default_factory=dict)
    own: Any = None
    order: tuple[bool, ...] = ()

    def merge(self, response: Any) -> Any:
        """The answer to the whole request, out of the controller's (None where nothing was asked of it)."""
        if self.own is None:
            return response
        told = iter([] if response is None else response.responses)
        own = iter(self.own.responses)
        return type(self.own)(responses=[next(own) if is_own else next(told) for is_own in self.order])


def split(image: Image, request: Any, context: Context) -> Split:
    """What of a request is handed on; all of most.

    Args:
        image: of the node that was asked.
        request: a request of any kind that is decided about.
        context: with the settings and loggers of the node that was asked.
    """
    if not isinstance(request, AlterConfigsRequest | IncrementalAlterConfigsRequest):
        return Split(request)
    order = tuple(_is_own(one.resource_type, one.resource_name, context) for one in request.resources)
    if not any(order):
        return Split(request)
    own = _decide(image, _part(request, order, own=True), context)
    assert not own.records, "what a node decides by itself is no part of the metadata"
    rest = None if all(order) else _part(request, order, own=False)
    return Split(rest, own.log_levels, own.reply, order)


def _is_own(kind: int, name: str, context: Context) -> bool:
    """Whether only the node that was asked can answer: about its loggers, and that it is not another node."""
    if kind == ResourceType.BROKER_LOGGER:
        return True
    if kind != ResourceType.BROKER or not name:
        return False
    try:
        broker_settings.check_node_id(name, context.static.node_id, "broker")
    except InvalidRequestError:
        return True
    return False


def _part(request: Any, order: tuple[bool, ...], *, own: bool) -> Any:
    resources = [one for one, is_own in zip(request.resources, order, strict=True) if is_own is own]
    return type(request)(resources=resources, validate_only=request.validate_only)


def _decide(image: Image, request: Any, context: Context) -> Decision[Any]:
    if isinstance(request, AlterConfigsRequest):
        return alter_configs.decide(image, request, context)
    return incremental_alter_configs.decide(image, request, context)
