"""CreateAcls, DeleteAcls and DescribeAcls: the rules of access (KIP-140, KIP-290).

Kafka accepts what makes no sense, such as READ on the cluster or a host name: it grants nothing.
Source: `AclApis`, `AclControlManager`, `ResourcePatternFilter`, `AccessControlEntryFilter`.
"""

from collections.abc import Generator

from minikafka.controller.decisions.decision import Context, Decision, check_size
from minikafka.controller.metadata.acl import Acl
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import AclRecord, RemoveAcl
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP, mapping
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclPermission, AclResourceType, PatternType
from minikafka.protocol.errors import (
    InvalidRequestError,
    KafkaError,
    UnknownServerError,
    without_frames,
)
from minikafka.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from minikafka.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from minikafka.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from minikafka.storage.steps import Pauses, without_pauses

__all__ = ["create", "creating", "delete", "deleting", "describing"]

ONLY_IN_FILTERS = (PatternType.ANY, PatternType.MATCH)
EVERY_RESOURCE = "*"


def creating(
    image: Image, request: CreateAclsRequest, context: Context
) -> Generator[None, None, Decision[CreateAclsResponse]]:
    """Decide in steps, with a result for each ACL. One that exists already is no error.

    Raises:
        UnknownServerError: a code is that of ANY or MATCH, which only occur in filters.
    """
    for one in request.creations:
        _check_codes(one)
    new: dict[Acl, None] = {}
    results: list[AclCreationResult] = []
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for one in request.creations:
        if pauses.is_due():
            yield
        try:
            acl = _acl(one)
            if acl not in image.acls and acl not in new:
                check_size(new, (acl,))
                new[acl] = None
            results.append(AclCreationResult(error_message=""))
        except KafkaError as error:
            results.append(AclCreationResult(error_code=error.code, error_message=error.detail))
    return Decision([AclRecord(acl) for acl in new], CreateAclsResponse(results=results))


create = without_pauses(creating)


def _check_codes(one: AclCreation) -> None:
    """Kafka has no answer to these codes but an exception inside."""
    if (
        one.resource_type == AclResourceType.ANY
        or one.resource_pattern_type in ONLY_IN_FILTERS
        or one.operation == AclOperation.ANY
        or one.permission_type == AclPermission.ANY
    ):
        raise UnknownServerError("An ACL cannot have ANY or MATCH, which are for filters.")


def _acl(one: AclCreation) -> Acl:
    """The ACL to create.

    Raises:
        InvalidRequestError: a code is unknown, the resource has no name, the cluster another one than its own, or the
            principal no type.
    """
    if one.resource_type == AclResourceType.CLUSTER and one.resource_name != CLUSTER_NAME:
        raise InvalidRequestError(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not one.resource_name:
        raise InvalidRequestError("Invalid empty resource name")
    if one.resource_type not in set(AclResourceType):
        raise InvalidRequestError("Invalid resourceType UNKNOWN")
    if one.resource_pattern_type not in set(PatternType):
        raise InvalidRequestError("Invalid patternType UNKNOWN")
    if one.operation not in set(AclOperation):
        raise InvalidRequestError("Invalid operation UNKNOWN")
    if one.permission_type not in set(AclPermission):
        raise InvalidRequestError("Invalid permissionType UNKNOWN")
    if ":" not in one.principal:
        raise InvalidRequestError(f"Could not parse principal from `{one.principal}` (no colon is present)")
    return Acl(
        one.resource_type,
        one.resource_name,
        one.resource_pattern_type,
        one.principal,
        one.host,
        one.operation,
        one.permission_type,
    )


def deleting(
    image: Image, request: DeleteAclsRequest, context: Context
) -> Generator[None, None, Decision[DeleteAclsResponse]]:
    """Decide in steps, with the ACLs that each filter deletes. One that several match is in all their results."""
    gone: dict[Acl, None] = {}
    results: list[DeleteAclsFilterResult] = []
    for one in request.filters:
        try:
            _check_filter(one)
            found = yield from _matching(image, one)
            check_size(gone, [acl for acl in found if acl not in gone])
            gone |= dict.fromkeys(found)
            matching = yield from mapping(_deleted, found)
            results.append(DeleteAclsFilterResult(error_message=None, matching_acls=matching))
        except KafkaError as error:
            kept = without_frames(error)
            results.append(DeleteAclsFilterResult(error_code=kept.code, error_message=kept.detail))
    return Decision([RemoveAcl(acl) for acl in gone], DeleteAclsResponse(filter_results=results))


delete = without_pauses(deleting)


def _check_filter(one: DeleteAclsFilter) -> None:
    """Raise InvalidRequestError if a code of the filter is unknown."""
    if one.resource_type_filter not in set(AclResourceType) or one.pattern_type_filter not in set(PatternType):
        raise InvalidRequestError("Unknown patternFilter.")
    if one.operation not in set(AclOperation) or one.permission_type not in set(AclPermission):
        raise InvalidRequestError("Unknown entryFilter.")


def _deleted(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def describing(
    image: Image, request: DescribeAclsRequest, version: int
) -> Generator[None, None, DescribeAclsResponse]:
    """The ACLs that a filter matches, by resource, in steps, between which the ACLs may change. An unknown code in the
    filter matches nothing."""
    found = yield from _matching(image, request)
    resources: dict[tuple[int, str, int], list[AclDescription]] = {}
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for acl in found:
        if pauses.is_due():
            yield
        described = AclDescription(
            principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
        )
        resources.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(described)
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls)
            for (kind, name, pattern), acls in resources.items()
        ],
    )


def _matching(image: Image, one: DescribeAclsRequest | DeleteAclsFilter) -> Generator[None, None, list[Acl]]:
    found: list[Acl] = []
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for acl in list(image.acls):
        if pauses.is_due():
            yield
        if _matches_resource(one, acl) and _matches_entry(one, acl):
            found.append(acl)
    return found


def _matches_resource(one: DescribeAclsRequest | DeleteAclsFilter, acl: Acl) -> bool:
    pattern, name = one.pattern_type_filter, one.resource_name_filter
    if one.resource_type_filter not in (AclResourceType.ANY, acl.resource_type):
        return False
    if pattern not in (*ONLY_IN_FILTERS, acl.pattern_type):
        return False
    if name is None or name == acl.resource_name:
        return True
    if pattern != PatternType.MATCH:
        return False
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name == EVERY_RESOURCE


def _matches_entry(one: DescribeAclsRequest | DeleteAclsFilter, acl: Acl) -> bool:
    return (
        one.principal_filter in (None, acl.principal)
        and one.host_filter in (None, acl.host)
        and one.operation in (AclOperation.ANY, acl.operation)
        and one.permission_type in (AclPermission.ANY, acl.permission)
    )
