"""Passes the four APIs of delegation tokens (KIP-48) on to the active controller, at brokers and at controllers.

The active controller creates, renews and expires tokens (`minikafka.controller.decisions.delegation_tokens`); each node
describes those of its metadata. Clients that are anonymous, or that logged in by a token themselves, get
DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from minikafka.broker.apis.acls import Ask
from minikafka.broker.apis.services import ClusterView, SetupService
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.connections.routes import ApiHandler
from minikafka.controller.decisions.delegation_tokens import describing, names_exceed_limit, refused_creation
from minikafka.controller.security.access import ANONYMOUS
from minikafka.controller.security.token_secrets import secret_of
from minikafka.protocol.errors import (
    DelegationTokenAuthDisabledError,
    DelegationTokenRequestNotAllowedError,
    ErrorCode,
)
from minikafka.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
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
from minikafka.storage.steps import in_steps

NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


class TokenServices(ClusterView, SetupService, Protocol):
    """What describing tokens uses."""


async def describe(
    request: DescribeDelegationTokenRequest, context: RequestContext[TokenServices]
) -> DescribeDelegationTokenResponse:
    """Return the tokens that the client may see.

    Raises:
        DelegationTokenRequestNotAllowedError: It is anonymous, or has logged in by a token.
        DelegationTokenAuthDisabledError: The node has no `delegation.token.secret.key`.
    """
    if not _may_ask(context):
        raise DelegationTokenRequestNotAllowedError
    secret = secret_of(context.services.setup.config.static)
    if secret is None:
        raise DelegationTokenAuthDisabledError
    return await in_steps(describing(context.services.image, request, context.access, secret))


def token_handlers(ask: Ask) -> list[ApiHandler[Any]]:
    """The handlers of the four APIs.

    Args:
        ask: asks the controller, from the listener that the handlers are for.
    """

    async def create(
        request: CreateDelegationTokenRequest, context: RequestContext[Any]
    ) -> CreateDelegationTokenResponse:
        if not _may_ask(context):
            return refused_creation(request, context.principal, NOT_ALLOWED)
        if names_exceed_limit(request):  # Before the request is forwarded.
            return refused_creation(request, context.principal, ErrorCode.INVALID_REQUEST)
        response: CreateDelegationTokenResponse = await ask(request, context)
        return response

    def unless_refused(response: Callable[..., Any]) -> Callable[[Any, RequestContext[Any]], Coroutine[Any, Any, Any]]:
        """The handler that asks the controller, unless the client may not ask for tokens."""

        async def handle(request: Any, context: RequestContext[Any]) -> Any:
            if not _may_ask(context):
                return response(error_code=NOT_ALLOWED, expiry_timestamp_ms=-1)
            return await ask(request, context)

        return handle

    return [
        ApiHandler(CreateDelegationTokenRequest, "1-3", create),
        ApiHandler(RenewDelegationTokenRequest, "1-2", unless_refused(RenewDelegationTokenResponse)),
        ApiHandler(ExpireDelegationTokenRequest, "1-2", unless_refused(ExpireDelegationTokenResponse)),
        ApiHandler(DescribeDelegationTokenRequest, "1-3", describe),
    ]


def _may_ask(context: RequestContext[Any]) -> bool:
    return context.principal != ANONYMOUS and not context.principal.by_token
