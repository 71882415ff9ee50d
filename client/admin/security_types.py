"""The dataclasses of the admin methods for security: ACLs, SCRAM credentials, delegation tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeVar

from minikafka.client.argument_kinds import TEXT, Refused, shown
from minikafka.protocol.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType

E = TypeVar("E", bound=IntEnum)


@dataclass(frozen=True, slots=True)
class Acl:
    """A rule: who may, or may not, do what with which resources (KIP-11, KIP-290).

    Words are Kafka's, in lower case with underscores: `Acl("topic", "flights", "User:alice", "read")`.

    Attributes:
        resource_type: "topic", "group", "cluster", "transactional_id", "delegation_token" or "user".
        name: the name of the resource, the beginning of names if `pattern` is "prefixed", or "*" for all resources.
            The cluster's name is "kafka-cluster".
        principal: "User:alice", or "User:*" for everybody.
        operation: "read", "write", "create", "delete", "alter", "describe", "cluster_action", "describe_configs",
            "alter_configs", "idempotent_write", "create_tokens", "describe_tokens", "two_phase_commit" or "all".
        permission: "allow" or "deny".
        host: the IP address from which the client comes, or "*" for every address.
        pattern: "literal" or "prefixed".
    """

    resource_type: str
    name: str
    principal: str
    operation: str
    permission: str = "allow"
    host: str = "*"
    pattern: str = "literal"

    def codes(self) -> tuple[int, int, int, int]:
        """The codes of resource type, pattern, operation and permission.

        Raises ValueError for a word without code, or something else than a text.
        """
        check_texts(name=self.name, principal=self.principal, host=self.host)
        return (
            code_of(AclResourceType, self.resource_type),
            code_of(PatternType, self.pattern),
            code_of(AclOperation, self.operation),
            code_of(AclPermission, self.permission),
        )


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Selects ACLs: those whose attributes are the given ones. None or "any" selects every value.

    Attributes:
        pattern: "match" selects, with a `name`, every ACL that applies to the resource of that name.
    """

    resource_type: str = "any"
    name: str | None = None
    principal: str | None = None
    operation: str = "any"
    permission: str = "any"
    host: str | None = None
    pattern: str = "any"

    def codes(self) -> tuple[int, int, int, int]:
        """The codes of resource type, pattern, operation and permission.

        Raises ValueError for a word without code, or something else than a text.
        """
        texts = {"name": self.name, "principal": self.principal, "host": self.host}
        check_texts(**{name: text for name, text in texts.items() if text is not None})
        return (
            code_of(AclResourceType, self.resource_type, "any"),
            code_of(PatternType, self.pattern, "any", "match"),
            code_of(AclOperation, self.operation, "any"),
            code_of(AclPermission, self.permission, "any"),
        )


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token by which clients log in as its owner, with SCRAM (KIP-48).

    Attributes:
        token_id: the name that a client of the token gives.
        hmac: the token's secret; a client's password is its Base64 text.
        owner: "User:alice".
        requester: who had it made.
        renewers: who may renew it besides the owner.
        issued_ms, expires_ms, max_ms: when it was made, when it ends unless it is renewed, and when it ends anyway;
            milliseconds since 1970.
    """

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int


def check_texts(**texts: object) -> None:
    """Raise ValueError for something that is no text of the protocol, and name it."""
    for name, text in texts.items():
        try:
            TEXT(text)
        except Refused as error:
            raise ValueError(f"the {name} of an ACL is {shown(text)}: must be {error.allowed}") from None


def word_of(kind: type[IntEnum], code: int) -> str:
    """The word of a code; "unknown" for a code of a newer Kafka."""
    try:
        return kind(code).name.lower()
    except ValueError:
        return "unknown"


def code_of(kind: type[E], word: str, *filters: str) -> E:
    """The code of a word.

    Args:
        filters: those of "any" and "match" that are allowed.

    Raises ValueError for an unknown word, with the allowed ones.
    """
    known = {member.name.lower(): member for member in kind}
    allowed = [name for name in known if name not in ("unknown", "any", "match") or name in filters]
    if not isinstance(word, str) or word not in allowed:
        raise ValueError(f"unknown {_NAMES[kind]} {shown(word)}: must be one of {', '.join(map(repr, allowed))}")
    return known[word]


_NAMES: dict[type[IntEnum], str] = {
    AclResourceType: "resource type",
    PatternType: "pattern",
    AclOperation: "operation",
    AclPermission: "permission",
}
