"""Handles CreateAcls, DeleteAcls and DescribeAcls, at brokers and at controllers.

Without an authorizer they get SECURITY_DISABLED. A code of UNKNOWN, by which clients represent codes that they do not
know, ends the connection, as in Kafka.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from minikafka.broker.connections.request_context import Disconnect, RequestContext
from minikafka.broker.connections.routes import ApiHandler
from minikafka.protocol.errors import SecurityDisabledError
from minikafka.protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from minikafka.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from minikafka.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

UNKNOWN = 0
"""The code of UNKNOWN as a resource type, pattern type, operation or permission type."""
Ask = Callable[[Any, RequestContext[Any]], Awaitable[Any]]
"""Asks the controller for the response to a request."""


def acl_handlers(ask: Ask) -> list[ApiHandler[Any]]:
    """The handlers of the three APIs.

    Args:
        ask: asks the controller, from the listener that the handlers are for.
    """

    async def asked(request: Any, context: RequestContext[Any], why_not: str = "No Authorizer is configured.") -> Any:
        if context.access.is_open:
            raise SecurityDisabledError(why_not)
        return await ask(request, context)

    async def describe(request: DescribeAclsRequest, context: RequestContext[Any]) -> DescribeAclsResponse:
        _check_types(
            request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
        )
        return await asked(request, context, "No Authorizer is configured on the broker")

    async def create(request: CreateAclsRequest, context: RequestContext[Any]) -> CreateAclsResponse:
        for one in request.creations:
            _check_types(one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)
        return await asked(request, context)

    async def delete(request: DeleteAclsRequest, context: RequestContext[Any]) -> DeleteAclsResponse:
        for one in request.filters:
            _check_types(one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)
        return await asked(request, context)

    return [
        ApiHandler(DescribeAclsRequest, "1-3", describe),
        ApiHandler(CreateAclsRequest, "1-3", create),
        ApiHandler(DeleteAclsRequest, "1-3", delete),
    ]


def _check_types(*types: int) -> None:
    """Raise Disconnect for UNKNOWN; accept all other codes."""
    if UNKNOWN in types:
        raise Disconnect("an ACL with UNKNOWN as its resource type, pattern type, operation or permission type")
