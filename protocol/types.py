"""The types of Kafka's wire protocol, as annotations.

``int32`` is ``Annotated[int, …]``: a type checker and an editor see an ``int``, the compiler sees four bytes. ``bool``
is Python's own. Arrays are ``list[…]``, structs are classes, and what may be null is ``… | None``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

NIL_UUID = bytes(16)
"""The id that stands for none."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one primitive type travels.

    Attributes:
        name: the name in Kafka's tables.
        code: its character for `struct`, None where the length varies.
        size_bytes: its size, 0 where the length varies.
        zero: the value of a field that nobody set.
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
"""Record batches, never looked into here: decoded as a `memoryview` of the frame; encoded from anything like bytes,
or from an object with ``__len__`` (a slice of a file) that stays a part of its own."""
