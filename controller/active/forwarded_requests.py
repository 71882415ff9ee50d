"""Encodes requests forwarded to the active controller, and their responses, as the bodies of peer frames.

Request and response travel in Kafka's own encoding, in a field of the body. The body of a response also has the offset
up to which a node must apply the metadata log to see the decision::

    {"api": 19, "version": 7, "data": b"…"}
    {"data": b"…", "offset": 123}      {"error": 41, "message": "…"}      {"ended": True, "certain": False}
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog

from minikafka.controller.active.leadership_term import Outcome, TermEnded
from minikafka.controller.failures import FAILURES
from minikafka.protocol.apis import APIS, api_of
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, UnknownServerError, error_for
from minikafka.protocol.message import MalformedMessage, decode, encode
from minikafka.protocol.messages.add_raft_voter import AddRaftVoterRequest
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest

__all__ = ["answered", "error_body", "is_idempotent", "request_body", "request_from", "response_body", "response_from"]

log = structlog.get_logger("minikafka.controller")

_NOT_IDEMPOTENT = (
    AddRaftVoterRequest,
    CreateTopicsRequest,
    CreatePartitionsRequest,
    DeleteTopicsRequest,
    RemoveRaftVoterRequest,
    UnregisterBrokerRequest,
)


def is_idempotent(request: Any) -> bool:
    """Whether sending the request twice has the same effect and the same response as sending it once."""
    return not isinstance(request, _NOT_IDEMPOTENT)


def request_body(request: Any, version: int) -> dict[str, Any]:
    """The body of a forwarded request."""
    return {"api": api_of(type(request)).key, "version": version, "data": encode(request, version)}


def request_from(body: Mapping[str, Any]) -> tuple[Any, int]:
    """Decode the body of a forwarded request into the request and its version. Raises MalformedMessage."""
    match body:
        case {"api": int() as key, "version": int() as version, "data": bytes() as data} if key in APIS:
            if not APIS[key].versions.first <= version <= APIS[key].versions.last:
                raise MalformedMessage(f"API {key} has no version {version}")
            return decode(APIS[key].request, version, data), version
        case _:
            raise MalformedMessage("malformed forwarded request")


async def answered(body: Mapping[str, Any], carry_out: Callable[[Any, int], Awaitable[Outcome[Any]]]) -> dict[str, Any]:
    """Carry out a forwarded request and return the body of the response. Every exception becomes the body of an error.

    Args:
        body: the body of the forwarded request, as it arrived.
        carry_out: decides about a request, given its version.
    """
    try:
        request, version = request_from(body)
        outcome = await carry_out(request, version)
        return response_body(outcome.reply, version, outcome.end_offset)
    except (KafkaError, MalformedMessage) as error:
        return error_body(error)
    except Exception:
        api = APIS[body["api"]].name if body.get("api") in APIS else ""
        log.exception("forwarded request failed", api=api, version=body.get("version"))
        FAILURES[api or "peer"] += 1
        return error_body(UnknownServerError())


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
