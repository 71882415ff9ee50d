"""`AclIndex`: the ACLs by resource and by principal, so that a decision looks at few of many thousand.

Source: `AclCache`, `StandardAuthorizerData`.
"""

from collections.abc import Collection, Hashable, Iterator
from typing import TypeVar

from minikafka.controller.metadata.acl import Acl
from minikafka.protocol.acl_codes import PatternType

__all__ = ["ANY_HOST", "EVERYBODY", "WILDCARD", "AclIndex", "Rules"]

WILDCARD = "*"
"""The name of a LITERAL ACL for every resource of its type."""
ANY_HOST = "*"
EVERYBODY = "User:*"

Rules = dict[tuple[str, str], dict[Acl, None]]
"""The ACLs of one name or prefix, by principal and host."""
Key = TypeVar("Key", bound=Hashable)


class AclIndex:
    """ACLs, found by the resource that they are about, and by the principal that they name."""

    def __init__(self) -> None:
        self._literal: dict[int, dict[str, Rules]] = {}
        self._prefixed: dict[int, dict[int, dict[str, Rules]]] = {}
        self._naming: dict[tuple[int, str], dict[Acl, None]] = {}

    def add(self, acl: Acl) -> None:
        """Add an ACL; no effect if it is there already."""
        rules = self._by_name(acl).setdefault(acl.resource_name, {})
        rules.setdefault((acl.principal, acl.host), {})[acl] = None
        self._naming.setdefault((acl.resource_type, acl.principal), {})[acl] = None

    def remove(self, acl: Acl) -> None:
        """Remove an ACL that was added."""
        by_name = self._by_name(acl)
        _drop(by_name[acl.resource_name], (acl.principal, acl.host), acl)
        if not by_name[acl.resource_name]:
            del by_name[acl.resource_name]
        if not by_name and acl.pattern_type == PatternType.PREFIXED:
            del self._prefixed[acl.resource_type][len(acl.resource_name)]
        _drop(self._naming, (acl.resource_type, acl.principal), acl)

    def rules_of(self, resource_type: int, name: str) -> Iterator[Rules]:
        """The ACLs about a resource: those of its name, of its prefixes, and of every resource of its type."""
        literal = self._literal.get(resource_type, {})
        if (rules := literal.get(name)) is not None:
            yield rules
        for length, by_prefix in self._prefixed.get(resource_type, {}).items():
            if (rules := by_prefix.get(name[:length])) is not None:
                yield rules
        if name != WILDCARD and (rules := literal.get(WILDCARD)) is not None:
            yield rules

    def naming(self, resource_type: int, principal: str) -> Collection[Acl]:
        """The ACLs about resources of a type that name exactly this principal."""
        return self._naming.get((resource_type, principal), {}).keys()

    def _by_name(self, acl: Acl) -> dict[str, Rules]:
        """The rules among which the ACL is: the literal ones of its type, or the prefixes of its length."""
        if acl.pattern_type == PatternType.PREFIXED:
            by_length = self._prefixed.setdefault(acl.resource_type, {})
            return by_length.setdefault(len(acl.resource_name), {})
        return self._literal.setdefault(acl.resource_type, {})


def _drop(groups: dict[Key, dict[Acl, None]], key: Key, acl: Acl) -> None:
    """Remove an ACL from its group, and the group with its last ACL."""
    del groups[key][acl]
    if not groups[key]:
        del groups[key]
