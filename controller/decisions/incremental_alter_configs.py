"""IncrementalAlterConfigs: sets, deletes, appends to or subtracts from single configs (KIP-339)."""

from collections.abc import Generator

from minikafka.controller.decisions.config_changes import Alteration, Operation, altering
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from minikafka.storage.steps import without_pauses

__all__ = ["decide", "deciding"]


def deciding(
    image: Image, request: IncrementalAlterConfigsRequest, context: Context
) -> Generator[None, None, Decision[IncrementalAlterConfigsResponse]]:
    """Decide in steps, with a result for each resource. A resource is changed as a whole or not at all."""
    altered = yield from altering(image, request.resources, _alteration, AlterConfigsResourceResponse, context)
    reply = IncrementalAlterConfigsResponse(responses=altered.responses)
    if request.validate_only:
        return Decision([], reply)
    return Decision(altered.records, reply, altered.log_levels)


decide = without_pauses(deciding)


def _alteration(resource: AlterConfigsResource) -> Alteration:
    return Alteration(
        kind=resource.resource_type,
        name=resource.resource_name,
        operations=tuple(Operation(one.name, one.config_operation, one.value) for one in resource.configs),
        replace=False,
    )
