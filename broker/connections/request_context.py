"""`RequestContext`: what a handler receives besides the request: services, version, connection and access."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from minikafka.broker.connections.request_memory import HeldRoom
from minikafka.broker.quotas.request_meter import RequestMeter
from minikafka.controller.security.access import ANONYMOUS, Access, Authorizer, Principal

S = TypeVar("S", covariant=True)


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
        principal: The client as authenticated; only authentication changes it.
        size_bytes_max: The largest request from now on, once the client is authenticated; None: that of the listener.
        follows: Whether a follower, which may act as a node, fetches on the connection; set by its first Fetch or
            OffsetForLeaderEpoch.
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
    principal: Principal = ANONYMOUS
    size_bytes_max: int | None = None
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
        authorizer: Decides what clients may do; None allows everything.
        meter: Counts the request for the client's quotas; None if no quota concerns such requests.
    """

    services: S
    version: int
    client_id: str
    connection: ConnectionInfo
    authorizer: Authorizer | None = None
    meter: RequestMeter | None = None

    @property
    def principal(self) -> Principal:
        """The client as authenticated."""
        return self.connection.principal

    @property
    def access(self) -> Access:
        """What the client may do. Handlers that ask about topics use `AllowedTopics`."""
        connection = self.connection
        return Access(self.authorizer, connection.principal, connection.client_host, self.client_id)


Answer = tuple[list[Any], int]
"""The parts of the response frame, and the throttle time in milliseconds.

The frame begins with its size; a Produce with acks=0 has no parts. The connection is muted for the throttle time after
the response is sent (KIP-219)."""


class Disconnect(Exception):
    """Raised to close the connection without a response to the request.

    Attributes:
        is_logged: Whether the log has the reason already; otherwise the text is logged as the reason.
    """

    def __init__(self, reason: str, *, is_logged: bool = False) -> None:
        super().__init__(reason)
        self.is_logged = is_logged


class LastAnswer(Disconnect):
    """Raised in a task to close the connection after this response.

    Attributes:
        parts: The parts of the response frame.
    """

    def __init__(self, reason: str, parts: list[Any], *, is_logged: bool = False) -> None:
        super().__init__(reason, is_logged=is_logged)
        self.parts = parts
