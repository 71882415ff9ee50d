"""`Access`: what the client of a request may do. Handlers of brokers and decisions of the controller ask it.

A request that a broker forwards carries the principal and the host of its client, never those of the broker.
Source: `AuthHelper`, `Authorizer` (KIP-504), `KafkaPrincipal`.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType

__all__ = ["ANONYMOUS", "NAME_BYTES_MAX", "UNRESTRICTED", "Access", "Authorizer", "Principal", "name_is_too_long"]


@dataclass(slots=True, frozen=True)
class Principal:
    """An authenticated client, as Kafka's `KafkaPrincipal`: `User:alice`.

    Attributes:
        kind: The principal's type; Kafka's own builders only make `User`.
        name: The name within the type.
        by_token: Whether it logged in by a delegation token, by which it may not get further tokens (KIP-48).
        text: Type and name, as ACLs name it; made once, since each decision looks for it.
    """

    kind: str
    name: str
    by_token: bool = field(default=False, compare=False)
    text: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"{self.kind}:{self.name}")

    def __str__(self) -> str:
        return self.text


NAME_BYTES_MAX = 8192
"""The longest name of a client in UTF-8: responses repeat it, and texts in Kafka's protocol end at 32,767."""


def name_is_too_long(name: str) -> bool:
    """Whether a client of this name may not log in: for names that come from outside, of certificates and tokens."""
    return len(name) > NAME_BYTES_MAX or len(name.encode(errors="surrogatepass")) > NAME_BYTES_MAX


ANONYMOUS = Principal("User", "ANONYMOUS")
"""The principal of every client of a PLAINTEXT listener, as in Kafka."""


class Authorizer(Protocol):
    """Decides what principals may do. Must not wait, and must not raise."""

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        log_denied: bool,
    ) -> bool:
        """Return whether a client may do something with a resource.

        Args:
            host: The client's IP address.
            log_denied: Whether a denial is logged as one; False if the answer only filters what the client sees.
        """
        ...

    def allows_any(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        """Return whether a client may do something with at least one resource of a type."""
        ...


@dataclass(slots=True, unsafe_hash=True)
class Access:
    """What the client of a request may do. Nobody changes it; made for each request, it takes three times as long if
    frozen.

    Attributes:
        authorizer: Decides; None, without `authorizer.class.name`, allows everything.
        principal: The client as authenticated.
        host: The client's IP address.
        client_id: The client id of the request, for the client's quotas.
    """

    authorizer: Authorizer | None = None
    principal: Principal = ANONYMOUS
    host: str = ""
    client_id: str = ""

    @property
    def is_open(self) -> bool:
        """Whether everything is allowed, since there is no authorizer."""
        return self.authorizer is None

    @property
    def acts_as_node(self) -> bool:
        """Whether the client may send what nodes send to each other (CLUSTER_ACTION). A denial is not logged."""
        return self.allows(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME, log_denied=False)

    def allows(
        self, operation: AclOperation, resource_type: AclResourceType, name: str, *, log_denied: bool = True
    ) -> bool:
        """Return whether the client may do `operation` with the resource; see `Authorizer.allows`."""
        if self.authorizer is None:
            return True
        return self.authorizer.allows(
            self.principal, self.host, operation, resource_type, name, log_denied=log_denied
        )

    def allows_any(self, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Return whether the client may do `operation` with at least one resource of the type."""
        if self.authorizer is None:
            return True
        return self.authorizer.allows_any(self.principal, self.host, operation, resource_type)

    def operations(self, possible: Collection[AclOperation], resource_type: AclResourceType, name: str) -> int:
        """Return the bits of those of `possible` that the client may do with the resource (KIP-430).

        Bit n stands for the operation with code n. No operation occurs twice in `possible`.
        """
        allowed = (one for one in possible if self.allows(one, resource_type, name, log_denied=False))
        return sum(1 << operation for operation in allowed)


UNRESTRICTED = Access()
"""The access of every client without an authorizer, and of the node itself."""
