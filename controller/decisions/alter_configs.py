"""AlterConfigs: replaces all dynamic configs of a resource (KIP-133)."""

from minikafka.controller.decisions.config_changes import Alteration, Operation, OperationKind, alter
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

__all__ = ["decide"]


def decide(image: Image, request: AlterConfigsRequest, context: Context) -> Decision[AlterConfigsResponse]:
    """A result for each resource; each is changed as a whole or not at all."""
    alterations = [
        Alteration(
            kind=resource.resource_type,
            name=resource.resource_name,
            operations=tuple(Operation(one.name, OperationKind.SET, one.value) for one in resource.configs),
            replace=True,
        )
        for resource in request.resources
    ]
    altered = alter(image, alterations, context)
    responses = altered.answers(AlterConfigsResourceResponse, alterations)
    return Decision([] if request.validate_only else altered.records, AlterConfigsResponse(responses=responses))
