"""The codes of ACLs in the protocol: resource types, pattern types, operations and permissions.

Source: `ResourceType`, `PatternType`, `AclOperation` and `AclPermissionType` of Kafka's clients.
"""

from enum import IntEnum

__all__ = ["CLUSTER_NAME", "AclOperation", "AclPermission", "AclResourceType", "PatternType"]

CLUSTER_NAME = "kafka-cluster"
"""The only resource of type CLUSTER."""


class AclResourceType(IntEnum):
    """The type of the resource that an ACL concerns. ANY only occurs in filters; UNKNOWN stands for unknown codes."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the resource name of an ACL is compared with the name of a resource. ANY and MATCH only occur in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """The operation that an ACL allows or denies. ALL stands for every operation; ANY only occurs in filters."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """Whether an ACL allows or denies. ANY only occurs in filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3
