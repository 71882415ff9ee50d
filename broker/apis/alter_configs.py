"""AlterConfigs (KIP-133) and IncrementalAlterConfigs (KIP-339): checks the listeners of this node, and forwards.

A store of keys or certificates that the settings of this node would name must work: only this node can read its file.
Source: `ConfigAdminManager.preprocess`, `DynamicBrokerConfig.validate`, `SslFactory.validateReconfiguration`.
"""

from random import Random
from typing import Any, Protocol

from minikafka.broker.apis.forwarded import CHECKED_BY_BROKERS, FORWARDED, forward
from minikafka.broker.apis.services import ControllerService, SetupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.connections.routes import ApiHandler
from minikafka.broker.settings.altered_settings import is_of_listeners, tls_texts, why_refused
from minikafka.controller.decisions.decision import Context as DecisionContext
from minikafka.controller.decisions.forwarding_rules import Split, part_of, settings_after
from minikafka.controller.settings.effective_settings import EffectiveSettings, ResourceType
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages import alter_configs, incremental_alter_configs
from minikafka.storage.steps import Pauses, in_steps
from minikafka.storage.waits import in_task

RESOURCES_IN_A_STEP = 64


class Parts(ControllerService, SetupService, Protocol):
    """The parts of a node that the handler uses."""


Context = RequestContext[Parts]


async def alter(request: Any, context: Context) -> Any:
    """Forward a request to the active controller, without the resources that do not fit the listeners.

    Raises:
        The errors of `forward`.
    """
    refusals: list[str] = []
    pauses = Pauses(RESOURCES_IN_A_STEP)
    for resource in request.resources:
        await pauses(items=1 + len(resource.configs))
        refusals.append(await _why_refused(request, resource, context))
    order = tuple(map(bool, refusals))
    if not any(order):
        return await forward(request, context)
    rest = None if all(order) else await forward(part_of(request, order, own=False), context)
    return Split(None, own=_refused(request, refusals), order=order).merge(rest)


async def _why_refused(request: Any, resource: Any, context: Context) -> str:
    """Why a resource is refused, as its settings do not fit the listeners of this node; "" if it is not."""
    replaces = isinstance(request, alter_configs.AlterConfigsRequest)  # what it does not name is removed
    is_concerned = replaces or any(is_of_listeners(config.name) for config in resource.configs)
    if resource.resource_type != ResourceType.BROKER or not is_concerned:
        return ""
    setup = context.services.setup
    static, image = setup.effective.static, context.services.controller.image
    decided = DecisionContext(static, Random(0), context.version, access=context.access)  # settings are not random
    after = await in_steps(settings_after(image, request, resource, decided))
    if after is None:
        return ""
    changed = EffectiveSettings(static, after)
    listeners, before = setup.config.listeners.all, setup.effective.node_texts()
    await in_task()
    if reason := why_refused(listeners, static.given, before, changed.node_texts()):
        return reason
    return await setup.why_refused(tls_texts(setup.effective), tls_texts(changed))


def _refused(request: Any, refusals: list[str]) -> Any:
    is_incremental = isinstance(request, incremental_alter_configs.IncrementalAlterConfigsRequest)
    api: Any = incremental_alter_configs if is_incremental else alter_configs
    kind = api.IncrementalAlterConfigsResponse if is_incremental else api.AlterConfigsResponse
    return kind(
        responses=[
            api.AlterConfigsResourceResponse(
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=f"Validation of dynamic config update failed: {reason}",
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, reason in zip(request.resources, refusals, strict=True)
            if reason
        ]
    )


HANDLERS = [ApiHandler(request, FORWARDED[request], alter) for request in CHECKED_BY_BROKERS]
