"""Generates the source of the encoder of a message version.

The generated code collects pieces of bytes in a list and joins them once. Records that are a slice of a file split the
list. Very many pieces split it too, because each piece takes some 60 bytes of memory more than its content.
Invalid values raise `struct.error`, `TypeError` or `AttributeError`, which are converted into `UnencodableMessage`.
"""

from __future__ import annotations

import struct
from typing import Any

from minikafka.protocol.codec.compile_decoder import STRING_SIZE_MAX, UNLIMITED, holds_records
from minikafka.protocol.codec.generated_source import ARRAYS_READY, Source
from minikafka.protocol.codec.schema import IMPLIED, Field, declaration_of, fields_of
from minikafka.protocol.codec.varint import SHORT, UVARINTS, uvarint
from minikafka.protocol.elements import BYTES_PER_ELEMENT
from minikafka.protocol.message_errors import ManyElements, UnencodableMessage, UnsupportedField
from minikafka.protocol.types import RECORDS, STRING

NUMBERS_PER_ELEMENT = 16
"""The numbers that count as one element, since an array of numbers is encoded by one call."""

PIECES_MAX = 4_096
"""The most pieces before they are joined, which is checked after each element of a response's outermost arrays."""


def encoder_source(cls: Any, version: int) -> Source:
    """Generate the source of ``encode(message, left) -> parts``; `left` is the most elements that it encodes."""
    declaration = declaration_of(cls)
    source = Source(f"{declaration.name} v{version} encoder")
    source.names |= {
        "UVARINTS": UVARINTS,
        "uvarint": uvarint,
        "string_size": _string_size,
        "join": b"".join,
        "pack": struct.pack,
        "struct_error": struct.error,
        "BYTES_LIKE": (bytes, bytearray, memoryview),
        "UnencodableMessage": UnencodableMessage,
        "ManyElements": ManyElements,
        "UnsupportedField": UnsupportedField,
    }
    title = f"{declaration.name} v{version}"
    _Encoder(source, title, version, version in declaration.flexible).write(cls)
    return source


class _Encoder:
    def __init__(self, source: Source, title: str, version: int, flexible: bool) -> None:
        self.source = source
        self.title = title
        self.version = version
        self.flexible = flexible
        self.run: list[tuple[str, str]] = []
        self.add = "add"
        self.depth = 0
        self.drops = title.split()[0].endswith("Response")
        """Responses drop fields that the version lacks; requests raise UnsupportedField."""

    def write(self, cls: Any) -> None:
        """Write the whole function."""
        line = self.source.line
        in_parts = holds_records(cls, self.version)
        with self.source.block(f"def encode(m, left={UNLIMITED}):"):
            line("pieces = []")
            line("add = pieces.append")
            line("parts = []")
            with self.source.block("try:"):
                self.struct(cls, "m", "")
                self.flush()
                line(f"if pieces{'' if in_parts else ' or not parts'}: parts.append(join(pieces))")
                line("return parts")
            with self.source.block("except (struct_error, TypeError, AttributeError, UnicodeEncodeError) as error:"):
                line(f"raise UnencodableMessage(f'{self.title}: {{error}}') from error")

    # -- structs --

    def struct(self, cls: Any, value: str, where: str) -> None:
        """Encode all fields of the struct in the variable `value`."""
        for field in fields_of(cls):
            if self.version not in field.versions and not field.ignorable and not self.drops:
                self.refuse(field, f"{value}.{field.name}", where + field.name)
        tagged: list[Field] = []
        for field in fields_of(cls):
            if self.version not in field.versions:
                continue
            if field.tag is not None and self.flexible:
                tagged.append(field)
            else:
                self.value(field, f"{value}.{field.name}")
        if self.flexible:
            self.tagged_fields(sorted(tagged, key=lambda field: field.tag or 0), value)

    def refuse(self, field: Field, value: str, where: str) -> None:
        """Raise UnsupportedField if the field, which the version lacks, is not at its default."""
        with self.source.block(f"if {_differs(field, value)}:"):
            message = f"{self.title} has no {where}, which is {{{value}!r:.100}}"
            self.source.line(f"raise UnsupportedField(f'{message}')")

    def tagged_fields(self, fields: list[Field], value: str) -> None:
        """Encode the tagged fields at the end of a struct, if they differ from their defaults."""
        if not fields:
            self.run.append(("B", "0"))
            return
        self.flush()
        differing = " or ".join(f"({_differs(field, f'{value}.{field.name}')})" for field in fields)
        with self.source.block(f"if {differing}:"):
            tags = self.source.variable("t")
            self.source.line(f"{tags} = []")
            for field in fields:
                with self.source.block(f"if {_differs(field, f'{value}.{field.name}')}:"):
                    self.tagged_field(field, f"{value}.{field.name}", tags)
            self.source.line(f"{self.add}(uvarint(len({tags})) + join({tags}))")
        with self.source.block("else:"):
            self.source.line(f"{self.add}(b'\\0')")

    def tagged_field(self, field: Field, value: str, tags: str) -> None:
        """Encode a tagged field: tag, size and value; the value is encoded first, into a separate list."""
        inner, outer = self.source.variable("inner"), self.add
        self.source.line(f"{inner} = []")
        self.add = f"{inner}.append"
        self.value(field, value)
        self.flush()
        self.add = outer
        self.source.line(f"{inner} = join({inner})")
        self.source.line(f"{tags}.append(uvarint({field.tag}) + uvarint(len({inner})) + {inner})")

    # -- values --

    def value(self, field: Field, value: str) -> None:
        """Encode the value of a field, given by the expression `value`."""
        nullable = self.version in field.nullable
        compact = self.flexible and not field.never_flexible
        if field.is_array:
            self.array(field, value, nullable, compact)
        elif field.kind is None:
            self.nested(field, value, nullable)
        elif field.kind.code:
            self.run.append((field.kind.code, value))
        elif field.kind is STRING:
            self.string(value, nullable, compact)
        else:
            self.bytes(value, nullable or field.kind is RECORDS, compact, field.kind is RECORDS)

    def nested(self, field: Field, value: str, nullable: bool) -> None:
        variable = self.source.variable("o")
        self.source.line(f"{variable} = {value}")
        if not nullable:
            self.struct(field.struct, variable, field.name + ".")
            return
        self.flush()
        with self.source.block(f"if {variable} is None:"):
            null = "\\0" if field.tag is not None and self.flexible else "\\xff"  # Kafka writes a varint there.
            self.source.line(f"{self.add}(b'{null}')")
        with self.source.block("else:"):
            self.run.append(("b", "1"))
            self.struct(field.struct, variable, field.name + ".")
            self.flush()

    def string(self, value: str, nullable: bool, compact: bool) -> None:
        text, size = self.source.variable("s"), self.source.variable("n")
        if nullable:
            self.source.line(f"{text} = b'' if {value} is None else {value}.encode()")
            self.source.line(f"{size} = -1 if {value} is None else len({text})")
        else:
            self.source.line(f"{text} = {value}.encode()")
            self.source.line(f"{size} = len({text})")
        self.size(size, "string_size" if compact else "", "h")
        self.long(size)
        self.source.line(f"{self.add}({text})")

    def long(self, size: str) -> None:
        """Count a string or bytes of about 1 KiB or more as elements, before the next piece is created. Records are not
        counted."""
        with self.source.block(f"if {size} >= {SHORT - 1}:"):
            self.source.line(f"left -= {size} // {BYTES_PER_ELEMENT}")
            with self.source.block("if left < 0:"):
                self.source.line("raise ManyElements")

    def bytes(self, value: str, nullable: bool, compact: bool, is_records: bool) -> None:
        data, size = self.source.variable("b"), self.source.variable("n")
        self.source.line(f"{data} = {value}")
        self.source.line(f"{size} = {f'-1 if {data} is None else ' if nullable else ''}len({data})")
        self.size(size, "uvarint" if compact else "", "i")
        with self.source.block(f"if {size} > 0:"):
            if not is_records:
                self.long(size)
                self.source.line(f"{self.add}({data})")
                return
            with self.source.block(f"if isinstance({data}, BYTES_LIKE):"):
                self.source.line(f"{self.add}({data})")
            with self.source.block("else:"):
                self.source.line("parts.append(join(pieces))")
                self.source.line("pieces.clear()")
                self.source.line(f"parts.append({data})")

    def array(self, field: Field, value: str, nullable: bool, compact: bool) -> None:
        items, size = self.source.variable("a"), self.source.variable("n")
        self.source.line(f"{items} = {value}")
        self.source.line(f"{size} = {f'-1 if {items} is None else ' if nullable else ''}len({items})")
        self.size(size, "uvarint" if compact else "", "i")
        with self.source.block(f"if {size} > 0:"):
            self.elements(field, items, size, compact)

    def elements(self, field: Field, items: str, size: str, compact: bool) -> None:
        kind = field.kind
        numbers = kind is not None and kind.code and kind.size_bytes < 16
        self.source.line(f"left -= {size}{f' // {NUMBERS_PER_ELEMENT}' if numbers else ''}")
        with self.source.block("if left < 0:"):
            self.source.line("raise ManyElements")
        if kind is not None and kind.code and kind.size_bytes < 16:
            writers = self.source.give_structs(kind.code, "pack")
            writer = f"{writers}[{size}](*{items}) if {size} < {ARRAYS_READY} else "
            self.source.line(f"{self.add}({writer}pack(f'>{{{size}}}{kind.code}', *{items}))")
            return
        item = self.source.variable("o")
        with self.source.block(f"for {item} in {items}:"):
            if kind is None:
                self.depth += 1
                self.struct(field.struct, item, field.name + "[].")
                self.depth -= 1
            elif kind.code:
                self.run.append((kind.code, item))
            elif kind is STRING:
                self.string(item, nullable=False, compact=compact)
            else:
                self.bytes(item, nullable=False, compact=compact, is_records=False)
            self.flush()
            if self.drops and not self.depth:
                self.join_many()

    def join_many(self) -> None:
        with self.source.block(f"if len(pieces) > {PIECES_MAX}:"):
            self.source.line("parts.append(join(pieces))")
            self.source.line("pieces.clear()")

    # -- bytes --

    def size(self, size: str, long: str, code: str) -> None:
        """Encode a length or count after the pending fixed-size fields; `long` encodes compact ones of many bytes."""
        if not long:
            self.run.append((code, size))
            self.flush()
            return
        self.flush()
        self.source.line(
            f"{self.add}(UVARINTS[{size} + 1] if {size} < {SHORT - 1} else {long}({size} + 1))"
        )

    def flush(self) -> None:
        """Write the pending fixed-size fields with one call."""
        if not self.run:
            return
        codes = "".join(code for code, _ in self.run)
        values = ", ".join(value for _, value in self.run)
        constant = all(value in ("0", "1") for _, value in self.run)
        self.run = []
        if constant:
            literal = struct.pack(">" + codes, *(int(value) for value in values.split(", ")))
            self.source.line(f"{self.add}({literal!r})")
        else:
            self.source.line(f"{self.add}({self.source.give_struct(codes, 'pack')}({values}))")


def _string_size(size_plus_one: int) -> bytes:
    if size_plus_one > STRING_SIZE_MAX + 1:
        raise UnencodableMessage(f"string of {size_plus_one - 1} bytes exceeds the maximum of {STRING_SIZE_MAX}")
    return uvarint(size_plus_one)


def _differs(field: Field, value: str) -> str:
    """An expression that is true if the value is not the field's default."""
    if field.default is None:
        return f"{value} is not None"
    if field.is_array:
        return f"{value} is None or len({value})"
    if field.default is IMPLIED:
        inner = [f"({_differs(part, f'{value}.{part.name}')})" for part in fields_of(field.struct)]
        return " or ".join([f"{value} is None", *inner] if field.nullable else inner)
    return f"{value} != {field.default!r}"
