"""What a node hands on to the active controller, and what comes back: bodies of frames. Pure.

The request travels in Kafka's own encoding, the answer likewise, with the offset up to which the metadata log must be
applied by whoever shall see what was decided::

    {"api": 19, "version": 7, "data": b"…"}
    {"data": b"…", "offset": 123}      {"error": 41, "message": "…"}      {"ended": True, "certain": False}
"""

from collections.abc import Mapping
from typing import Any

from minikafka.controller.active.leadership_term import TermEnded
from minikafka.protocol.apis import APIS, api_of
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, UnknownServerError, error_for
from minikafka.protocol.message import MalformedMessage, decode, encode
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest

__all__ = ["answer_body", "error_body", "is_repeatable", "request_body", "request_from", "response_from"]

_ONCE = (CreateTopicsRequest, CreatePartitionsRequest, DeleteTopicsRequest, UnregisterBrokerRequest)


def is_repeatable(request: Any) -> bool:
    """Whether asking twice ends as asking once does, in state and in answer."""
    return not isinstance(request, _ONCE)


def request_body(request: Any, version: int) -> dict[str, Any]:
    """A request as it is handed on."""
    return {"api": api_of(type(request)).key, "version": version, "data": encode(request, version)}


def request_from(body: Mapping[str, Any]) -> tuple[Any, int]:
    """Request and version. Raises MalformedMessage."""
    match body:
        case {"api": int() as key, "version": int() as version, "data": bytes() as data} if key in APIS:
            if not APIS[key].versions.first <= version <= APIS[key].versions.last:
                raise MalformedMessage(f"API {key} has no version {version}")
            return decode(APIS[key].request, version, data), version
        case _:
            raise MalformedMessage("no request that could be handed on")


def answer_body(response: Any, version: int, offset: int) -> dict[str, Any]:
    """What was decided."""
    return {"data": encode(response, version), "offset": offset}


def error_body(error: Exception) -> dict[str, Any]:
    """Why nothing was decided, or why that is not known."""
    if isinstance(error, TermEnded):
        return {"ended": True, "certain": error.certain}
    code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
    return {"error": int(code), "message": str(error)}


def response_from(request: Any, version: int, body: Mapping[str, Any]) -> tuple[Any, int]:
    """Response and offset.

    Raises:
        TermEnded: who was asked is not the active controller any more.
        KafkaError: what it raised.
    """
    match body:
        case {"data": bytes() as data, "offset": int() as offset}:
            return decode(api_of(type(request)).response, version, data), offset
        case {"ended": True, "certain": bool() as certain}:
            raise TermEnded(certain=certain)
        case {"error": int() as code, "message": str() as message} if code:
            raise error_for(code, message)
        case _:
            raise UnknownServerError("the active controller answered what cannot be understood")
