"""A plain, slow interpreter of message declarations: the oracle for the compiled codec.

For every message it iterates over the fields of the class, checks whether the version has each, and encodes or decodes
it. It shares only the declarations with the compiler, which are compared with Kafka's tables.
"""

from __future__ import annotations

import struct
from typing import Any

from minikafka.protocol.codec.schema import Field, declaration_of, default_of, fields_of


def interpret_encode(message: Any, version: int) -> bytes:
    """The expected result of `minikafka.protocol.message.encode`."""
    return write_struct(message, version, version in declaration_of(type(message)).flexible)


def interpret_decode(cls: Any, version: int, data: bytes) -> Any:
    """The expected result of `minikafka.protocol.message.decode` for well-formed data."""
    return Reader(data, version, version in declaration_of(cls).flexible).struct(cls)


def uvarint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + uvarint(rest) if rest else bytes([low])


def write_struct(value: Any, version: int, flexible: bool) -> bytes:
    out, tagged = b"", {}
    for field in fields_of(type(value)):
        if version not in field.versions:
            continue
        content = getattr(value, field.name)
        if field.tag is None or not flexible:
            out += write_field(field, content, version, flexible)
        elif content != default_of(field):
            tagged[field.tag] = write_field(field, content, version, flexible)
    if flexible:
        out += uvarint(len(tagged))
        out += b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in sorted(tagged.items()))
    return out


def write_field(field: Field, value: Any, version: int, flexible: bool) -> bytes:
    compact = flexible and not field.never_flexible
    if value is None and field.struct and not field.is_array:
        return b"\xff"
    if field.is_array:
        count = -1 if value is None else len(value)
        head = uvarint(count + 1) if compact else struct.pack(">i", count)
        return head + b"".join(write_one(field, item, version, flexible, compact) for item in value or [])
    if field.struct and version in field.nullable:
        return b"\x01" + write_one(field, value, version, flexible, compact)
    return write_one(field, value, version, flexible, compact)


def write_one(field: Field, value: Any, version: int, flexible: bool, compact: bool) -> bytes:
    if field.struct:
        return write_struct(value, version, flexible)
    assert field.kind is not None
    if field.kind.code:
        return struct.pack(">" + field.kind.code, value)
    data = value.encode() if isinstance(value, str) else value
    size = -1 if data is None else len(data)
    narrow = ">h" if field.kind.name == "string" else ">i"
    return (uvarint(size + 1) if compact else struct.pack(narrow, size)) + (data or b"")


class Reader:
    def __init__(self, data: bytes, version: int, flexible: bool) -> None:
        self.data = data
        self.position = 0
        self.version = version
        self.flexible = flexible

    def take(self, size: int) -> bytes:
        assert 0 <= size <= len(self.data) - self.position, "truncated"
        self.position += size
        return self.data[self.position - size : self.position]

    def unpack(self, code: str) -> Any:
        return struct.unpack(">" + code, self.take(struct.calcsize(">" + code)))[0]

    def uvarint(self) -> int:
        byte = self.unpack("B")
        return byte if byte < 128 else byte - 128 + (self.uvarint() << 7)

    def struct(self, cls: Any) -> Any:
        values, tagged = {}, {}
        for field in fields_of(cls):
            if self.version not in field.versions:
                continue
            if field.tag is not None and self.flexible:
                tagged[field.tag] = field
            else:
                values[field.name] = self.field(field)
        for _ in range(self.uvarint() if self.flexible else 0):
            tag, data = self.uvarint(), self.take(self.uvarint())
            if tag in tagged:
                values[tagged[tag].name] = Reader(data, self.version, self.flexible).field(tagged[tag])
        absent = [field for field in fields_of(cls) if field.name not in values]
        return cls(**values, **{field.name: default_of(field) for field in absent})

    def field(self, field: Field) -> Any:
        compact = self.flexible and not field.never_flexible
        if field.is_array:
            count = self.uvarint() - 1 if compact else self.unpack("i")
            return None if count < 0 else [self.one(field, compact) for _ in range(count)]
        if field.struct and self.version in field.nullable and self.unpack("b") < 0:
            return None
        return self.one(field, compact)

    def one(self, field: Field, compact: bool) -> Any:
        if field.struct:
            return self.struct(field.struct)
        assert field.kind is not None
        if field.kind.code:
            return self.unpack(field.kind.code)
        size = self.uvarint() - 1 if compact else self.unpack("h" if field.kind.name == "string" else "i")
        data = None if size < 0 else self.take(size)
        return data.decode() if data is not None and field.kind.name == "string" else data
