"""Requests made from the declarations of the messages: valid for the codec, hostile in size and content.

Each request has the values of a random seed. In most, one array is long: up to a million elements, up to 10 MiB.
Fields that decide how long a request waits, or whether it makes something, are kept small.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator
from random import Random
from typing import Any

from minikafka.protocol.apis import APIS
from minikafka.protocol.codec.schema import Field, declaration_of, default_of, fields_of
from minikafka.protocol.headers import encode_request
from minikafka.protocol.messages.api_versions import ApiVersionsResponse

SIZE_BYTES_MAX = 10 << 20
DISTINCT_MAX = 2_000
"""So many elements of a long array differ; they are repeated."""
LONGEST = 1_000_000
NAMES = ("", "t", "grammar", "missing", "__consumer_offsets", "group-1", "group-2", "x" * 249, "é" * 40, "member")
NUMBERS = (0, 0, 1, 2, 3, 100, -1, -2, 127)
WAITS_MS = 20
FIXED = {
    "max_wait_ms": WAITS_MS,
    "timeout_ms": WAITS_MS,
    "rebalance_timeout_ms": WAITS_MS,
    "validate_only": True,
    "acks": 1,
}
"""Values of fields by name: no request waits for long, creates thousands of topics, or has no answer."""


class Grammar:
    """Makes requests of the APIs that a node advertises.

    Args:
        versions: The node's answer to ApiVersions.
        seed: Decides everything.
        size_bytes_max: Of one request.
        only: The classes of requests to make; None for all.
    """

    def __init__(
        self,
        versions: ApiVersionsResponse,
        seed: object,
        *,
        size_bytes_max: int = SIZE_BYTES_MAX,
        only: Container[type] | None = None,
    ) -> None:
        self._random = Random(str(seed))
        self._size_bytes_max = size_bytes_max
        self._apis = [
            (known, range(max(api.min_version, declaration_of(known.request).versions.first), api.max_version + 1))
            for api in versions.api_keys
            if (known := APIS.get(api.api_key)) is not None and (only is None or known.request in only)
        ]

    def requests(self) -> Iterator[bytes]:
        """Frames with their size, without end; of any API with the same probability."""
        for number in itertools.count():
            api, versions = self._random.choice(self._apis)
            version = self._random.choice(versions)
            yield self._request(api.request, version, number)

    def _request(self, cls: Any, version: int, correlation_id: int) -> bytes:
        message = self._struct(cls, version)
        arrays = list(_arrays(message, version))
        if arrays and self._random.random() < 0.7:
            owner, field = self._random.choice(arrays)
            self._lengthen(owner, field, version)
        frame = encode_request(message, version, correlation_id, "grammar")
        return frame if len(frame) <= self._size_bytes_max else self._request(cls, version, correlation_id)

    def _lengthen(self, owner: Any, field: Field, version: int) -> None:
        count = int(10 ** self._random.uniform(1, 6))
        some = [self._element(field, version) for _ in range(min(count, DISTINCT_MAX))]
        setattr(owner, field.name, (some * (count // len(some) + 1))[:count])

    def _struct(self, cls: Any, version: int) -> Any:
        return cls(**{field.name: self._value(field, version) for field in fields_of(cls)})

    def _value(self, field: Field, version: int) -> Any:
        if version not in field.versions:
            return default_of(field)
        if field.name in FIXED:
            return FIXED[field.name]
        if version in field.nullable and self._random.random() < 0.1:
            return None
        if field.is_array:
            return [self._element(field, version) for _ in range(self._random.choice((0, 1, 1, 2, 3)))]
        return self._element(field, version)

    def _element(self, field: Field, version: int) -> Any:
        kind = field.kind
        if kind is None:
            return self._struct(field.struct, version)
        match kind.name:
            case "string":
                return self._random.choice(NAMES)
            case "bytes" | "records":
                return self._random.randbytes(self._random.choice((0, 1, 20, 100)))
            case "uuid":
                return self._random.choice((bytes(16), self._random.randbytes(16)))
            case "bool":
                return self._random.random() < 0.5
            case "float64":
                return self._random.random()
        number = self._random.choice(NUMBERS)
        return abs(number) if (kind.code or "").isupper() else number


def _arrays(message: Any, version: int) -> Iterator[tuple[Any, Field]]:
    """The arrays of a message, and of the structs in it, with the structs that have them."""
    for field in fields_of(type(message)):
        if version not in field.versions:
            continue
        value = getattr(message, field.name)
        if field.is_array:
            yield message, field
        if field.struct is not None and value is not None:
            for inner in value if field.is_array else [value]:
                yield from _arrays(inner, version)
