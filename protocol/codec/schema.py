"""The schema of a message class, read from its annotations.

`message` stores the unresolved `Declaration` on a class; `fields_of` resolves it on first use, so that a module can
refer to a struct before its definition, and importing a hundred messages is cheap.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from minikafka.protocol.types import BOOL, Kind

LATEST = 0x7FFF
"""The upper bound of open ranges such as ``12+``."""


class Implied:
    """The default implied by the type of a field: zero, empty, a new list or a new struct."""

    def __repr__(self) -> str:
        return "IMPLIED"


class Required:
    """The default of a field that must be given; in versions that lack it, its value is the implied default."""

    def __repr__(self) -> str:
        return "REQUIRED"


IMPLIED = Implied()
REQUIRED = Required()


class Versions(NamedTuple):
    """An inclusive range of versions; empty when `last` is below `first`."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __str__(self) -> str:
        if self.last < self.first:
            return "none"
        if self.last == LATEST:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


EVERY = Versions(0, LATEST)
NEVER = Versions(1, 0)


def versions_of(text: str) -> Versions:
    """Parse Kafka's notation: ``3-13``, ``9+``, ``4``, ``none``.

    Raises:
        ValueError: the text is none of these.
    """
    if text == "none":
        return NEVER
    match = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
    if match is None:
        raise ValueError(f"{text!r} is not a range of versions, such as 3-13, 9+, 4 or none")
    first = int(match[1])
    return Versions(first, LATEST if match[2] else int(match[3] or first))


class Options(NamedTuple):
    """The arguments of `message.field`. A tuple, since 1,200 of them are made at each start."""

    default: Any = REQUIRED
    versions: str = "0+"
    nullable: str | None = None
    tag: int | None = None
    ignorable: bool = False
    never_flexible: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """A resolved field.

    Attributes:
        name: the attribute name, in snake_case.
        kind: the primitive type of the field or of its elements; None for structs.
        struct: the struct class of the field or of its elements; None for primitives.
        is_array: whether it is an array of `kind` or `struct`.
        versions: versions that have the field.
        nullable: versions in which it may be null.
        tag: its tag in flexible versions; None for a positional field.
        default: the value when absent: for arrays None or IMPLIED (a fresh list), for structs None or IMPLIED.
        ignorable: whether its value is dropped silently by versions that lack the field.
        never_flexible: whether flexible versions keep the old encoding (the client id of the request header).
        required: whether the constructor requires it.
    """

    name: str
    kind: Kind | None
    struct: type | None
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any
    ignorable: bool
    never_flexible: bool
    required: bool

    @property
    def type_name(self) -> str:
        """The type in Kafka's notation: ``int32``, ``[]string``, ``[]FetchTopic``."""
        name = self.kind.name if self.kind else declaration_of(self.struct).name
        return f"[]{name}" if self.is_array else name


@dataclass(slots=True)
class Declaration:
    """The unresolved declaration that the decorators store on a class.

    Attributes:
        name: the name in Kafka's schemas.
        key: the API key of a request or response, None for other messages and for structs.
        versions: the versions of the message; all for structs.
        flexible: the versions with compact lengths and tagged fields; structs follow their message.
        options: by field name, in wire order.
    """

    name: str
    key: int | None
    versions: Versions
    flexible: Versions
    options: dict[str, Options]
    annotations: dict[str, Any]


def declaration_of(cls: Any) -> Declaration:
    """The declaration of a message or struct class.

    Raises:
        TypeError: the class is neither.
    """
    declaration = cls.__dict__.get("__declaration__")
    if declaration is None:
        raise TypeError(f"{cls!r} is neither a @message nor a @struct")
    return declaration


@cache
def fields_of(cls: type) -> tuple[Field, ...]:
    """All fields of a message or struct class, in wire order.

    Raises:
        TypeError: an annotation is not a type of the protocol.
    """
    declaration = declaration_of(cls)
    names = vars(sys.modules[cls.__module__])
    return tuple(
        _field(name, _resolve(declaration.annotations[name], names, f"{cls.__name__}.{name}"), options)
        for name, options in declaration.options.items()
    )


def default_of(field: Field) -> Any:
    """The value of a field that is not set; a new list or struct if that is its type."""
    if field.default is not IMPLIED:
        return field.default
    if field.is_array:
        return []
    if field.struct is not None:
        return fresh(field.struct)
    assert field.kind is not None
    return field.kind.zero


def fresh(cls: Any) -> Any:
    """A struct with every field at its default."""
    return cls(**{field.name: default_of(field) for field in fields_of(cls)})


def _resolve(annotation: Any, names: dict[str, Any], where: str) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, names)
    except NameError as error:
        raise TypeError(f"{where}: {error}") from error


def _field(name: str, annotation: Any, options: Options) -> Field:
    annotation, is_optional = _without_none(annotation)
    is_array = get_origin(annotation) is list
    if is_array:
        (annotation,) = get_args(annotation)
    kind = _kind_of(annotation)
    if kind is None and not hasattr(annotation, "__declaration__"):
        raise TypeError(f"field {name}: {annotation!r} is not a type of the wire protocol")
    default = IMPLIED if options.default is REQUIRED else options.default
    if default is IMPLIED and kind is not None and not is_array:
        default = kind.zero
    elif default == [] and is_array:
        default = IMPLIED
    nullable = versions_of(options.nullable) if options.nullable else EVERY if is_optional else NEVER
    return Field(
        name=name,
        kind=kind,
        struct=None if kind else annotation,
        is_array=is_array,
        versions=versions_of(options.versions),
        nullable=nullable,
        tag=options.tag,
        default=default,
        ignorable=options.ignorable,
        never_flexible=options.never_flexible,
        required=options.default is REQUIRED,
    )


def _kind_of(annotation: Any) -> Kind | None:
    if annotation is bool:
        return BOOL
    if get_origin(annotation) is Annotated:
        return next((extra for extra in get_args(annotation)[1:] if isinstance(extra, Kind)), None)
    return None


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (Union, UnionType):
        return annotation, False
    rest = [part for part in get_args(annotation) if part is not NoneType]
    if len(rest) != 1:
        raise TypeError(f"{annotation!r} is a union; only `… | None` is supported")
    return rest[0], True
