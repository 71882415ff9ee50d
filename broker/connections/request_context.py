"""`RequestContext`: what a handler receives besides the request: services, version, connection and principal."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from minikafka.broker.connections.request_memory import HeldRoom

S = TypeVar("S", covariant=True)


@dataclass(slots=True, frozen=True)
class Principal:
    """An authenticated client, as Kafka's `KafkaPrincipal`: `User:alice`.

    Attributes:
        kind: The principal's type; Kafka's own builders only make `User`.
        name: The name within the type.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")
"""The principal of every client of a PLAINTEXT listener, as in Kafka."""


@dataclass(slots=True)
class ConnectionInfo:
    """The connection on which a request arrived.

    Attributes:
        listener: The name of the listener, as in `listeners`.
        client_host: The client's address.
        local_host: The address of this node that the client connected to, for advertising.
        local_port: The port of this node that the client connected to.
        client_port: The client's port.
        software_name, software_version: The client's software, from its ApiVersions request; "" before that.
        follows: Whether a follower fetches on the connection; set by its first Fetch or OffsetForLeaderEpoch.
        received: The room in `RequestMemory` of the large request that is received or answered.
        unsent: The room of a large response that is not sent yet, see `LargeMessages.encoded`.
    """

    listener: str
    client_host: str
    local_host: str = ""
    local_port: int = 0
    client_port: int = 0
    software_name: str = ""
    software_version: str = ""
    follows: bool = False
    received: HeldRoom | None = None
    unsent: HeldRoom | None = None

    def release_received(self) -> None:
        """Give up the room of the request, if it has any: its bytes are no longer in memory."""
        received, self.received = self.received, None
        if received is not None:
            received.release()

    def release_unsent(self) -> None:
        """Give up the room of the response, if it has any: it is sent."""
        unsent, self.unsent = self.unsent, None
        if unsent is not None:
            unsent.release()


@dataclass(slots=True)
class RequestContext(Generic[S]):
    """The context of one request.

    Attributes:
        services: The parts of the node that the handler uses; each handler names them (`broker/apis/services.py`).
        version: The API version of the request and of its response.
        client_id: The client id of the request, "" for null.
        connection: The connection on which the request arrived.
        principal: The client as authenticated.
    """

    services: S
    version: int
    client_id: str
    connection: ConnectionInfo
    principal: Principal = ANONYMOUS


Answer = tuple[list[Any], int]
"""The parts of the response frame, and the throttle time in milliseconds.

The frame begins with its size; a Produce with acks=0 has no parts. The connection is muted for the throttle time after
the response is sent (KIP-219)."""


class Disconnect(Exception):
    """Raised to close the connection without a response to the request. The text is logged as the reason."""
