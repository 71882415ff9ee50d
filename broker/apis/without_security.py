"""Answers requests about ACLs, SASL and delegation tokens as a Kafka broker without security does.

Without an authorizer, requests about ACLs get SECURITY_DISABLED. On a PLAINTEXT listener, SASL requests get
ILLEGAL_SASL_STATE. An anonymous client gets no delegation token (KIP-48). A request for ACLs with the type UNKNOWN ends
the connection.
"""

from minikafka.broker.connections.request_context import Disconnect, RequestContext
from minikafka.broker.connections.routes import ApiHandler
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from minikafka.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from minikafka.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from minikafka.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from minikafka.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from minikafka.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from minikafka.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

NO_AUTHORIZER = "No Authorizer is configured."
NO_SASL = "SaslAuthenticate request received after successful authentication"
NO_TOKEN = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
Context = RequestContext[object]

UNKNOWN = 0
"""The code of UNKNOWN as a resource type, pattern type, operation or permission type."""


async def describe_acls(request: DescribeAclsRequest, context: Context) -> DescribeAclsResponse:
    """Refuse with SECURITY_DISABLED."""
    _check_types(
        request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type
    )
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured on the broker"
    )


async def create_acls(request: CreateAclsRequest, context: Context) -> CreateAclsResponse:
    """Refuse each ACL with SECURITY_DISABLED."""
    for one in request.creations:
        _check_types(one.resource_type, one.resource_pattern_type, one.operation, one.permission_type)
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return CreateAclsResponse(results=[refused for _ in request.creations])


async def delete_acls(request: DeleteAclsRequest, context: Context) -> DeleteAclsResponse:
    """Refuse each filter with SECURITY_DISABLED."""
    for one in request.filters:
        _check_types(one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type)
    refused = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
    return DeleteAclsResponse(filter_results=[refused for _ in request.filters])


def _check_types(*types: int) -> None:
    """Raise Disconnect for UNKNOWN, by which clients represent codes that they do not know; accept all other codes."""
    if UNKNOWN in types:
        raise Disconnect("an ACL with UNKNOWN as its resource type, pattern type, operation or permission type")


async def sasl_handshake(request: SaslHandshakeRequest, context: Context) -> SaslHandshakeResponse:
    """Refuse with ILLEGAL_SASL_STATE."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


async def sasl_authenticate(request: SaslAuthenticateRequest, context: Context) -> SaslAuthenticateResponse:
    """Refuse with ILLEGAL_SASL_STATE."""
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=NO_SASL)


async def create_token(
    request: CreateDelegationTokenRequest, context: Context
) -> CreateDelegationTokenResponse:
    """Refuse, since the client is anonymous. The response repeats the owner: by default the client itself."""
    return CreateDelegationTokenResponse(
        error_code=NO_TOKEN,
        principal_type=request.owner_principal_type or context.principal.kind,
        principal_name=request.owner_principal_name or context.principal.name,
        token_requester_principal_type=context.principal.kind,
        token_requester_principal_name=context.principal.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )


async def describe_tokens(
    request: DescribeDelegationTokenRequest, context: Context
) -> DescribeDelegationTokenResponse:
    """Refuse with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    return DescribeDelegationTokenResponse(error_code=NO_TOKEN)


async def renew_token(request: RenewDelegationTokenRequest, context: Context) -> RenewDelegationTokenResponse:
    """Refuse with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    return RenewDelegationTokenResponse(error_code=NO_TOKEN, expiry_timestamp_ms=-1)


async def expire_token(
    request: ExpireDelegationTokenRequest, context: Context
) -> ExpireDelegationTokenResponse:
    """Refuse with DELEGATION_TOKEN_REQUEST_NOT_ALLOWED."""
    return ExpireDelegationTokenResponse(error_code=NO_TOKEN, expiry_timestamp_ms=-1)


HANDLERS = [
    ApiHandler(SaslHandshakeRequest, "0-1", sasl_handshake),
    ApiHandler(DescribeAclsRequest, "1-3", describe_acls),
    ApiHandler(CreateAclsRequest, "1-3", create_acls),
    ApiHandler(DeleteAclsRequest, "1-3", delete_acls),
    ApiHandler(SaslAuthenticateRequest, "0-2", sasl_authenticate),
    ApiHandler(CreateDelegationTokenRequest, "1-3", create_token),
    ApiHandler(RenewDelegationTokenRequest, "1-2", renew_token),
    ApiHandler(ExpireDelegationTokenRequest, "1-2", expire_token),
    ApiHandler(DescribeDelegationTokenRequest, "1-3", describe_tokens),
]
