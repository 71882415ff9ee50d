"""Encodes requests forwarded to the active controller, and their responses, as the bodies of peer frames.

Request and response travel in Kafka's own encoding, in a field of the body. "client" is the principal, the host and
the client id of the client that sent the request to the forwarding node; a request of the node itself has none. The
body of a response also has the offset up to which a node must apply the metadata log to see the decision::

    {"api": 19, "version": 7, "data": b"…", "client": ["User", "alice", "10.0.0.1", "app"]}
    {"data": b"…", "offset": 123}      {"error": 41, "message": "…"}      {"ended": True, "certain": False}
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from minikafka.controller.active.leadership_term import Outcome, TermEnded
from minikafka.controller.failures import FAILURES
from minikafka.controller.security.access import UNRESTRICTED, Access, Authorizer, Principal
from minikafka.protocol.apis import APIS, api_of
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, UnknownServerError, error_for
from minikafka.protocol.message import MalformedMessage, ManyElements, decode, encode
from minikafka.protocol.messages.add_raft_voter import AddRaftVoterRequest
from minikafka.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.protocol.messages.delete_acls import DeleteAclsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from minikafka.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest
from minikafka.storage.steps import Runs

__all__ = [
    "ForwardedRequests",
    "access_from",
    "error_body",
    "is_idempotent",
    "request_body",
    "request_from",
    "response_body",
    "response_from",
]

log = structlog.get_logger("minikafka.controller")

ELEMENTS_MAX = 1_000_000
"""The most elements in the arrays of a forwarded request: with one AlterPartition a broker changes the in-sync replicas
of all partitions that it leads. Requests of clients have 10,000 at most."""
SIZE_BYTES_AT_ONCE = 16 << 10
"""The size up to which a request is decoded at once: it has some 4,000 elements at most, which take 5 ms."""
_NOT_IDEMPOTENT = (
    AddRaftVoterRequest,
    CreateDelegationTokenRequest,
    CreateTopicsRequest,
    CreatePartitionsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    ExpireDelegationTokenRequest,
    RemoveRaftVoterRequest,
    UnregisterBrokerRequest,
)


def is_idempotent(request: Any) -> bool:
    """Whether sending the request twice has the same effect and the same response as sending it once."""
    return not isinstance(request, _NOT_IDEMPOTENT)


def request_body(request: Any, version: int, access: Access) -> dict[str, Any]:
    """The body of a forwarded request; of `access` only the client is sent."""
    body = {"api": api_of(type(request)).key, "version": version, "data": encode(request, version)}
    if access != UNRESTRICTED:
        body["client"] = [access.principal.kind, access.principal.name, access.host, access.client_id]
    return body


def access_from(body: Mapping[str, Any], authorizer: Authorizer | None) -> Access:
    """What the client of a forwarded request may do. Raises MalformedMessage."""
    match body:
        case {"client": [str() as kind, str() as name, str() as host, str() as client_id]}:
            return Access(authorizer, Principal(kind, name), host, client_id)
        case {"client": _}:
            raise MalformedMessage("malformed client of a forwarded request")
    return UNRESTRICTED


def request_from(body: Mapping[str, Any]) -> tuple[Any, int]:
    """Decode the body of a forwarded request into the request and its version. Raises MalformedMessage."""
    match body:
        case {"api": int() as key, "version": int() as version, "data": bytes() as data} if key in APIS:
            if not APIS[key].versions.first <= version <= APIS[key].versions.last:
                raise MalformedMessage(f"API {key} has no version {version}")
            try:
                return decode(APIS[key].request, version, data, elements_max=ELEMENTS_MAX), version
            except ManyElements:
                raise MalformedMessage(f"more than {ELEMENTS_MAX} elements") from None
        case _:
            raise MalformedMessage("malformed forwarded request")


CarryOut = Callable[[Any, int, Access], Awaitable[Outcome[Any]]]


class ForwardedRequests:
    """Answers the requests that other nodes forward to the controller of this node.

    Args:
        carry_out: decides about a request, given its version and what its client may do.
        disk: decodes large requests in a worker thread.
        authorizer: decides what clients may do; None allows everything.

    Attributes:
        unanswered: the number of requests that are not answered yet.
    """

    def __init__(self, carry_out: CarryOut, disk: Runs, authorizer: Authorizer | None) -> None:
        self.unanswered = 0
        self._authorizer = authorizer
        self._carry_out = carry_out
        self._disk = disk

    async def answer(self, body: Mapping[str, Any], reply: Callable[[Mapping[str, Any]], None]) -> None:
        """Carry out a forwarded request, and pass the body of the response to `reply`. Every exception becomes the body
        of an error.

        Args:
            body: the body of the forwarded request, as it arrived.
            reply: sends the response.
        """
        self.unanswered += 1
        try:
            reply(await self._response(body))
        finally:
            self.unanswered -= 1

    async def _response(self, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            request, version = await self._decoded(body)
            outcome = await self._carry_out(request, version, access_from(body, self._authorizer))
            return response_body(outcome.reply, version, outcome.end_offset)
        except (KafkaError, MalformedMessage) as error:
            return error_body(error)
        except Exception:
            api = APIS[body["api"]].name if body.get("api") in APIS else ""
            log.exception("forwarded request failed", api=api, version=body.get("version"))
            FAILURES[api or "peer"] += 1
            return error_body(UnknownServerError())

    async def _decoded(self, body: Mapping[str, Any]) -> tuple[Any, int]:
        data = body.get("data")
        if isinstance(data, bytes) and len(data) > SIZE_BYTES_AT_ONCE:
            return await self._disk.run(request_from, body)
        return request_from(body)


def response_body(response: Any, version: int, offset: int) -> dict[str, Any]:
    """The body of the response to a request that was decided."""
    return {"data": encode(response, version), "offset": offset}


def error_body(error: Exception) -> dict[str, Any]:
    """The body of the response to a request that failed or whose outcome is unknown."""
    if isinstance(error, TermEnded):
        return {"ended": True, "certain": error.certain}
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    return {"error": int(code), "message": str(error)}


def response_from(request: Any, version: int, body: Mapping[str, Any]) -> tuple[Any, int]:
    """Decode the body of a response into the response and the offset of its decision.

    Raises:
        TermEnded: the receiver of the request is no longer the active controller.
        KafkaError: the active controller raised this error, or sent a malformed body (UnknownServerError).
    """
    match body:
        case {"data": bytes() as data, "offset": int() as offset}:
            return decode(api_of(type(request)).response, version, data), offset
        case {"ended": True, "certain": bool() as certain}:
            raise TermEnded(certain=certain)
        case {"error": int() as code, "message": str() as message} if code:
            raise error_for(code, message)
        case _:
            raise UnknownServerError("the active controller sent a malformed response")
