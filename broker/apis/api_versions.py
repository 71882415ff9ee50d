"""ApiVersions: returns the supported APIs (KIP-35, KIP-511) and features (KIP-584)."""

import re
from typing import Protocol

from minikafka.broker.apis.quorum_state import kraft_versions_of
from minikafka.broker.apis.services import ClusterView, ControllerService, SetupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.controller.metadata.features import FEATURES, KRAFT_VERSION
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

REQUEST = ApiVersionsRequest
VERSIONS = "0-4"

CLIENT_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
VERSION_WITH_CLIENT_SOFTWARE = 3
VERSION_WITH_LEVEL_ZERO = 4
"""Clients with earlier versions refuse a supported feature whose lowest level is 0 (KAFKA-17011), so that such features
are left out of their responses."""


class ApiVersionsServices(ClusterView, ControllerService, SetupService, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[ApiVersionsServices]


async def handle(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """Return all APIs of the listener; INVALID_REQUEST for a malformed client software name or version (KIP-511)."""
    if context.version >= VERSION_WITH_CLIENT_SOFTWARE and not (
        CLIENT_SOFTWARE.fullmatch(request.client_software_name)
        and CLIENT_SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    context.connection.software_name = request.client_software_name
    context.connection.software_version = request.client_software_version
    kraft = kraft_versions_of(context.services.controller)
    supported = {name: (lowest, highest) for name, (lowest, highest, _) in FEATURES.items()}
    features = dict(context.services.image.features)
    if kraft.highest:
        supported[KRAFT_VERSION] = (0, kraft.highest)
    if kraft.level:
        features[KRAFT_VERSION] = kraft.level
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=route.key, min_version=route.advertised_min, max_version=route.max_version)
            for route in context.services.setup.routes.values()
            if route.advertised
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
            for name, (lowest, highest) in supported.items()
            if lowest or context.version >= VERSION_WITH_LEVEL_ZERO
        ],
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.items()
        ],
        finalized_features_epoch=0 if features else -1,
    )
