"""Answers requests that clients send to a controller directly, not by way of a broker (KIP-919): `DirectRequests`.

A broker accepts only its own broker configs, and checks them before it forwards them. A controller accepts the configs
of every broker, and answers for its own log levels. Source: `ControllerApis.handleIncrementalAlterConfigs`.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Protocol

from minikafka.controller.decisions.decision import Context
from minikafka.controller.decisions.forwarding_rules import splitting_at_controller
from minikafka.controller.metadata.image import Image
from minikafka.controller.security.access import Access
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.storage.steps import in_steps

__all__ = ["DirectRequests"]


class _Controller(Protocol):
    log_levels: dict[str, str]

    @property
    def image(self) -> Image: ...

    async def handle_here(self, request: Any, version: int, access: Access) -> Any: ...


class DirectRequests:
    """Answers requests to the controller of this node.

    Args:
        controller: the controller of this node.
        static: the settings of this node.
        random: the source of ids.
        set_log_level: called with logger and level when a level is changed.
    """

    def __init__(
        self,
        controller: _Controller,
        static: StaticSettings,
        random: Random,
        set_log_level: Callable[[str, str], None] = lambda logger, level: None,
    ) -> None:
        self._controller = controller
        self._static = static
        self._random = random
        self._set_log_level = set_log_level

    async def handle(self, request: Any, version: int, access: Access) -> Any:
        """Answer a request. Raises KafkaError; NOT_CONTROLLER if this node's controller is not the active one."""
        controller = self._controller
        context = Context(self._static, self._random, version, controller.log_levels, access=access)
        parts = await in_steps(splitting_at_controller(controller.image, request, context))
        for logger, level in parts.log_levels.items():
            controller.log_levels[logger] = level
            self._set_log_level(logger, level)
        rest = None if parts.request is None else await controller.handle_here(parts.request, version, access)
        return replace(parts, request=None).merge(rest)
