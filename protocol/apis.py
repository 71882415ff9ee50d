"""Every API that has a module in `messages`: its key, its name, its two messages and their versions.

Which of them a node offers, and up to which version, is the node's affair.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minikafka.protocol import messages
from minikafka.protocol.codec.schema import Versions, declaration_of

API_VERSIONS_KEY = 18


@dataclass(frozen=True, slots=True)
class Api:
    """One API of Kafka's.

    Attributes:
        key: its number in request headers.
        name: as Kafka writes it, ``OffsetForLeaderEpoch``.
        request: the class of its requests.
        response: the class of its responses.
        versions: those that both messages have.
        flexible: those whose headers end in tagged fields.
    """

    key: int
    name: str
    request: Any
    response: Any
    versions: Versions
    flexible: Versions


def api_of(message_class: Any) -> Api:
    """The API that a request or response class belongs to.

    Raises:
        TypeError: the class is neither.
    """
    key = declaration_of(message_class).key
    if key is None:
        raise TypeError(f"{message_class.__name__} is neither a request nor a response")
    return APIS[key]


def _api(request: Any, response: Any) -> Api:
    declaration = declaration_of(request)
    assert declaration.key is not None
    return Api(
        key=declaration.key,
        name=declaration.name.removesuffix("Request"),
        request=request,
        response=response,
        versions=declaration.versions,
        flexible=declaration.flexible,
    )


APIS: dict[int, Api] = {
    api.key: api for api in sorted((_api(*pair) for pair in messages.PAIRS), key=lambda api: api.key)
}
"""All APIs by key, in the order of their keys."""
