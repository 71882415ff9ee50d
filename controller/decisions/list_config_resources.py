"""ListConfigResources: lists the resources that have, or can have, dynamic configs (KIP-1142)."""

from collections.abc import Generator

from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.steps import mapping
from minikafka.controller.settings.effective_settings import ResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from minikafka.storage.steps import without_pauses

__all__ = ["describe", "describing"]

VERSION_WITH_TYPES = 1


def describing(
    image: Image, request: ListConfigResourcesRequest, version: int
) -> Generator[None, None, ListConfigResourcesResponse]:
    """List in steps the resources of the requested types, or of all types. Version 0 lists client metrics only."""
    requested = set(request.resource_types) or set(ResourceType)
    if version < VERSION_WITH_TYPES:
        requested = {ResourceType.CLIENT_METRICS}
    if requested - set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    reply = ListConfigResourcesResponse()
    for kind in sorted(requested, reverse=True):

        def resource(name: str, kind: int = kind) -> ConfigResource:
            return ConfigResource(resource_name=name, resource_type=kind)

        reply.config_resources += yield from mapping(resource, _names(image, ResourceType(kind)))
    return reply


describe = without_pauses(describing)


def _names(image: Image, kind: ResourceType) -> list[str]:
    match kind:
        case ResourceType.TOPIC:
            return list(image.topics)
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return [str(node_id) for node_id in sorted(image.brokers)]
        case _:
            return sorted(name for resource, name in image.configs if resource == kind)
