"""`Kind`: which values an argument of a client's method may have, derived from the argument's annotation.

Equivalent values of other types are converted: integers of other libraries (any object with `__index__`), any iterable
for a list, bytes-like objects for bytes, a string for the value of a header, instances of subclasses, and
`(topic, partition)` for a `TopicPartition`.
"""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

from minikafka.protocol.error_codes import TOPIC_NAMES
from minikafka.protocol.errors import InvalidTopicError
from minikafka.protocol.names import TopicPartition, check_topic_name
from minikafka.protocol.records.record import Headers
from minikafka.protocol.shortened import shortened

TEXT_BYTES_MAX = 32_767
"""The maximum length of a string in the protocol, in bytes: its length field is a signed 16-bit integer."""
INT16, INT32, INT64 = 1 << 15, 1 << 31, 1 << 63


class BadValue(ValueError):
    """An argument of the right type has a value that a method does not take.

    Attributes:
        for_users: the message without the method's name, for the users of a command-line tool.
    """

    for_users = ""


class BadTopicName(InvalidTopicError, BadValue):
    """An argument is not a valid topic name; raised before a request is sent, while a broker would refuse it later."""


class Refused(Exception):
    """A value is not of the expected kind. `path` locates the value within the argument, as in `topics[2].name`."""

    def __init__(self, value: Any, allowed: str, error: type[Exception] = TypeError) -> None:
        self.value, self.allowed, self.error, self.path = value, allowed, error, ""

    def within(self, path: str) -> Refused:
        """Prepend `path` to the path of the value, for the container that holds the value."""
        self.path = path + self.path
        return self

    def raised_by(self, method: str) -> Exception:
        """The exception for the caller of a method: TypeError, BadValue or BadTopicName, with a complete message."""
        value = shown(self.value)
        text = f"{method}({self.path}={value}): must be {self.allowed}"
        if self.error is TypeError:
            return TypeError(text)
        raised = BadTopicName(text) if self.error is BadTopicName else BadValue(text)
        raised.for_users = f"{value} must be {self.allowed}"
        return raised


class Kind(NamedTuple):
    """The values that an argument may have.

    Attributes:
        allowed: a description of the allowed values, for error messages.
        takes: returns whether a value has a suitable type.
        read: converts a value of a suitable type to the form that the method uses. Raises Refused.
    """

    allowed: str
    takes: Callable[[Any], bool]
    read: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        """Check the value's type with `takes`, and convert it with `read`. Raises Refused."""
        if not self.takes(value):
            raise Refused(value, self.allowed)
        return self.read(value)


def shown(value: Any) -> str:
    """The text of a value for an error message: its shortened `repr`, or its type if `repr` raises."""
    try:
        return shortened(repr(value))
    except Exception:  # noqa: BLE001 (the `__repr__` of an application, or an integer of too many digits)
        return f"<{type(value).__name__}>"


def whole_number(low: int, high: int, allowed: str = "") -> Kind:
    """The kind of an integer between two bounds, both included."""
    allowed = allowed or f"a whole number from {low} to {high}"

    def read(value: Any) -> int:
        try:
            number = operator.index(value)
        except Exception as error:
            raise Refused(value, allowed) from error
        if not low <= number <= high:
            raise Refused(value, allowed, ValueError)
        return number

    return Kind(allowed, lambda value: hasattr(type(value), "__index__") and not isinstance(value, bool), read)


def _text(value: str) -> str:
    value = str.__str__(value)
    if len(encoded(value)) > TEXT_BYTES_MAX:
        raise Refused(value, f"a string of at most {TEXT_BYTES_MAX} bytes of UTF-8", ValueError)
    return value


def encoded(value: str) -> bytes:
    """Encode a string as UTF-8. Raises Refused."""
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise Refused(value, "a string that UTF-8 can encode, without lone surrogates", ValueError) from None


def _topic_name(value: str) -> str:
    name = _text(value)
    try:
        check_topic_name(name)
    except InvalidTopicError:
        hint = "; the addresses of brokers are given as bootstrap_servers=…" if ":" in name else ""
        raise Refused(value, TOPIC_NAME.allowed + hint, BadTopicName) from None
    return name


def _number(value: Any) -> float:
    try:
        number = float(value)
    except Exception:  # noqa: BLE001 (an integer that is too large, or what `__float__` of an application raises)
        number = float("nan")
    if number != number:
        raise Refused(value, NUMBER.allowed, ValueError)
    return number


def _milliseconds(value: Any) -> Any:
    if not _number(value) >= 0:
        raise Refused(value, TIMEOUT.allowed, ValueError)
    return value


TEXT = Kind("a string", lambda value: isinstance(value, str), _text)
TOPIC_NAME = Kind(f"a string, the name of a topic: {TOPIC_NAMES}", TEXT.takes, _topic_name)
FLAG = Kind("True or False", lambda value: isinstance(value, bool), bool)
NUMBER = Kind(
    "a number", lambda value: hasattr(type(value), "__float__") and not isinstance(value, bool), _number
)
ANYTHING = Kind("anything", lambda value: True, lambda value: value)
Int16: TypeAlias = Annotated[int, whole_number(-INT16, INT16 - 1)]
Int32: TypeAlias = Annotated[int, whole_number(-INT32, INT32 - 1)]
Natural: TypeAlias = Annotated[int, whole_number(0, INT64 - 1)]
Positive: TypeAlias = Annotated[int, whole_number(1, INT64 - 1)]
TIMEOUT = Kind("milliseconds, 0 or more", NUMBER.takes, _milliseconds)
PARTITION_INDEX = whole_number(0, INT32 - 1)


def _instance(of: type) -> Kind:
    """The kind of an instance of a class. An instance with declared fields is copied, with each field converted."""
    declared: Iterable[str] = getattr(of, "_fields", getattr(of, "__dataclass_fields__", ()))
    kinds = {name: declared_kind(of.__annotations__[name], of.__module__) for name in declared}

    def read(value: Any) -> Any:
        if not kinds:
            return value
        fields = {}
        for name, kind in kinds.items():
            try:
                fields[name] = kind(getattr(value, name))
            except Refused as error:
                raise error.within(f".{name}") from None
        return of(**fields)

    article = "an" if of.__name__[0] in "AEIOU" else "a"
    return Kind(f"{article} {of.__name__}", lambda value: isinstance(value, of), read)


def _headers(value: Any) -> Headers:
    if value is None:
        return ()
    pairs = list(value.items() if not isinstance(value, list | tuple) and isinstance(value, Mapping) else value)
    for index, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise Refused(pair, "a pair of a name and a value").within(f"[{index}]")
        try:
            pairs[index] = (_header_name(pair[0]), header_value(pair[1]))
        except Refused as error:
            raise error.within(f"[{index}]") from None
    return tuple(pairs)


def _header_name(name: Any) -> str:
    if not isinstance(name, str):
        raise Refused(name, "the name of a header, which is a string")
    if not name.isascii():
        encoded(name)
    return name if type(name) is str else str.__str__(name)


def header_value(value: Any) -> bytes | None:
    """Convert the value of a header to bytes or None. Raises Refused."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return encoded(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise Refused(value, "the value of a header: bytes, a string (sent as UTF-8) or None")


def _partition(value: Any) -> TopicPartition:
    try:
        topic = TOPIC_NAME(value[0])
    except Refused as error:
        raise error.within("[0]") from None
    try:
        return TopicPartition(topic, PARTITION_INDEX(value[1]))
    except Refused as error:
        raise error.within("[1]") from None


def _items(of: Kind) -> Kind:
    allowed = f"a list, or another iterable, of which each is {of.allowed}"

    def read(value: Any) -> list[Any]:
        items = list(value)
        if of is ANYTHING:
            return items
        for index, item in enumerate(items):
            try:
                items[index] = of(item)
            except Refused as error:
                if _is(of, value):
                    raise Refused(value, f"{allowed}; put one into a list") from None
                raise error.within(f"[{index}]") from None
        return items

    return Kind(allowed, _is_iterable, read)


def _is(kind: Kind, value: Any) -> bool:
    try:
        kind(value)
    except Refused:
        return False
    return True


def one_of_several(kind: Kind) -> Kind:
    """The kind of each `*args` argument; a list in place of several arguments is refused with advice to unpack it."""

    def read(value: Any) -> Any:
        try:
            return kind(value)
        except Refused:
            if isinstance(value, Collection) and _is_iterable(value) and all(_is(kind, one) for one in value):
                raise Refused(value, f"{kind.allowed}; pass each by itself, as by *[…]") from None
            raise

    return Kind(kind.allowed, lambda value: True, read)


def _is_iterable(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray)


def _mapping(keys: Kind, values: Kind) -> Kind:
    def read(value: Mapping[Any, Any]) -> dict[Any, Any]:
        found = {}
        for key, one in value.items():
            try:
                named = keys(key)
            except Refused as error:
                raise error.within(" key") from None
            try:
                found[named] = values(one)
            except Refused as error:
                raise error.within(f"[{shown(key)}]") from None
        return found

    allowed = f"a mapping of which each key is {keys.allowed}, and each value {values.allowed}"
    return Kind(allowed, lambda value: isinstance(value, Mapping), read)


def _either(kinds: Sequence[Kind]) -> Kind:
    allowed = ", or ".join(dict.fromkeys(one.allowed for one in kinds))

    def read(value: Any) -> Any:
        return next(one for one in kinds if one.takes(value)).read(value)

    return Kind(allowed, lambda value: any(one.takes(value) for one in kinds), read)


def _one_of(values: Sequence[str]) -> Kind:
    allowed = "one of " + ", ".join(map(repr, values))

    def read(value: str) -> str:
        if value not in values:
            raise Refused(value, allowed, ValueError)
        return str.__str__(value)

    return Kind(allowed, lambda value: isinstance(value, str), read)


def declared_kind(annotation: Any, module: str) -> Kind:
    """The kind of an annotation, given as source text that is evaluated in the namespace of its module."""
    source = getattr(annotation, "__forward_arg__", annotation)  # NamedTuple fields have a ForwardRef
    return kind_of(eval(source, vars(sys.modules[module])))


def kind_of(annotation: Any) -> Kind:
    """The kind of an annotation. Raises TypeError for one that has none."""
    if annotation in _KINDS:
        return _KINDS[annotation]
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated and isinstance(args[1], Kind):
        return args[1]
    if origin in (UnionType, Union):
        order = sorted(args, key=lambda one: one is NoneType)
        return _either([kind_of(one) for one in order])
    if origin is Literal:
        return _one_of(args)
    if origin in (Iterable, Sequence):
        return _items(kind_of(args[0]))
    if origin is Callable:
        return Kind("a callable", callable, lambda value: value)
    if origin is Mapping:
        return _mapping(kind_of(args[0]), kind_of(args[1]))
    if inspect.isclass(annotation) and annotation.__module__.startswith("minikafka."):
        return _instance(annotation)
    raise TypeError(f"there is no Kind for the annotation {annotation!r}")


_PARTITION = Kind(
    "a TopicPartition or a tuple (topic, partition)",
    lambda value: isinstance(value, tuple | list) and len(value) == 2,
    _partition,
)
HEADERS = Kind(
    "headers: a mapping, or an iterable of pairs (name, value)",
    lambda value: isinstance(value, list | tuple) or value is None or _is_iterable(value),
    _headers,
)
TIMESTAMP = whole_number(0, INT64 - 1, "milliseconds since 1970, a whole number, 0 or more")
HeadersArgument: TypeAlias = Annotated[
    Mapping[str, bytes | str | None] | Iterable[tuple[str, bytes | str | None]] | None, HEADERS
]
TopicName: TypeAlias = Annotated[str, TOPIC_NAME]
Timestamp: TypeAlias = Annotated[int, TIMESTAMP]
TimeoutMs: TypeAlias = Annotated[float, TIMEOUT]
PartitionArgument: TypeAlias = TopicPartition | tuple[str, int]
PartitionIndex: TypeAlias = Annotated[int, PARTITION_INDEX]
_KINDS: dict[Any, Kind] = {
    Any: ANYTHING,
    NoneType: Kind("None", lambda value: value is None, lambda value: value),
    str: TEXT,
    bytes: Kind("bytes", lambda value: isinstance(value, bytes | bytearray | memoryview), bytes),
    bool: FLAG,
    float: NUMBER,
    int: whole_number(-INT64, INT64 - 1),
    TopicPartition: _PARTITION,
    tuple[str, int]: _PARTITION,
    Headers: HEADERS,
}
