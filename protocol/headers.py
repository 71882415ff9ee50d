"""Encodes and decodes request and response headers, and the frame size in front of them.

The request header is v2 (with tagged fields) if the API version is flexible, else v1. The response header is v1 or v0
likewise, except for ApiVersions, where it is always v0, because the client does not know the node's versions yet
(KIP-511). The client id has a 16-bit length in every header.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, TypeVar

from minikafka.protocol.apis import API_VERSIONS_KEY, APIS, api_of
from minikafka.protocol.codec.schema import LATEST, Versions
from minikafka.protocol.codec.varint import Buffer, read_uvarint, skip_tagged_fields
from minikafka.protocol.message import UNLIMITED, decode, encode_parts
from minikafka.protocol.message_errors import MalformedMessage

M = TypeVar("M")

TAGS_MAX = 1000
_HEAD = struct.Struct(">hhih")
_SIZE_AND_CORRELATION_ID = struct.Struct(">ii")


def _first_flexible(flexible: Versions) -> int:
    return flexible.first if flexible.last == LATEST else LATEST + 1


_FLEXIBLE_REQUESTS: dict[int, int] = {api.key: _first_flexible(api.flexible) for api in APIS.values()}
"""The first version whose request header has tagged fields, by API key."""

_FLEXIBLE_RESPONSES: dict[Any, int] = {
    api.response: LATEST + 1 if api.key == API_VERSIONS_KEY else _first_flexible(api.flexible) for api in APIS.values()
}
"""The first version whose response header has tagged fields, by response class."""


class UnknownApi(MalformedMessage):
    """A request with an unknown API key."""


@dataclass(slots=True)
class RequestHeader:
    """A request header.

    Attributes:
        api_key: the key of the API.
        api_version: the version of the message; not checked against the versions of the API.
        correlation_id: repeated in the response.
        client_id: the `client.id` of the client, or None; invalid UTF-8 is replaced, as in Java.
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def parse_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Decode the header of a frame (without its size); return the header and the position of the message.

    Raises:
        UnknownApi: the key is not in `APIS`.
        MalformedMessage: the frame is truncated.
    """
    try:
        key, version, correlation_id, client_id_size = _HEAD.unpack_from(frame)
        first_flexible = _FLEXIBLE_REQUESTS.get(key)
        if first_flexible is None:
            raise UnknownApi(f"unknown API key {key}")
        client_id, position = _client_id(frame, client_id_size)
        if version >= first_flexible:
            position = _skip_tags(frame, position)
    except (struct.error, IndexError):
        raise MalformedMessage(f"request header truncated at {len(frame)} bytes") from None
    return RequestHeader(key, version, correlation_id, client_id), position


def encode_request(message: Any, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encode a request frame, with its size.

    Raises:
        UnsupportedField, UnencodableMessage, UnsupportedVersion: see `message.encode`.
    """
    return b"".join(request_parts(message, version, correlation_id, client_id))


def request_parts(message: Any, version: int, correlation_id: int, client_id: str | None) -> list[Any]:
    """Encode a request frame in parts: bytes and, between them, records that are not bytes-like.

    Raises:
        UnsupportedField, UnencodableMessage, UnsupportedVersion: see `message.encode`.
    """
    api = api_of(type(message))
    name = b"" if client_id is None else client_id.encode()
    name_size = -1 if client_id is None else len(name)
    head = _HEAD.pack(api.key, version, correlation_id, name_size) + name
    if version >= _FLEXIBLE_REQUESTS[api.key]:
        head += b"\0"
    body = encode_parts(message, version)
    size_bytes = len(head) + sum(map(len, body))
    return [size_bytes.to_bytes(4, "big"), head, *body]


def response_parts(
    message: Any, version: int, correlation_id: int, elements_max: int = UNLIMITED
) -> list[Any]:
    """Encode a response frame in parts: bytes and, between them, records that are slices of files.

    The first part begins with the total size of all parts.

    Raises:
        UnsupportedField, UnencodableMessage, UnsupportedVersion: see `message.encode`.
        ManyElements: arrays have more than `elements_max` elements.
    """
    parts = encode_parts(message, version, elements_max)
    tags = b"\0" if version >= _FLEXIBLE_RESPONSES[type(message)] else b""
    size_bytes = 4 + len(tags) + sum(map(len, parts))
    parts[0] = _SIZE_AND_CORRELATION_ID.pack(size_bytes, correlation_id) + tags + parts[0]
    return parts


def decode_response(cls: type[M], version: int, frame: Buffer) -> tuple[int, M]:
    """Decode a response frame (without its size) into the correlation id and the message.

    Raises:
        MalformedMessage: the frame is not a valid response.
    """
    if len(frame) < 4:
        raise MalformedMessage(f"response truncated at {len(frame)} bytes: no correlation id")
    position = 4
    if version >= _FLEXIBLE_RESPONSES[cls]:
        try:
            position = _skip_tags(frame, position)
        except IndexError:
            raise MalformedMessage(f"response header truncated at {len(frame)} bytes") from None
    return int.from_bytes(frame[:4], "big", signed=True), decode(cls, version, frame, position)


def _client_id(frame: Buffer, size_bytes: int) -> tuple[str | None, int]:
    position = _HEAD.size
    if size_bytes < 0:
        return None, position
    end = position + size_bytes
    if end > len(frame):
        raise MalformedMessage(f"client id of {size_bytes} bytes, but {len(frame) - position} bytes are left")
    return str(frame[position:end], "utf-8", "replace"), end


def _skip_tags(frame: Buffer, position: int) -> int:
    """The position after the tagged fields at `position`; headers have no known tags."""
    if frame[position] == 0:
        return position + 1
    count, position = read_uvarint(frame, position)
    if count > TAGS_MAX:
        raise MalformedMessage(f"header with {count} tagged fields; at most {TAGS_MAX} are read")
    return skip_tagged_fields(count, frame, position, len(frame))
