"""`NodeGuest`: the login of another node at this controller, by the mechanisms with which tools log in there.

Trio: the type of streams.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

import structlog
import trio

from minikafka.broker.connections.long_polls import Parked, Receiver
from minikafka.broker.connections.request_context import ConnectionInfo, Disconnect, LastAnswer
from minikafka.broker.security.authentication import Authentication, ListenerAuthentication, Requests
from minikafka.controller.failures import FAILURES
from minikafka.controller.quorum.peer_network import peer_host
from minikafka.controller.security.access import Principal
from minikafka.protocol.message import MalformedMessage
from minikafka.storage.waits import Rest

__all__ = ["NodeGuest", "NodeGuests", "OnlyLogins"]

log = structlog.get_logger("minikafka.authentication")

_SIZE_BYTES = 4


class OnlyLogins:
    """Refuses the requests of Kafka's protocol that a node sends and that are none of a login (a `Requests`)."""

    def answer_now(self, frame: bytearray, connection: ConnectionInfo, receiver: Receiver | None) -> NoReturn:
        raise Disconnect("a node may send requests of a login only")

    async def answer(self, frame: bytearray, connection: ConnectionInfo) -> NoReturn:
        raise Disconnect("a node may send requests of a login only")


@dataclass(frozen=True, slots=True)
class NodeGuests:
    """Begins the login at the other end of an accepted connection.

    Attributes:
        listener: What the logins at the listener share; its `requests` are `OnlyLogins`.
        name: Of the listener, for the log.
    """

    listener: ListenerAuthentication
    name: str

    def __call__(self, stream: trio.abc.Stream) -> NodeGuest:
        return NodeGuest(self.listener, self.name, peer_host(stream))

    def guards(self, requests: Requests) -> dict[str, ListenerAuthentication]:
        """The same logins for tools, by the name of the listener: `requests` answers them once they have logged in."""
        return {self.name: replace(self.listener, requests=requests)}


class NodeGuest:
    """The login at the other end of an accepted connection (a `Guest`).

    Args:
        listener: What the logins at the listener share; its `requests` are `OnlyLogins`.
        name: Of the listener, for the log.
        host: The address of the other end.
    """

    def __init__(self, listener: ListenerAuthentication, name: str, host: str) -> None:
        self._authentication = Authentication(listener)
        self._connection = ConnectionInfo(name, host)

    @property
    def principal(self) -> Principal | None:
        return self._authentication.principal

    @property
    def is_over(self) -> bool:
        return self._authentication.is_over

    async def answer(self, request: bytes) -> tuple[bytes, bool]:
        """The response to a request of the login, empty if there is none, and whether the login goes on."""
        try:
            begun = self._authentication.answer_now(bytearray(request), self._connection, None)
            assert not isinstance(begun, Parked), "no receiver was given"
            parts, _ = await begun if isinstance(begun, Rest) else begun
        except LastAnswer as last:
            return b"".join(last.parts)[_SIZE_BYTES:], False
        except (Disconnect, MalformedMessage):
            return b"", False
        except Exception:
            log.exception("login of a node failed", client=self._connection.client_host)
            FAILURES["connection"] += 1
            return b"", False
        return b"".join(parts)[_SIZE_BYTES:], True
