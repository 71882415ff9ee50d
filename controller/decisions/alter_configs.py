"""AlterConfigs: replaces all dynamic configs of a resource (KIP-133)."""

from collections.abc import Generator

from minikafka.controller.decisions.config_changes import Alteration, Operation, OperationKind, altering
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from minikafka.storage.steps import without_pauses

__all__ = ["decide", "deciding"]


def deciding(
    image: Image, request: AlterConfigsRequest, context: Context
) -> Generator[None, None, Decision[AlterConfigsResponse]]:
    """Decide in steps, with a result for each resource. A resource is changed as a whole or not at all."""
    altered = yield from altering(image, request.resources, _alteration, AlterConfigsResourceResponse, context)
    reply = AlterConfigsResponse(responses=altered.responses)
    return Decision([] if request.validate_only else altered.records, reply)


decide = without_pauses(deciding)


def _alteration(resource: AlterConfigsResource) -> Alteration:
    return Alteration(
        kind=resource.resource_type,
        name=resource.resource_name,
        operations=tuple(Operation(one.name, OperationKind.SET, one.value) for one in resource.configs),
        replace=True,
    )
