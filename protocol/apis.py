"""`APIS`: every API in `messages.PAIRS`, by key, with its name, its request and response, and their versions.

Which APIs and versions a node advertises is defined in `broker/apis/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minikafka.protocol import messages
from minikafka.protocol.codec.schema import Versions, declaration_of

FETCH_KEY = 1
API_VERSIONS_KEY = 18
TELEMETRY_KEYS = (71, 72)


@dataclass(frozen=True, slots=True)
class Api:
    """A Kafka API.

    Attributes:
        key: the API key in request headers.
        name: Kafka's name, such as ``OffsetForLeaderEpoch``.
        request: the request class.
        response: the response class.
        versions: the versions of both messages.
        flexible: the versions whose headers end in tagged fields.
    """

    key: int
    name: str
    request: Any
    response: Any
    versions: Versions
    flexible: Versions


def api_of(message_class: Any) -> Api:
    """The API of a request or response class.

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
"""All APIs by key, sorted by key."""
