"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken (KIP-48, KIP-373).

A token lets programs log in as its owner for a time, without the owner's password. The active controller creates
tokens, and removes those that have ended. Source: `DelegationTokenControlManager`, `KafkaApis`,
`DelegationTokenManager.filterToken`.
"""

import hmac
from collections.abc import Generator
from dataclasses import replace

from minikafka.controller.decisions.decision import RECORDS_MAX, Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import DelegationTokenRecord, Record, RemoveDelegationToken
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP
from minikafka.controller.security.access import Access, Principal
from minikafka.controller.security.token_secrets import secret_of, token_hmac
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from minikafka.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
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
from minikafka.protocol.names import uuid_text
from minikafka.storage.steps import Pauses, without_pauses

__all__ = [
    "create",
    "describing",
    "ending",
    "expire",
    "expiring",
    "names_exceed_limit",
    "refused_creation",
    "renew",
    "renewing",
]

TIME_MAX_MS = 2**63 - 1
LETTERS_MAX = 16_384
"""The most letters of the owner's and the renewers' names of a token together, each name with 16 more."""
TOKENS_MAX, TOKENS_OF_REQUESTER_MAX = 10_000, 1_000
"""The most tokens, and the most that one client has created, until they end. Kafka has no such limits."""
USER = "User"


def create(
    image: Image, request: CreateDelegationTokenRequest, context: Context
) -> Decision[CreateDelegationTokenResponse]:
    """Decide at once. A token of somebody else needs CREATE_TOKENS of that user.

    One with too long names is INVALID_REQUEST; POLICY_VIOLATION if there are too many tokens.
    """
    requester = context.access.principal
    if error := _limit_error(image, request, requester) or _why_refused(request, context):
        return Decision([], refused_creation(request, requester, error))
    owner = _owner(request, requester)
    secret = secret_of(context.static)
    if secret is None:
        return Decision([], _creation(owner, requester, error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED))
    longest_ms = context.static.number("delegation.token.max.lifetime.ms")
    lifetime_ms = min(longest_ms, request.max_lifetime_ms) if request.max_lifetime_ms > 0 else longest_ms
    max_ms = min(context.wall_ms + lifetime_ms, TIME_MAX_MS)
    token = DelegationTokenRecord(
        token_id=_new_token_id(context),
        owner=(owner.kind, owner.name),
        requester=(requester.kind, requester.name),
        renewers=tuple((one.principal_type, one.principal_name) for one in request.renewers),
        issued_ms=context.wall_ms,
        max_ms=max_ms,
        expires_ms=min(context.wall_ms + _renewal_ms(context), max_ms),
    )
    response = _creation(owner, requester, token.issued_ms, token.expires_ms, token.max_ms)
    response.token_id, response.hmac = token.token_id, token_hmac(secret, token.token_id)
    return Decision([token], response)


def names_exceed_limit(request: CreateDelegationTokenRequest) -> bool:
    """Whether the names in a request are too long together: all nodes keep each token in memory until it ends."""
    if 16 * len(request.renewers) > LETTERS_MAX:
        return True
    names = [request.owner_principal_name or "", *(one.principal_name for one in request.renewers)]
    return sum(16 + len(name) for name in names) > LETTERS_MAX


def _limit_error(image: Image, request: CreateDelegationTokenRequest, requester: Principal) -> ErrorCode:
    """The error of a request that exceeds a limit of tokens; NONE otherwise."""
    if names_exceed_limit(request):
        return ErrorCode.INVALID_REQUEST
    client = (requester.kind, requester.name)
    if len(image.tokens) >= TOKENS_MAX or (
        len(image.tokens) >= TOKENS_OF_REQUESTER_MAX
        and sum(token.requester == client for token in image.tokens.values()) >= TOKENS_OF_REQUESTER_MAX
    ):
        return ErrorCode.POLICY_VIOLATION
    return ErrorCode.NONE


def _why_refused(request: CreateDelegationTokenRequest, context: Context) -> ErrorCode:
    owner = _owner(request, context.access.principal)
    if owner != context.access.principal and not context.access.allows(
        AclOperation.CREATE_TOKENS, AclResourceType.USER, str(owner)
    ):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if request.owner_principal_name and request.owner_principal_type is None:  # Kafka's broker fails.
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    if any(one.principal_type != USER for one in request.renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return ErrorCode.NONE


def refused_creation(
    request: CreateDelegationTokenRequest, requester: Principal, error: ErrorCode
) -> CreateDelegationTokenResponse:
    """The response that refuses a token: it repeats the owner, by default the requester itself."""
    return _creation(_owner(request, requester), requester, -1, -1, -1, error_code=error)


def _owner(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


def _creation(
    owner: Principal,
    requester: Principal,
    issued_ms: int = 0,
    expires_ms: int = 0,
    max_ms: int = 0,
    *,
    error_code: ErrorCode = ErrorCode.NONE,
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=error_code,
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=issued_ms,
        expiry_timestamp_ms=expires_ms,
        max_timestamp_ms=max_ms,
    )


def _new_token_id(context: Context) -> str:
    """As Kafka, none that begins with a dash, which tools would take for an option."""
    while (token_id := uuid_text(context.new_id())).startswith("-"):
        pass
    return token_id


def _renewal_ms(context: Context, asked_ms: int = 0) -> int:
    longest_ms = context.static.number("delegation.token.expiry.time.ms")
    return min(asked_ms, longest_ms) if asked_ms > 0 else longest_ms


# -- renewal and the end -----------------------------------------------------------------------------------------


def renewing(
    image: Image, request: RenewDelegationTokenRequest, context: Context
) -> Generator[None, None, Decision[RenewDelegationTokenResponse]]:
    """Decide in steps. Only the owner and the renewers may renew a token, whatever the authorizer allows."""
    token = yield from _with_hmac(image, bytes(request.hmac), context)
    if isinstance(token, ErrorCode):
        return Decision([], RenewDelegationTokenResponse(error_code=token))
    if token.ends_before(context.wall_ms):
        return Decision([], RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    if not _may_change(context.access.principal, token):
        return Decision([], RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    expires_ms = min(context.wall_ms + _renewal_ms(context, request.renew_period_ms), token.max_ms)
    changed = replace(token, expires_ms=expires_ms)
    return Decision([changed], RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms))


renew = without_pauses(renewing)


def expiring(
    image: Image, request: ExpireDelegationTokenRequest, context: Context
) -> Generator[None, None, Decision[ExpireDelegationTokenResponse]]:
    """Decide in steps. A negative period removes the token at once, another one sets when it ends."""
    token = yield from _with_hmac(image, bytes(request.hmac), context)
    if isinstance(token, ErrorCode):
        return Decision([], ExpireDelegationTokenResponse(error_code=token))
    if not _may_change(context.access.principal, token):
        return Decision([], ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    if request.expiry_time_period_ms < 0:
        removed = RemoveDelegationToken(token.token_id)
        return Decision([removed], ExpireDelegationTokenResponse(expiry_timestamp_ms=context.wall_ms))
    if token.ends_before(context.wall_ms):
        return Decision([], ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED))
    expires_ms = min(context.wall_ms + request.expiry_time_period_ms, token.max_ms)
    changed = replace(token, expires_ms=expires_ms)
    return Decision([changed], ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms))


expire = without_pauses(expiring)


def _with_hmac(
    image: Image, given: bytes, context: Context
) -> Generator[None, None, DelegationTokenRecord | ErrorCode]:
    """The token with this HMAC, or the error. HMACs are not stored: each is computed once, which takes 2 µs."""
    secret = secret_of(context.static)
    if secret is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for token in list(image.tokens.values()):
        if pauses.is_due():
            yield
        if hmac.compare_digest(token_hmac(secret, token.token_id), given):
            return token
    return ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def _may_change(principal: Principal, token: DelegationTokenRecord) -> bool:
    return (principal.kind, principal.name) in (token.owner, *token.renewers)


def ending(image: Image, context: Context) -> Generator[None, None, Decision[bool]]:
    """Remove the tokens that have ended, in steps; the reply is whether there may be more of them."""
    records: list[Record] = []
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for token in list(image.tokens.values()):
        if pauses.is_due():
            yield
        if token.ends_before(context.wall_ms):
            records.append(RemoveDelegationToken(token.token_id))
        if len(records) == RECORDS_MAX:
            return Decision(records, reply=True)
    return Decision(records, reply=False)


# -- what clients see --------------------------------------------------------------------------------------------


def describing(
    image: Image, request: DescribeDelegationTokenRequest, access: Access, secret: bytes
) -> Generator[None, None, DescribeDelegationTokenResponse]:
    """The tokens that a client may see, with their HMACs, in steps, between which they may change.

    Its own are those that it owns, requested or may renew. Others need DESCRIBE of the token, or DESCRIBE_TOKENS of the
    owner.
    """
    wanted = None
    if request.owners is not None:
        wanted = {(one.principal_type, one.principal_name) for one in request.owners}
    client = (access.principal.kind, access.principal.name)
    response = DescribeDelegationTokenResponse()
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for token in list(image.tokens.values()):
        if pauses.is_due(items=1 + len(token.renewers)):
            yield
        parties = (token.owner, token.requester, *token.renewers)
        if wanted is not None and wanted.isdisjoint(parties):
            continue
        if client in parties or _may_see(access, token):
            response.tokens.append(_described(token, secret))
    return response


def _may_see(access: Access, token: DelegationTokenRecord) -> bool:
    owner = str(Principal(*token.owner))
    return access.allows(
        AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id, log_denied=False
    ) or access.allows(AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, owner, log_denied=False)


def _described(token: DelegationTokenRecord, secret: bytes) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner[0],
        principal_name=token.owner[1],
        token_requester_principal_type=token.requester[0],
        token_requester_principal_name=token.requester[1],
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=token_hmac(secret, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, name in token.renewers
        ],
    )
