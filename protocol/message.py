"""Declares, encodes and decodes messages: a message is a class, and its annotations are its schema.

    @message(key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest:
        group_id: string = ""
        generation_id: int32 = 0
        member_id: string = ""
        group_instance_id: string | None = field(default=None, versions="3+")

One class serves every version. Instances are mutable, have slots, take keyword arguments and compare by value. A field
without a default must be given; with the default ``[]`` each instance has its own list.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from minikafka.protocol.codec import compiler
from minikafka.protocol.codec.compile_decoder import UNLIMITED
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
    ManyElements,
    UnencodableMessage,
    UnsupportedField,
    UnsupportedVersion,
)

__all__ = [
    "FRESH",
    "UNLIMITED",
    "MalformedMessage",
    "ManyElements",
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
"""The default of a field that is a struct and not null: a new struct with default fields."""


def field(
    *,
    default: Any = REQUIRED,
    versions: str = "0+",
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
    never_flexible: bool = False,
) -> Any:
    """Declare a field with options.

    Args:
        default: the value if the field is not set, or if the version lacks it; without a default it must be given.
        versions: versions that have the field, in Kafka's notation: ``3-13``, ``9+``, ``4``.
        nullable: versions in which the field may be null, if not all; the annotation must be ``… | None``.
        tag: the tag of a tagged field in flexible versions (KIP-482).
        ignorable: if the version lacks the field, its value is dropped silently instead of raising UnsupportedField.
        never_flexible: flexible versions keep the old encoding.
    """
    return Options(default, versions, nullable, tag, ignorable, never_flexible)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(
    *, versions: str, flexible: str, key: int | None = None, name: str | None = None
) -> Callable[[type[M]], type[M]]:
    """Class decorator for messages, which can be encoded and decoded.

    Args:
        versions: the supported versions.
        flexible: the versions with compact lengths and tagged fields, or ``none``.
        key: the API key of a request or response.
        name: the name in Kafka's schemas, if it is not the class name.
    """

    def make(cls: type[M]) -> type[M]:
        return _make(cls, name, key, versions_of(versions), versions_of(flexible))

    return make


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[M]) -> type[M]:
    """Class decorator for parts of messages; they are encoded in the version of their message."""
    return _make(cls, None, None, EVERY, NEVER)


def decode(
    cls: type[M], version: int, data: compiler.Buffer, offset: int = 0, elements_max: int = UNLIMITED
) -> M:
    """Decode the message at `offset`; trailing bytes are ignored, as in Kafka.

    Args:
        cls: the class of the message.
        version: the version of the message.
        data: the bytes.
        offset: the position of the message in `data`.
        elements_max: the most elements that all arrays may have together, which bounds the time and memory that
            decoding takes. Counts are checked against the remaining bytes in any case.

    Raises:
        MalformedMessage: the bytes are not a valid message, or the message has no such version.
        ManyElements: there are more than `elements_max`.
    """
    decoder = cls.__decoders__.get(version)  # type: ignore[attr-defined]
    return (decoder or compiler.decoder_for(cls, version))(data, offset, elements_max)[0]


def decode_from(cls: type[M], version: int, data: compiler.Buffer, offset: int) -> tuple[M, int]:
    """Decode the message at `offset`; return the message and the offset of its end.

    Records remain a `memoryview` of `data`, so the message keeps the frame alive.

    Raises:
        MalformedMessage: the bytes are not a valid message, or the message has no such version.
    """
    decoder = cls.__decoders__.get(version)  # type: ignore[attr-defined]
    return (decoder or compiler.decoder_for(cls, version))(data, offset)


def encode(message: Any, version: int) -> bytes:
    """Encode a message, without a header.

    Raises:
        UnsupportedField: the version lacks a field that is not ignorable and not at its default.
        UnencodableMessage: a value does not fit its type, a field is null that must not be, or records are a slice
            of a file.
        UnsupportedVersion: the message has no such version.
    """
    parts = encode_parts(message, version)
    if len(parts) == 1 and isinstance(parts[0], bytes):
        return parts[0]
    if all(isinstance(part, bytes) for part in parts):
        return b"".join(parts)
    raise UnencodableMessage(f"{type(message).__name__}: records that are a slice of a file require encode_parts")


def encode_parts(message: Any, version: int, elements_max: int = UNLIMITED) -> list[Any]:
    """Like `encode`, but records that are not bytes-like, such as slices of a file, are kept as objects.

    Args:
        message: the message.
        version: the version to encode.
        elements_max: the most elements, as for `decode`. 16 numbers count as one element, and so do 256 bytes of a
            string or bytes of 1 KiB or more. Records do not count.

    Returns:
        bytes and, between them, the objects given for `records`, in order.

    Raises:
        UnsupportedField, UnencodableMessage, UnsupportedVersion: see `encode`.
        ManyElements: arrays have more than `elements_max` elements.
    """
    cls = type(message)
    return (cls.__encoders__.get(version) or compiler.encoder_for(cls, version))(message, elements_max)


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
    """The `__init__` of a class until its first instance is created; it compiles the real one."""
    cls = type(self)
    cls.__init__ = compiler.initializer_for(cls)
    cls.__init__(self, **values)


def _equals(self: Any, other: Any) -> bool:
    if type(self) is not type(other):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)


def _repr(self: Any) -> str:
    """The message as text with only the fields that differ from their defaults, so that large messages are readable."""
    shown = (
        f"{item.name}={getattr(self, item.name)!r}"
        for item in fields_of(self.__class__)
        if getattr(self, item.name) != default_of(item)
    )
    return f"{type(self).__name__}({', '.join(shown)})"
