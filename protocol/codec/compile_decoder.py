"""Generates the source of the decoder of a message version.

Invariants of the generated code: `position` never decreases; nothing is allocated for a length or count before it is
checked against the remaining bytes; a read past the end raises `struct.error` or `IndexError`, which the enclosing
`try` converts into `MalformedMessage`.
"""

from __future__ import annotations

import struct
from struct import calcsize
from typing import Any

from minikafka.protocol.codec.generated_source import ARRAYS_READY, Source
from minikafka.protocol.codec.schema import IMPLIED, Field, declaration_of, fields_of
from minikafka.protocol.codec.varint import read_uvarint, skip_tagged_fields
from minikafka.protocol.message_errors import MalformedMessage, ManyElements
from minikafka.protocol.types import BYTES, RECORDS, STRING, Kind

STRING_SIZE_MAX = 0x7FFF
UNLIMITED = 1 << 62


def decoder_source(cls: Any, version: int, *, of_view: bool = False) -> Source:
    """Generate the source of ``decode(data, position, left) -> (message, end)``. `left` is the most elements that all
    arrays of the message may have together.

    Args:
        cls: the message class.
        version: one of its versions.
        of_view: whether `data` is a `memoryview`, whose slices have no `decode`. If false, the generated function
            passes views on to `decode_view`.
    """
    declaration = declaration_of(cls)
    source = Source(f"{declaration.name} v{version} decoder")
    source.names |= {
        "new": object.__new__,
        "read_uvarint": read_uvarint,
        "skip_tagged_fields": skip_tagged_fields,
        "unpack_from": struct.unpack_from,
        "struct_error": struct.error,
        "MalformedMessage": MalformedMessage,
        "ManyElements": ManyElements,
    }
    title = f"{declaration.name} v{version}"
    _Decoder(source, title, version, version in declaration.flexible, of_view).write(cls)
    return source


class _Decoder:
    def __init__(self, source: Source, title: str, version: int, flexible: bool, of_view: bool) -> None:
        self.source = source
        self.title = title
        self.version = version
        self.flexible = flexible
        self.of_view = of_view
        self.run: list[tuple[str, str]] = []

    def write(self, cls: Any) -> None:
        """Write the whole function."""
        line = self.source.line
        with self.source.block(f"def decode(data, position, left={UNLIMITED}):"):
            if not self.of_view:
                with self.source.block("if data.__class__ is memoryview:"):
                    line("return decode_view(data, position, left)")
            line("limit = len(data)")
            if holds_records(cls, self.version):
                line("view = memoryview(data)")
            with self.source.block("try:"):
                self.struct(cls, "m", "")
                self.flush()
                line("return m, position")
            with self.source.block("except MalformedMessage as error:"):
                line(f"raise MalformedMessage(f'{self.title}: {{error}}') from None")
            with self.source.block("except (struct_error, IndexError):"):
                line(f"raise MalformedMessage(f'{self.title}: truncated at {{limit}} bytes') from None")

    # -- structs --

    def struct(self, cls: Any, target: str, where: str) -> None:
        """Decode a struct into the new variable `target`; `where` is its path in error messages."""
        self.source.line(f"{target} = new({self.source.give_class(cls)})")
        tagged: list[Field] = []
        for field in fields_of(cls):
            attribute = f"{target}.{field.name}"
            if self.version not in field.versions:
                self.default(field, attribute)
            elif field.tag is not None and self.flexible:
                self.default(field, attribute)
                tagged.append(field)
            else:
                self.value(field, attribute, where + field.name)
        if self.flexible:
            self.tagged_fields(tagged, target, where)

    def default(self, field: Field, attribute: str) -> None:
        """Set a field that the version lacks to its default."""
        if field.default is not IMPLIED:
            self.source.line(f"{attribute} = {field.default!r}")
        elif field.is_array:
            self.source.line(f"{attribute} = []")
        else:
            variable = self.source.variable("d")
            self.source.line(f"{variable} = {attribute} = new({self.source.give_class(field.struct)})")
            for inner in fields_of(field.struct):
                self.default(inner, f"{variable}.{inner.name}")

    def tagged_fields(self, fields: list[Field], target: str, where: str) -> None:
        """Decode the tagged fields at the end of a struct: known tags into their fields; others are skipped."""
        count = self.source.variable("n")
        self.run.append(("B", count))
        self.flush()
        with self.source.block(f"if {count}:"):
            self.long(count)
            self.count(count)
            if not fields:
                self.source.line(f"position = skip_tagged_fields({count}, data, position, limit)")
                return
            with self.source.block(f"for _ in range({count}):"):
                self.tagged_field(fields, target, where)

    def tagged_field(self, fields: list[Field], target: str, where: str) -> None:
        line, end = self.source.line, self.source.variable("end")
        line("tag, position = read_uvarint(data, position)")
        line("size, position = read_uvarint(data, position)")
        line(f"{end} = position + size")
        with self.source.block(f"if {end} > limit:"):
            line("raise MalformedMessage(f'tagged field ends at byte {" + end + "} of {limit}')")
        for number, field in enumerate(fields):
            with self.source.block(f"{'el' if number else ''}if tag == {field.tag}:"):
                self.value(field, f"{target}.{field.name}", where + field.name)
                self.flush()
                with self.source.block(f"if position != {end}:"):
                    line(f"raise MalformedMessage('{where}{field.name}: size of tagged field is wrong')")
        line(f"position = {end}")

    # -- values --

    def value(self, field: Field, target: str, where: str) -> None:
        """Decode the value of a field into the attribute `target`."""
        nullable = self.version in field.nullable
        compact = self.flexible and not field.never_flexible
        if field.is_array:
            self.array(field, target, where, nullable, compact)
        elif field.kind is None:
            self.nested(field, target, where, nullable)
        elif field.kind.code:
            self.run.append((field.kind.code, target))
        else:
            self.sized(field.kind, target, where, nullable, compact)

    def nested(self, field: Field, target: str, where: str, nullable: bool) -> None:
        variable = self.source.variable("o")
        if not nullable:
            self.struct(field.struct, variable, where + ".")
            self.source.line(f"{target} = {variable}")
            return
        self.run.append(("b", variable))
        self.flush()
        null = "== 0" if field.tag is not None and self.flexible else "< 0"
        with self.source.block(f"if {variable} {null}:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.struct(field.struct, variable, where + ".")
            self.flush()
            self.source.line(f"{target} = {variable}")

    def sized(self, kind: Kind, target: str, where: str, nullable: bool, compact: bool) -> None:
        """Decode a length and a string, bytes or records."""
        size, end = self.source.variable("n"), "end"
        self.length(size, compact, "h" if kind is STRING else "i")
        with self.source.block(f"if {size} < 0:"):
            self.null(target, where, nullable)
        with self.source.block("else:"):
            self.source.line(f"{end} = position + {size}")
            too_long = f" or {size} > {STRING_SIZE_MAX}" if kind is STRING and compact else ""
            with self.source.block(f"if {end} > limit{too_long}:"):
                self.reject_length(where, size, "bytes")
            slices = _SLICES_OF_VIEW if self.of_view else _SLICES
            self.source.line(f"{target} = {slices[kind.name]}")
            self.source.line(f"position = {end}")

    def array(self, field: Field, target: str, where: str, nullable: bool, compact: bool) -> None:
        count = self.source.variable("n")
        self.length(count, compact, "i")
        with self.source.block(f"if {count} < 0:"):
            self.null(target, where, nullable)
        least = max(1, self.least_bytes(field))
        with self.source.block(f"elif {count} > (limit - position) // {least}:"):
            self.reject_length(where, count, "elements")
        with self.source.block("else:"):
            self.elements(field, target, where, count, compact)

    def elements(self, field: Field, target: str, where: str, count: str, compact: bool) -> None:
        line, kind = self.source.line, field.kind
        if kind is not None and kind.code and kind.size_bytes < 16:
            self.count(count)
            self.numbers(kind, target, count)
            return
        self.count(count)
        items, item = self.source.variable("a"), self.source.variable("o")
        line(f"{target} = {items} = []")
        if field.struct is not None and self.all_fixed(field.struct):
            self.fixed_structs(field.struct, items, count)
            count = f"{count} - len({items})"
        with self.source.block(f"for _ in range({count}):"):
            if kind is None:
                self.struct(field.struct, item, where + "[].")
            elif kind.code:
                self.run.append((kind.code, item))
            else:
                self.sized(kind, item, where + "[]", nullable=False, compact=compact)
            self.flush()
            line(f"{items}.append({item})")

    def numbers(self, kind: Kind, target: str, count: str) -> None:
        """Decode an array of numbers with one call; a short array with a `struct` created in advance."""
        readers = self.source.give_structs(kind.code or "", "unpack_from")
        reader = f"{readers}[{count}](data, position) if {count} < {ARRAYS_READY} else "
        self.source.line(f"{target} = list({reader}unpack_from(f'>{{{count}}}{kind.code}', data, position))")
        self.source.line(f"position += {count} * {kind.size_bytes}")

    def all_fixed(self, cls: Any) -> bool:
        """Whether a struct without tagged fields has a fixed size in this version."""
        plain = [
            field
            for field in fields_of(cls)
            if self.version in field.versions and (field.tag is None or not self.flexible)
        ]
        return bool(plain) and all(not field.is_array and field.kind and field.kind.code for field in plain)

    def fixed_structs(self, cls: Any, items: str, count: str) -> None:
        """Decode structs of fixed size with one iterator, while they have no tagged fields.

        It stops at the first struct with tagged fields; the loop that follows decodes that one and the rest.
        """
        line, item = self.source.line, self.source.variable("o")
        present = [field for field in fields_of(cls) if self.version in field.versions]
        plain = [field for field in present if field.tag is None or not self.flexible]
        codes = "".join(field.kind.code for field in plain if field.kind and field.kind.code)
        codes += "B" if self.flexible else ""
        values = [self.source.variable("v") for _ in codes.replace("16s", "s")]
        size_bytes = calcsize(">" + codes)
        reader = self.source.give_struct(codes, "iter_unpack")
        with self.source.block(f"if {count} > 2:"):
            chunk = f"data[position:position + {count} * {size_bytes}]"
            with self.source.block(f"for {', '.join(values)}, in {reader}({chunk}):"):
                if self.flexible:
                    with self.source.block(f"if {values[-1]}:"):
                        line("break")
                line(f"{item} = new({self.source.give_class(cls)})")
                for field in fields_of(cls):
                    if field not in plain:
                        self.default(field, f"{item}.{field.name}")
                for field, value in zip(plain, values, strict=False):
                    line(f"{item}.{field.name} = {value}")
                line(f"{items}.append({item})")
            line(f"position += {size_bytes} * len({items})")

    def null(self, target: str, where: str, nullable: bool) -> None:
        if nullable:
            self.source.line(f"{target} = None")
        else:
            self.source.line(f"raise MalformedMessage('{where} is null')")

    def reject_length(self, where: str, count: str, unit: str) -> None:
        message = f"{where} claims {{{count}}} {unit}, but {{limit - position}} bytes are left"
        self.source.line(f"raise MalformedMessage(f'{message}')")

    # -- bytes --

    def count(self, elements: str) -> None:
        """Count the elements of an array before any of them is created."""
        self.source.line(f"left -= {elements}")
        with self.source.block("if left < 0:"):
            self.source.line("raise ManyElements")

    def length(self, variable: str, compact: bool, code: str) -> None:
        """Decode a length or count into `variable`, negative for null, together with pending fixed-size fields."""
        self.run.append(("B" if compact else code, variable))
        self.flush()
        if compact:
            self.long(variable)
            self.source.line(f"{variable} -= 1")

    def long(self, variable: str) -> None:
        """Read the rest of an unsigned varint, if any; `variable` has its first byte."""
        with self.source.block(f"if {variable} > 127:"):
            self.source.line(f"{variable}, position = read_uvarint(data, position - 1)")

    def flush(self) -> None:
        """Read the pending fixed-size fields with one call."""
        if not self.run:
            return
        codes = "".join(code for code, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        self.run = []
        if codes == "B":
            self.source.line(f"{targets} = data[position]")
        else:
            reader = self.source.give_struct(codes, "unpack_from")
            self.source.line(f"{targets}{',' if ',' not in targets else ''} = {reader}(data, position)")
        self.source.line(f"position += {calcsize('>' + codes)}")

    def least_bytes(self, field: Field) -> int:
        """The minimum size of an array element, for the check of counts."""
        if field.kind is None:
            return self.least_bytes_of_struct(field.struct)
        if field.kind.code:
            return field.kind.size_bytes
        return 1 if self.flexible else 2 if field.kind is STRING else 4

    def least_bytes_of_struct(self, cls: Any) -> int:
        total = 1 if self.flexible else 0
        for field in fields_of(cls):
            if self.version not in field.versions or (field.tag is not None and self.flexible):
                continue
            if field.is_array:
                total += 1 if self.flexible else 4
            elif field.kind is None and self.version in field.nullable:
                total += 1
            else:
                total += self.least_bytes(field)
        return total


_SLICES = {
    STRING.name: "data[position:end].decode('utf-8', 'replace')",
    BYTES.name: "bytes(data[position:end])",
    RECORDS.name: "view[position:end]",
}
_SLICES_OF_VIEW = _SLICES | {STRING.name: "str(data[position:end], 'utf-8', 'replace')"}
"""The expressions that decode a value from `data`. Invalid UTF-8 becomes U+FFFD, as in Java."""


def holds_records(cls: Any, version: int) -> bool:
    """Whether a message has a `records` field, at any depth."""
    return any(
        field.kind is RECORDS or (field.struct is not None and holds_records(field.struct, version))
        for field in fields_of(cls)
        if version in field.versions
    )
