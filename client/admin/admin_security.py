"""The methods of `Admin` for security: ACLs, SCRAM credentials of users, delegation tokens."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from minikafka.client.admin.admin_requests import ask_about, item_error
from minikafka.client.admin.item_errors import ask_each, ask_one
from minikafka.client.admin.security_types import Acl, AclFilter, DelegationToken, word_of
from minikafka.client.argument_kinds import Int32, shown
from minikafka.client.connections.base_client import ClusterClient
from minikafka.protocol.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType
from minikafka.protocol.counted import counted
from minikafka.protocol.errors import KafkaError, NetworkError
from minikafka.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from minikafka.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from minikafka.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from minikafka.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from minikafka.protocol.messages.describe_acls import DescribeAclsRequest
from minikafka.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from minikafka.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from minikafka.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from minikafka.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from minikafka.protocol.sasl.scram import ScramMechanism, salted_password

T = TypeVar("T")
_SALT_SIZE_BYTES = 32


async def describe_acls(admin: ClusterClient, selected: AclFilter | None = None) -> list[Acl]:
    """The ACLs that a filter selects, by default all, sorted.

    Raises SecurityDisabledError from a cluster without an authorizer, ValueError for an unknown word …
    """
    chosen = selected or AclFilter()
    response = await ask_about(admin.cluster, DescribeAclsRequest(**_filter_fields(chosen)), "describing ACLs")
    found = [
        _acl(resource.resource_type, resource.resource_name, resource.pattern_type, one)
        for resource in response.resources
        for one in resource.acls
    ]
    return sorted(found, key=lambda one: (one.resource_type, one.name, one.pattern, one.principal, one.operation))


async def create_acls(admin: ClusterClient, acls: Iterable[Acl]) -> dict[Acl, KafkaError | None]:
    """Create ACLs; those that exist already are kept. Returns for each its error, or None.

    Raises ValueError for an unknown word.
    """

    async def ask(some: list[Acl]) -> dict[Acl, KafkaError | None]:
        response = await admin.cluster.request(CreateAclsRequest(creations=[_creation(one) for one in some]))
        return {one: item_error(result, _named(one)) for one, result in _paired(some, response.results)}

    wanted = list(acls)
    for one in wanted:
        one.codes()
    return await ask_each(admin.cluster, wanted, ask, "creating ACLs") if wanted else {}


async def delete_acls(
    admin: ClusterClient, selected: Iterable[AclFilter]
) -> dict[AclFilter, list[Acl] | KafkaError]:
    """Delete the ACLs that filters select. Returns for each filter the deleted ACLs, or its error.

    Raises ValueError for an unknown word.
    """

    async def ask(some: list[AclFilter]) -> dict[AclFilter, list[Acl] | KafkaError]:
        request = DeleteAclsRequest(filters=[DeleteAclsFilter(**_filter_fields(one)) for one in some])
        response = await admin.cluster.request(request)
        return {one: _deleted(result) for one, result in _paired(some, response.filter_results)}

    wanted = list(selected)
    for one in wanted:
        one.codes()
    return await ask_each(admin.cluster, wanted, ask, "deleting ACLs") if wanted else {}


def _paired(asked: Sequence[T], results: Sequence[Any]) -> Iterable[tuple[T, Any]]:
    """Each item of a request with its result. Raises NetworkError if the response has another number of results."""
    if len(asked) != len(results):
        raise NetworkError(f"{counted(len(results), 'result')} for {counted(len(asked), 'item')} of a request")
    return zip(asked, results, strict=True)


def _deleted(result: Any) -> list[Acl] | KafkaError:
    error = item_error(result, "deleting ACLs")
    errors = [item_error(one, "deleting an ACL") for one in result.matching_acls]
    if error is None:
        error = next(filter(None, errors), None)
    return error or [_acl(one.resource_type, one.resource_name, one.pattern_type, one) for one in result.matching_acls]


def _acl(resource_type: int, name: str, pattern: int, rule: Any) -> Acl:
    return Acl(
        word_of(AclResourceType, resource_type),
        name,
        rule.principal,
        word_of(AclOperation, rule.operation),
        word_of(AclPermission, rule.permission_type),
        rule.host,
        word_of(PatternType, pattern),
    )


def _creation(acl: Acl) -> AclCreation:
    resource_type, pattern, operation, permission = acl.codes()
    return AclCreation(
        resource_type=resource_type,
        resource_name=acl.name,
        resource_pattern_type=pattern,
        principal=acl.principal,
        host=acl.host,
        operation=operation,
        permission_type=permission,
    )


def _filter_fields(selected: AclFilter) -> dict[str, Any]:
    """The fields that a filter has in DescribeAcls and in DeleteAcls."""
    resource_type, pattern, operation, permission = selected.codes()
    return {
        "resource_type_filter": resource_type,
        "resource_name_filter": selected.name,
        "pattern_type_filter": pattern,
        "principal_filter": selected.principal,
        "host_filter": selected.host,
        "operation": operation,
        "permission_type": permission,
    }


def _named(acl: Acl) -> str:
    return f"creating the ACL of {shown(acl.principal)} on {acl.resource_type} {shown(acl.name)}"


# -- users -------------------------------------------------------------------------------------------------------


async def describe_user_scram_credentials(
    admin: ClusterClient, users: Iterable[str] | None = None
) -> dict[str, dict[str, int] | KafkaError]:
    """The iterations of each SCRAM mechanism of users (None: all users), by user; an unknown user has its error.

    Raises ClusterAuthorizationFailedError …
    """
    names = None if users is None else [UserName(name=name) for name in dict.fromkeys(users)]
    if names == []:
        return {}
    request = DescribeUserScramCredentialsRequest(users=names)
    response = await ask_about(admin.cluster, request, "describing SCRAM credentials")
    return {
        one.user: item_error(one, f"user {shown(one.user)}")
        or {_mechanism_name(info.mechanism): info.iterations for info in one.credential_infos}
        for one in sorted(response.results, key=lambda one: one.user)
    }


def _mechanism_name(code: int) -> str:
    return next((member.mechanism for member in ScramMechanism if member.value == code), "unknown")


async def upsert_user_scram_credential(
    admin: ClusterClient,
    user: str,
    password: str,
    *,
    mechanism: str = "SCRAM-SHA-512",
    iterations: Int32 = 4096,
) -> None:
    """Set a user's password for a SCRAM mechanism: "SCRAM-SHA-256" or "SCRAM-SHA-512".

    The password does not leave this process: brokers get what is derived from it, with a new random salt.

    Args:
        iterations: the rounds of the derivation, 4,096 to 16,384.

    Raises UnacceptableCredentialError, and ValueError for an unknown mechanism or too many iterations.
    """
    kind = _mechanism(mechanism)
    if not 1 <= iterations <= _ITERATIONS_MAX:
        raise ValueError(f"iterations={iterations}: must be 4096 to {_ITERATIONS_MAX}")
    salt = secrets.token_bytes(_SALT_SIZE_BYTES)
    salted = salted_password(kind, password, salt, iterations) if password else b""
    upsertion = ScramCredentialUpsertion(
        name=user, mechanism=kind.value, iterations=iterations, salt=salt, salted_password=salted
    )
    request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
    await _alter_user(admin, request, "setting a SCRAM credential", user)


async def delete_user_scram_credential(
    admin: ClusterClient, user: str, *, mechanism: str = "SCRAM-SHA-512"
) -> None:
    """Remove a user's password for a SCRAM mechanism.

    Raises ResourceNotFoundError if there is none, and ValueError for an unknown mechanism.
    """
    deletion = ScramCredentialDeletion(name=user, mechanism=_mechanism(mechanism).value)
    request = AlterUserScramCredentialsRequest(deletions=[deletion])
    await _alter_user(admin, request, "removing a SCRAM credential", user)


async def _alter_user(
    admin: ClusterClient, request: AlterUserScramCredentialsRequest, what: str, user: str
) -> None:
    async def ask() -> KafkaError | None:
        response = await admin.cluster.request(request)
        result = next((one for one in response.results if one.user == user), None)
        if result is None:
            raise NetworkError(f"the response lacks user {shown(user)}")
        return item_error(result, f"user {shown(user)}")

    await ask_one(admin.cluster, ask, what)


_ITERATIONS_MAX = 16_384


def _mechanism(name: str) -> ScramMechanism:
    found = ScramMechanism.of_mechanism(name)
    if found is None:
        allowed = ", ".join(repr(member.mechanism) for member in ScramMechanism)
        raise ValueError(f"unknown SCRAM mechanism {shown(name)}: must be one of {allowed}")
    return found


# -- delegation tokens -------------------------------------------------------------------------------------------


async def create_delegation_token(
    admin: ClusterClient, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = -1
) -> DelegationToken:
    """Create a delegation token of the user that this client is logged in as, or of `owner`.

    Args:
        owner, renewers: principals, as "User:alice".
        max_lifetime_ms: how long the token can be renewed; -1 for the brokers' `delegation.token.max.lifetime.ms`.

    Raises DelegationTokenRequestNotAllowedError, DelegationTokenAuthDisabledError …, and ValueError for a principal
    without a type.
    """
    kind, name = ("", "") if owner is None else principal_parts(owner)
    who = [principal_parts(one) for one in renewers]
    request = CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[CreatableRenewers(principal_type=first, principal_name=second) for first, second in who],
        max_lifetime_ms=max_lifetime_ms,
    )
    response = await ask_about(admin.cluster, request, "creating a delegation token")
    times = response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms
    return _token(response, tuple(":".join(one) for one in who), times)


async def describe_delegation_tokens(
    admin: ClusterClient, owners: Iterable[str] | None = None
) -> list[DelegationToken]:
    """The delegation tokens of owners, as "User:alice" (None: of everybody) that this client may see.

    Raises DelegationTokenAuthDisabledError …, and ValueError for a principal without a type.
    """
    asked: list[DescribeDelegationTokenOwner] | None = None
    if owners is not None:
        parts = [principal_parts(one) for one in owners]
        asked = [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in parts]
        if not asked:
            return []
    request = DescribeDelegationTokenRequest(owners=asked)
    response = await ask_about(admin.cluster, request, "describing delegation tokens")
    found = []
    for one in response.tokens:
        renewers = tuple(f"{some.principal_type}:{some.principal_name}" for some in one.renewers)
        found.append(_token(one, renewers, (one.issue_timestamp, one.expiry_timestamp, one.max_timestamp)))
    return sorted(found, key=lambda one: (one.owner, one.issued_ms, one.token_id))


async def renew_delegation_token(admin: ClusterClient, hmac: bytes, *, period_ms: int = -1) -> int:
    """Renew a token for `period_ms` (-1: the brokers' `delegation.token.expiry.time.ms`); returns when it ends.

    The result is in milliseconds since 1970. Raises DelegationTokenNotFoundError …
    """
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    response = await ask_about(admin.cluster, request, "renewing a delegation token")
    return int(response.expiry_timestamp_ms)


async def expire_delegation_token(admin: ClusterClient, hmac: bytes, *, period_ms: int = -1) -> int:
    """End a token in `period_ms`, or now if that is negative; returns when it ends.

    The result is in milliseconds since 1970. Raises DelegationTokenNotFoundError …
    """
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    response = await ask_about(admin.cluster, request, "ending a delegation token")
    return int(response.expiry_timestamp_ms)


def _token(answer: Any, renewers: tuple[str, ...], times: tuple[int, int, int]) -> DelegationToken:
    return DelegationToken(
        answer.token_id,
        bytes(answer.hmac),
        f"{answer.principal_type}:{answer.principal_name}",
        f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}",
        renewers,
        *times,
    )


def principal_parts(principal: str) -> tuple[str, str]:
    """The type and the name of a principal such as "User:alice". Raises ValueError for a text without a type."""
    kind, colon, name = principal.partition(":")
    if not kind or not colon:
        raise ValueError(f"{shown(principal)} is no principal: must have a type and a name, as 'User:alice'")
    return kind, name
