"""Filters of ACLs: each field of a filter counts, for what is shown and for what is deleted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import pytest
from support.images import applied, context

from minikafka.controller.decisions import acls
from minikafka.controller.metadata.acl import Acl
from minikafka.controller.metadata.records import AclRecord
from minikafka.protocol.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType
from minikafka.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from minikafka.protocol.messages.describe_acls import DescribeAclsRequest
from minikafka.storage.steps import at_once


@dataclass(frozen=True)
class Rule:
    """The fields of an ACL, by the names that they have in a filter."""

    resource_type_filter: int = AclResourceType.TOPIC
    resource_name_filter: str = "t"
    pattern_type_filter: int = PatternType.LITERAL
    principal_filter: str = "User:a"
    host_filter: str = "10.0.0.1"
    operation: int = AclOperation.READ
    permission_type: int = AclPermission.ALLOW

    @property
    def acl(self) -> Acl:
        return Acl(*asdict(self).values())


BASE = Rule()
OTHERS: dict[str, tuple[Rule, Any]] = {
    "resource_type_filter": (Rule(resource_type_filter=AclResourceType.GROUP), AclResourceType.ANY),
    "resource_name_filter": (Rule(resource_name_filter="u"), None),
    "pattern_type_filter": (Rule(pattern_type_filter=PatternType.PREFIXED), PatternType.ANY),
    "principal_filter": (Rule(principal_filter="User:b"), None),
    "host_filter": (Rule(host_filter="*"), None),
    "operation": (Rule(operation=AclOperation.ALL), AclOperation.ANY),
    "permission_type": (Rule(permission_type=AclPermission.DENY), AclPermission.ANY),
}
"""By field, a rule that differs from `BASE` in this field only, and the value of the field that fits all."""
IMAGE = applied([AclRecord(rule.acl) for rule in (BASE, *(other for other, _ in OTHERS.values()))])


def found(**fields: Any) -> list[Acl]:
    """The ACLs that a filter matches: those that DeleteAcls deletes are those that DescribeAcls shows."""
    deleted = acls.delete(IMAGE, DeleteAclsRequest(filters=[DeleteAclsFilter(**fields)]), context())
    described = at_once(acls.describing(IMAGE, DescribeAclsRequest(**fields), 3))
    shown = {
        Acl(
            *(one.resource_type, one.resource_name, one.pattern_type),
            *(rule.principal, rule.host, rule.operation, rule.permission_type),
        )
        for one in described.resources
        for rule in one.acls
    }
    gone = [Acl(*record.acl) for record in deleted.records]
    assert set(gone) == shown
    return gone


def test_a_filter_that_names_everything_matches_one_acl() -> None:
    assert found(**asdict(BASE)) == [BASE.acl]


@pytest.mark.parametrize("field", OTHERS)
def test_a_field_that_is_left_open_matches_both_and_no_other(field: str) -> None:
    other, anything = OTHERS[field]
    assert found(**asdict(BASE) | {field: anything}) == [BASE.acl, other.acl]
    assert found(**asdict(other)) == [other.acl]
