"""IncrementalAlterConfigs: sets, deletes, appends to or subtracts from single configs (KIP-339)."""

from minikafka.controller.decisions.config_changes import Alteration, Operation, alter
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

__all__ = ["decide"]


def decide(
    image: Image, request: IncrementalAlterConfigsRequest, context: Context
) -> Decision[IncrementalAlterConfigsResponse]:
    """A result for each resource; each is changed as a whole or not at all."""
    alterations = [
        Alteration(
            kind=resource.resource_type,
            name=resource.resource_name,
            operations=tuple(Operation(one.name, one.config_operation, one.value) for one in resource.configs),
            replace=False,
        )
        for resource in request.resources
    ]
    altered = alter(image, alterations, context)
    responses = altered.answers(AlterConfigsResourceResponse, alterations)
    reply = IncrementalAlterConfigsResponse(responses=responses)
    if request.validate_only:
        return Decision([], reply)
    return Decision(altered.records, reply, altered.log_levels)
