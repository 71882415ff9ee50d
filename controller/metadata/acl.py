"""`Acl`: one rule of access, as the metadata log has it: who may, or may not, do what with which resources.

Source: `StandardAcl`, `AccessControlEntryRecord`.
"""

from typing import NamedTuple

from minikafka.protocol.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType

__all__ = ["Acl"]


class Acl(NamedTuple):
    """A rule of access. Two rules with the same fields are the same rule.

    Attributes:
        resource_type: the code of an `AclResourceType`.
        resource_name: the name, or its beginning if `pattern_type` is PREFIXED; a LITERAL `*` is every resource.
        pattern_type: LITERAL or PREFIXED, the code of a `PatternType`.
        principal: the type and the name, `User:alice`; `User:*` is everybody.
        host: the IP address of the client as text; `*` is every host.
        operation: the code of an `AclOperation`.
        permission: DENY or ALLOW, the code of an `AclPermission`.
    """

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        """In words, for logs: `ALLOW READ on PREFIXED TOPIC team- to User:alice from *`."""
        permission, operation = AclPermission(self.permission).name, AclOperation(self.operation).name
        kind, pattern = AclResourceType(self.resource_type).name, PatternType(self.pattern_type).name
        return f"{permission} {operation} on {pattern} {kind} {self.resource_name} to {self.principal} from {self.host}"
