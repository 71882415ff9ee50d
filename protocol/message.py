"""A message is a class; its annotations are its schema.

    @message(key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest:
        group_id: string = ""
        generation_id: int32 = 0
        member_id: string = ""
        group_instance_id: string | None = field(default=None, versions="3+")

One class serves every version. Instances take keywords, have slots, compare by value and can be changed. A field
without any default must be given; one with ``[]`` gets a list of its own each time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from minikafka.protocol.codec import compiler
from minikafka.protocol.codec.schema import (
    EVERY,
    IMPLIED,
    NEVER,
    REQUIRED,
    Declaration,
    Options,
    Versions,
    default_of,
    fields_of,
    versions_of,
)
from minikafka.protocol.message_errors import (
    MalformedMessage,
    UnencodableMessage,
    UnsupportedField,
    UnsupportedVersion,
)

__all__ = [
    "FRESH",
    "MalformedMessage",
    "UnencodableMessage",
    "UnsupportedField",
    "UnsupportedVersion",
    "decode",
    "decode_from",
    "encode",
    "encode_parts",
    "field",
    "fields_of",
    "message",
    "struct",
]

M = TypeVar("M")

FRESH: Any = IMPLIED
"""The default of a struct that is not null: a new one, all its fields at their own defaults."""


def field(
    *,
    default: Any = REQUIRED,
    versions: str = "0+",
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
    never_flexible: bool = False,
) -> Any:
    """A field with more to say than its type.

    Args:
        default: its value when not set and where the version lacks it; without one, the field must be given.
        versions: where it exists, in Kafka's notation: ``3-13``, ``9+``, ``4``.
        nullable: where it may be null, if not everywhere; the annotation then says ``| None``.
        tag: its number, for a tagged field of flexible versions (KIP-482).
        ignorable: encoding a version that lacks it drops the value silently instead of refusing.
        never_flexible: keeps the old encoding in flexible versions.
    """
    return Options(default, versions, nullable, tag, ignorable, never_flexible)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(
    *, versions: str, flexible: str, key: int | None = None, name: str | None = None
) -> Callable[[type[M]], type[M]]:
    """Make a class a message that can be encoded and decoded.

    Args:
        versions: those that can be encoded and decoded.
        flexible: those with compact lengths and tagged fields; ``none`` if there are none.
        key: the API key of a request or response.
        name: the name in Kafka's tables, if not the class's own.
    """

    def make(cls: type[M]) -> type[M]:
        return _make(cls, name, key, versions_of(versions), versions_of(flexible))

    return make


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[M]) -> type[M]:
    """Make a class a part of messages; it travels as its message does."""
    return _make(cls, None, None, EVERY, NEVER)


def decode(cls: type[M], version: int, data: compiler.Buffer, offset: int = 0) -> M:
    """The message that begins at `offset`; what follows it is ignored, as Kafka does.

    Raises:
        MalformedMessage: the bytes are no such message, or the version is none of its own.
    """
    decoder = cls.__decoders__.get(version)  # type: ignore[attr-defined]
    return (decoder or compiler.decoder_for(cls, version))(data, offset)[0]


def decode_from(cls: type[M], version: int, data: compiler.Buffer, offset: int) -> tuple[M, int]:
    """The message that begins at `offset`, and where it ends.

    Records stay a `memoryview` of `data`: as long as the message lives, so does the frame.

    Raises:
        MalformedMessage: the bytes are no such message, or the version is none of its own.
    """
    decoder = cls.__decoders__.get(version)  # type: ignore[attr-defined]
    return (decoder or compiler.decoder_for(cls, version))(data, offset)


def encode(message: Any, version: int) -> bytes:
    """The message's bytes, no header.

    Raises:
        UnsupportedField: the version lacks a field that has a value of its own and is not ignorable.
        UnencodableMessage: a value does not fit its type; null where the version has none; records that are a slice
            of a file.
        UnsupportedVersion: the message has no such version.
    """
    parts = encode_parts(message, version)
    if len(parts) == 1 and isinstance(parts[0], bytes):
        return parts[0]
    raise UnencodableMessage(f"{type(message).__name__}: records in a file need encode_parts")


def encode_parts(message: Any, version: int) -> list[Any]:
    """Like `encode`, with records that are not in memory kept as they were given.

    Returns:
        bytes, and between them, in order, every object given for `records` that is not bytes-like.

    Raises:
        UnsupportedField, UnencodableMessage, UnsupportedVersion: as for `encode`.
    """
    cls = type(message)
    return (cls.__encoders__.get(version) or compiler.encoder_for(cls, version))(message)


def _make(cls: Any, name: str | None, key: int | None, versions: Versions, flexible: Versions) -> Any:
    annotations = inspect.get_annotations(cls)
    kept = {
        attribute: value
        for attribute, value in vars(cls).items()
        if attribute not in annotations and attribute not in ("__dict__", "__weakref__")
    }
    return type(cls)(
        cls.__name__,
        cls.__bases__,
        kept
        | {
            "__slots__": tuple(annotations),
            "__declaration__": Declaration(
                name or cls.__name__, key, versions, flexible, _options(cls, annotations), annotations
            ),
            "__decoders__": {},
            "__encoders__": {},
            "__init__": _first_init,
            "__eq__": _equals,
            "__hash__": None,
            "__repr__": _repr,
        },
    )


def _options(cls: Any, annotations: dict[str, Any]) -> dict[str, Options]:
    values = {attribute: vars(cls).get(attribute, REQUIRED) for attribute in annotations}
    return {
        attribute: value if isinstance(value, Options) else Options(default=value)
        for attribute, value in values.items()
    }


def _first_init(self: Any, **values: Any) -> None:
    """Stands in for a class's `__init__` until the first instance is made: then it is compiled."""
    cls = type(self)
    cls.__init__ = compiler.initializer_for(cls)
    cls.__init__(self, **values)


def _equals(self: Any, other: Any) -> bool:
    if type(self) is not type(other):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


def _repr(self: Any) -> str:
    """Only what differs from its default, so that a big message can be read."""
    told = (
        f"{item.name}={getattr(self, item.name)!r}"
        for item in fields_of(self.__class__)
        if getattr(self, item.name) != default_of(item)
    )
    return f"{type(self).__name__}({', '.join(told)})"
