"""ApiVersions: what this node honours (KIP-35, KIP-511), and its features (KIP-584)."""

import re

from minikafka.broker.context import RequestContext
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

REQUEST = ApiVersionsRequest
VERSIONS = "0-4"

CLIENT_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
VERSION_WITH_CLIENT_SOFTWARE = 3


async def handle(request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    """Every API of the listener; a client whose name is no name is told so, and may go on (KIP-511)."""
    if context.version >= VERSION_WITH_CLIENT_SOFTWARE and not (
        CLIENT_SOFTWARE.fullmatch(request.client_software_name)
        and CLIENT_SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return context.node.api_versions(context.version)
