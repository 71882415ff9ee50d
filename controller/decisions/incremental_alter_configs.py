"""IncrementalAlterConfigs: settings are set, deleted, added to and taken from, one by one (KIP-339)."""

from minikafka.controller.decisions.configs import Alteration, Operation, alter
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
    """An answer for each resource; what is wrong with one does not hinder the others."""
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
