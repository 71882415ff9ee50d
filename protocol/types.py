"""The primitive types of the wire protocol, as annotations: `int32`, `string`, `uuid`, `records` and others.

``int32`` is ``Annotated[int, …]``: an ``int`` for type checkers, four bytes for the codec. ``bool`` is Python's
``bool``. Arrays are ``list[…]``, structs are classes, and nullable fields are ``… | None``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

NIL_UUID = bytes(16)
"""The null uuid."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The encoding of a primitive type.

    Attributes:
        name: the name in Kafka's schemas.
        code: the `struct` format character of the type; None if its size varies.
        size_bytes: the size of the type; 0 if it varies.
        zero: the implied default.
    """

    name: str
    code: str | None
    size_bytes: int
    zero: Any


BOOL = Kind("bool", "?", 1, False)
INT8 = Kind("int8", "b", 1, 0)
INT16 = Kind("int16", "h", 2, 0)
INT32 = Kind("int32", "i", 4, 0)
INT64 = Kind("int64", "q", 8, 0)
UINT16 = Kind("uint16", "H", 2, 0)
UINT32 = Kind("uint32", "I", 4, 0)
FLOAT64 = Kind("float64", "d", 8, 0.0)
UUID = Kind("uuid", "16s", 16, NIL_UUID)
STRING = Kind("string", None, 0, "")
BYTES = Kind("bytes", None, 0, b"")
RECORDS = Kind("records", None, 0, None)

int8: TypeAlias = Annotated[int, INT8]
int16: TypeAlias = Annotated[int, INT16]
int32: TypeAlias = Annotated[int, INT32]
int64: TypeAlias = Annotated[int, INT64]
uint16: TypeAlias = Annotated[int, UINT16]
uint32: TypeAlias = Annotated[int, UINT32]
float64: TypeAlias = Annotated[float, FLOAT64]
uuid: TypeAlias = Annotated[bytes, UUID]
"""16 raw bytes; `names.uuid_text` prints them."""
string: TypeAlias = Annotated[str, STRING]
bytes_: TypeAlias = Annotated[bytes, BYTES]
records: TypeAlias = Annotated[Any, RECORDS]
"""Record batches, opaque to the codec: decoded as a `memoryview` of the frame; encoded from a bytes-like object, or
from an object with ``__len__`` (a slice of a file), which remains a separate part."""
