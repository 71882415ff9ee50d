"""Every message class, and random messages for property tests."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from minikafka.protocol.apis import APIS
from minikafka.protocol.codec.schema import Field, declaration_of, default_of, fields_of
from minikafka.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from minikafka.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from minikafka.protocol.messages.transaction_records import EndTxnMarker, TransactionLogKey, TransactionLogValue
from minikafka.protocol.types import Kind

REQUESTS_AND_RESPONSES = [cls for api in APIS.values() for cls in (api.request, api.response)]
RECORDS = [
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
    OffsetCommitKey,
    OffsetCommitValue,
    GroupMetadataKey,
    GroupMetadataValue,
    TransactionLogKey,
    TransactionLogValue,
    EndTxnMarker,
]
ALL = REQUESTS_AND_RESPONSES + RECORDS


def versions_of_message(cls: Any) -> range:
    """The versions that a message can be encoded in."""
    first, last = declaration_of(cls).versions
    return range(first, last + 1)


def every_version(classes: list[Any]) -> list[Any]:
    """(class, version) for each version of each class, for parametrized tests."""
    return [(cls, version) for cls in classes for version in versions_of_message(cls)]


def name_of(value: Any) -> str:
    """The name of a parameter in test ids."""
    return getattr(value, "__name__", str(value))


def integers(kind: Kind) -> st.SearchStrategy[int]:
    """All numbers of a type; its limits and small ones are more frequent."""
    assert kind.code is not None
    size = 8 * struct.calcsize(">" + kind.code)
    low, high = (0, 2**size - 1) if kind.code.isupper() else (-(2 ** (size - 1)), 2 ** (size - 1) - 1)
    return st.integers(low, high) | st.sampled_from([low, high]) | st.integers(0, min(high, 200))


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.just("x" * 130)

VALUES: dict[str, Callable[[Kind], st.SearchStrategy[Any]]] = {
    "bool": lambda kind: st.booleans(),
    "float64": lambda kind: st.floats(allow_nan=False),
    "string": lambda kind: TEXT,
    "bytes": lambda kind: st.binary(max_size=12) | st.just(b"x" * 200),
    "records": lambda kind: st.binary(max_size=12) | st.just(b"x" * 200),
    "uuid": lambda kind: st.binary(min_size=16, max_size=16),
}

FieldStrategy = Callable[[Field], "st.SearchStrategy[Any] | None"]


def messages(cls: Any, version: int, special: FieldStrategy = lambda field: None) -> st.SearchStrategy[Any]:
    """Messages (or structs) with any value that the version can encode; `special` may override single fields."""
    present = [field for field in fields_of(cls) if version in field.versions]
    absent = [field for field in fields_of(cls) if version not in field.versions]
    values = {field.name: _value(field, version, special) for field in present}
    return st.builds(cls, **values, **{field.name: st.builds(default_of, st.just(field)) for field in absent})


def _value(field: Field, version: int, special: FieldStrategy) -> st.SearchStrategy[Any]:
    one = special(field)
    if one is None:
        one = messages(field.struct, version, special) if field.struct else _primitive(field.kind)
    whole = st.lists(one, max_size=4) if field.is_array else one
    return st.none() | whole if version in field.nullable else whole


def _primitive(kind: Kind | None) -> st.SearchStrategy[Any]:
    assert kind is not None
    return VALUES.get(kind.name, integers)(kind)


def random_message(cls: Any, version: int, seeded: random.Random) -> Any:
    """A message of random values; fast, for tests that need tens of thousands."""
    return cls(**{field.name: _random_value(field, version, seeded) for field in fields_of(cls)})


def _random_value(field: Field, version: int, seeded: random.Random) -> Any:
    if version not in field.versions:
        return default_of(field)
    if version in field.nullable and seeded.random() < 0.2:
        return None
    if field.is_array:
        return [_random_element(field, version, seeded) for _ in range(seeded.choice((0, 1, 1, 2, 3)))]
    return _random_element(field, version, seeded)


def _random_element(field: Field, version: int, seeded: random.Random) -> Any:
    kind = field.kind
    if kind is None:
        return random_message(field.struct, version, seeded)
    if kind.name == "string":
        return "topic-é-"[: seeded.randrange(9)]
    if kind.name in ("bytes", "records"):
        return seeded.randbytes(seeded.randrange(40))
    if kind.name == "uuid":
        return seeded.randbytes(16)
    if kind.name in ("bool", "float64"):
        return seeded.random() < 0.5 if kind.name == "bool" else seeded.random()
    return seeded.randrange(100)
