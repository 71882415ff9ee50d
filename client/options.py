"""The options of Producer, Consumer and Admin: Kafka's names with underscores, each declared with default and bounds.

`make` turns keyword arguments into an options object. It rejects unknown arguments and impossible values with an
InvalidOption that names the argument, its value and the allowed values. The same names and types are listed in
`arguments.py` for type checkers.
"""

# ruff: noqa: RUF009 (option() makes a dataclass field, as dataclasses.field does)

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, get_args, runtime_checkable

from minikafka.client.argument_kinds import shown
from minikafka.client.assignor import Assignor
from minikafka.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from minikafka.protocol.records.record import Headers

O = TypeVar("O", bound="ClientOptions")  # noqa: E741
Check = Callable[[Any], "str | None"]
"""Returns None for an allowed value, else a description of the allowed values."""
INT32_MAX = (1 << 31) - 1

_CLASSIC_ONLY = ("session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy")
"""What the coordinator decides under the consumer protocol: options that Kafka's consumer rejects there."""

BootstrapServers: TypeAlias = str | Sequence[str]
SecurityProtocol = Literal["PLAINTEXT"]
RecoveryStrategy = Literal["rebootstrap", "none"]
Acks = Literal["all", -1, 0, 1, "-1", "0", "1"]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
OffsetReset = Literal["earliest", "latest", "none"]
GroupProtocol = Literal["classic", "consumer"]
IsolationLevel = Literal["read_uncommitted", "read_committed"]
StopAt = Literal["end"]
AssignorName = Literal["range", "roundrobin", "cooperative-sticky"]
Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""`(topic, key, value, partition count) -> partition`; key and value as serialized."""


@runtime_checkable
class RecordSerializer(Protocol):
    """A serializer that is told the topic and the headers of the record. Source: Kafka's `Serializer`."""

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """The bytes of a key or value; not called for bytes, nor for null, which is None."""


Serializer = Callable[[Any], bytes | None] | RecordSerializer
"""A function of the object, such as `str.encode`; or an object whose `serialize` has topic and headers as well."""


@runtime_checkable
class RecordDeserializer(Protocol):
    """A deserializer that is told the topic and the headers of the record. Source: Kafka's `Deserializer`."""

    def deserialize(self, topic: str, headers: Headers, data: bytes) -> Any:
        """The object of a key or value; not called for null, which is None."""


Deserializer = Callable[[bytes], Any] | RecordDeserializer
"""A function of the bytes, such as `json.loads`; or an object whose `deserialize` has topic and headers as well."""


class InvalidOption(ValueError):
    """Raised for an unknown argument of Producer, Consumer or Admin, or for an impossible value."""


def make(
    kind: type[O], arguments: Mapping[str, Any], owner: str, bootstrap_servers: BootstrapServers | None = None
) -> O:
    """Options from keyword arguments; `owner` is the class whose constructor got them, for error messages.

    Raises InvalidOption.
    """
    if bootstrap_servers is not None:
        arguments = {**arguments, "bootstrap_servers": bootstrap_servers}
    known = {item.name: item for item in fields(kind)}
    for name, value in arguments.items():
        item = known.get(name)
        if item is None:
            raise InvalidOption(_unknown(owner, name, list(known)))
        allowed = item.metadata["check"](value)
        if allowed is not None:
            raise InvalidOption(f"{owner}({name}={value!r}): must be {allowed}")
    options = kind(**arguments)
    options.check(owner, frozenset(arguments))
    return options


def _unknown(owner: str, name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name.replace(".", "_").replace("-", "_"), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(sorted(known))}"
    return f"{owner} has no argument {name!r}; {hint}"


def between(low: int, high: int = INT32_MAX) -> Check:
    """A whole number between two bounds, both included."""

    def check(value: Any) -> str | None:
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return None if fits else f"a whole number from {low} to {high}"

    return check


def one_of(*values: Any) -> Check:
    """One of the given values, of the same type."""

    def check(value: Any) -> str | None:
        fits = any(type(value) is type(one) and value == one for one in values)
        return None if fits else "one of " + ", ".join(map(repr, values))

    return check


def boolean(value: Any) -> str | None:
    return None if isinstance(value, bool) else "True or False"


def text(value: Any) -> str | None:
    return None if isinstance(value, str) else "a string"


def nonempty_text(value: Any) -> str | None:
    return None if isinstance(value, str) and value else "a non-empty string"


def optional(check: Check) -> Check:
    """A value that passes `check`, or None."""

    def checked(value: Any) -> str | None:
        allowed = None if value is None else check(value)
        return f"{allowed}, or None" if allowed else None

    return checked


def function(value: Any) -> str | None:
    return None if callable(value) else "a callable"


def _deserializer(value: Any) -> str | None:
    fits = callable(value) or isinstance(value, RecordDeserializer)
    return None if fits else "a callable, or an object with a method deserialize(topic, headers, data)"


def _serializer(value: Any) -> str | None:
    fits = callable(value) or isinstance(value, RecordSerializer)
    return None if fits else "a callable, or an object with a method serialize(topic, headers, data)"


def objects(kind: type) -> Check:
    """A list of objects of a class."""

    def check(value: Any) -> str | None:
        fits = isinstance(value, list | tuple) and all(isinstance(one, kind) for one in value)
        return None if fits else f"a list of {kind.__name__} objects"

    return check


_FUNCTION = optional(function)
_SERIALIZER, _DESERIALIZER = optional(_serializer), optional(_deserializer)
_PRODUCER_INTERCEPTORS, _CONSUMER_INTERCEPTORS = objects(ProducerInterceptor), objects(ConsumerInterceptor)
_CODE = (_FUNCTION, _SERIALIZER, _DESERIALIZER, _PRODUCER_INTERCEPTORS, _CONSUMER_INTERCEPTORS)
_NONEMPTY_TEXT = optional(nonempty_text)
_LEVEL = optional(between(-131_072, 22))


def _addresses(value: Any) -> str | None:
    try:
        parse_addresses(value)
    except ValueError as error:
        return f"'host1:9092,host2:9092' or a list of such addresses ({error})"
    return None


def _strategies(value: Any) -> str | None:
    names = get_args(AssignorName)
    listed = not isinstance(value, str) and isinstance(value, Sequence) and value
    if listed and all(not isinstance(one, str) or one in names for one in value):
        return None
    return "a list of " + ", ".join(map(repr, names)) + " or assignor objects"


def option(default: Any, check: Check) -> Any:
    """A field of an options class; `check` describes the allowed values for InvalidOption."""
    return field(default=default, metadata={"check": check})


def parse_addresses(value: str | Sequence[str]) -> list[tuple[str, int]]:
    """(host, port) for each part of a `bootstrap.servers` list. Raises ValueError."""
    parts = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, Sequence) else [value]
    if not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{shown(value)} is neither a string nor a list of strings")
    addresses = [parse_address(part.strip()) for part in parts if part.strip()]
    if not addresses:
        raise ValueError("no address")
    return addresses


def parse_address(part: str) -> tuple[str, int]:
    """(host, port) of `HOST:PORT` or, as in the setting of a broker, of `PLAINTEXT://HOST:PORT`. Raises ValueError."""
    protocol, slashes, address = part.rpartition("://")
    if slashes and protocol.upper() not in get_args(SecurityProtocol):
        known = " or ".join(get_args(SecurityProtocol))
        raise ValueError(f"{shown(part)} has the protocol {shown(protocol)}, of which only {known} is supported")
    host, colon, port = address.rpartition(":")
    named = colon and host and host.isprintable() and "/" not in host and not any(one.isspace() for one in host)
    if not named or not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise ValueError(f"{shown(part)} is not HOST:PORT")
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise ValueError(f"{shown(part)} is not HOST:PORT, as no host has that name: {error}") from None
    return host.strip("[]"), int(port)


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """Options of every client (times in ms, sizes in bytes)."""

    bootstrap_servers: BootstrapServers = option("localhost:9092", _addresses)
    client_id: str = option("minikafka", text)
    security_protocol: SecurityProtocol = option("PLAINTEXT", one_of(*get_args(SecurityProtocol)))
    request_timeout_ms: int = option(30_000, between(1))
    default_api_timeout_ms: int = option(60_000, between(1))
    retry_backoff_ms: int = option(100, between(0))
    retry_backoff_max_ms: int = option(1_000, between(0))
    reconnect_backoff_ms: int = option(50, between(0))
    reconnect_backoff_max_ms: int = option(1_000, between(0))
    socket_connection_setup_timeout_ms: int = option(10_000, between(1))
    metadata_max_age_ms: int = option(300_000, between(0))
    metadata_recovery_strategy: RecoveryStrategy = option("rebootstrap", one_of(*get_args(RecoveryStrategy)))
    metadata_recovery_rebootstrap_trigger_ms: int = option(300_000, between(0))
    allow_auto_create_topics: bool = option(True, boolean)

    def check(self, owner: str, given: frozenset[str]) -> None:
        """Raise InvalidOption if arguments contradict each other; `given` names the arguments that were passed."""

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The default of every option."""
        return {item.name: item.default for item in fields(cls) if item.default is not MISSING}

    @classmethod
    def functions(cls) -> frozenset[str]:
        """The names of the options that take functions or objects of the application, such as a serializer."""
        return frozenset(item.name for item in fields(cls) if item.metadata["check"] in _CODE)


@dataclass(frozen=True, kw_only=True)
class AdminOptions(ClientOptions):
    """Options of an Admin."""

    allow_auto_create_topics: bool = option(False, boolean)


@dataclass(frozen=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """Options of a Producer (times in ms, sizes in bytes)."""

    acks: Acks = option("all", one_of(*get_args(Acks)))
    linger_ms: int = option(5, between(0))
    batch_size: int = option(262_144, between(0))
    compression_type: CompressionType = option("none", one_of(*get_args(CompressionType)))
    compression_level: int | None = option(None, _LEVEL)
    max_request_size: int = option(1_048_576, between(1))
    buffer_memory: int = option(33_554_432, between(0, 1 << 62))
    max_block_ms: int = option(60_000, between(0, 1 << 62))
    delivery_timeout_ms: int = option(120_000, between(0))
    retries: int = option(INT32_MAX, between(0))
    enable_idempotence: bool = option(True, boolean)
    max_in_flight_requests_per_connection: int = option(5, between(1))
    transactional_id: str | None = option(None, _NONEMPTY_TEXT)
    transaction_timeout_ms: int = option(60_000, between(1))
    partitioner: Partitioner | None = option(None, _FUNCTION)
    key_serializer: Serializer | None = option(None, _SERIALIZER)
    value_serializer: Serializer | None = option(None, _SERIALIZER)
    interceptors: Sequence[ProducerInterceptor] = option((), _PRODUCER_INTERCEPTORS)

    @property
    def required_acks(self) -> int:
        """-1 for all, 1 or 0."""
        return -1 if self.acks == "all" else int(self.acks)

    def check(self, owner: str, given: frozenset[str]) -> None:
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise InvalidOption(
                f"{owner}(delivery_timeout_ms={self.delivery_timeout_ms}): must be at least"
                f" linger_ms + request_timeout_ms, that is {self.linger_ms + self.request_timeout_ms}"
            )
        conflict = self._idempotence_conflict()
        if conflict and "enable_idempotence" in given:
            raise InvalidOption(f"{owner}({conflict}): not allowed with enable_idempotence=True")
        if self.transactional_id is not None and (conflict or not self.enable_idempotence):
            raise InvalidOption(f"{owner}({conflict or 'enable_idempotence=False'}): not allowed with transactional_id")
        if conflict:  # As in Kafka: weaker settings turn off idempotence unless it was requested explicitly.
            object.__setattr__(self, "enable_idempotence", False)

    def _idempotence_conflict(self) -> str | None:
        if not self.enable_idempotence:
            return None
        if self.required_acks != -1:
            return f"acks={self.acks!r}"
        if self.retries == 0:
            return "retries=0"
        if self.max_in_flight_requests_per_connection > 5:
            return f"max_in_flight_requests_per_connection={self.max_in_flight_requests_per_connection}"
        return None


@dataclass(frozen=True, kw_only=True)
class ConsumerOptions(ClientOptions):
    """Options of a Consumer (times in ms, sizes in bytes)."""

    allow_auto_create_topics: bool = option(False, boolean)
    group_id: str | None = option(None, _NONEMPTY_TEXT)
    group_instance_id: str | None = option(None, _NONEMPTY_TEXT)
    group_protocol: GroupProtocol = option("classic", one_of(*get_args(GroupProtocol)))
    group_remote_assignor: str | None = option(None, _NONEMPTY_TEXT)
    client_rack: str | None = option(None, _NONEMPTY_TEXT)
    auto_offset_reset: OffsetReset = option("latest", one_of(*get_args(OffsetReset)))
    enable_auto_commit: bool = option(True, boolean)
    auto_commit_interval_ms: int = option(5_000, between(0))
    isolation_level: IsolationLevel = option("read_uncommitted", one_of(*get_args(IsolationLevel)))
    fetch_min_bytes: int = option(1, between(0))
    fetch_max_bytes: int = option(52_428_800, between(0))
    fetch_max_wait_ms: int = option(500, between(0))
    max_partition_fetch_bytes: int = option(1_048_576, between(0))
    max_poll_records: int = option(500, between(1))
    max_poll_interval_ms: int = option(300_000, between(1))
    session_timeout_ms: int = option(45_000, between(1))
    heartbeat_interval_ms: int = option(3_000, between(1))
    partition_assignment_strategy: Sequence[AssignorName | Assignor] = option(
        ("range", "cooperative-sticky"), _strategies
    )
    check_crcs: bool = option(True, boolean)
    exclude_internal_topics: bool = option(True, boolean)
    stop_at: StopAt | None = option(None, optional(one_of(*get_args(StopAt))))
    key_deserializer: Deserializer | None = option(None, _DESERIALIZER)
    value_deserializer: Deserializer | None = option(None, _DESERIALIZER)
    interceptors: Sequence[ConsumerInterceptor] = option((), _CONSUMER_INTERCEPTORS)

    def check(self, owner: str, given: frozenset[str]) -> None:
        for name in _CLASSIC_ONLY if self.group_protocol == "consumer" else ():
            if name in given:
                value = getattr(self, name)
                raise InvalidOption(f"{owner}({name}={value!r}): not allowed with group_protocol='consumer'")
        if self.group_remote_assignor is not None and self.group_protocol == "classic":
            raise InvalidOption(
                f"{owner}(group_remote_assignor={self.group_remote_assignor!r}): needs group_protocol='consumer'"
            )
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise InvalidOption(
                f"{owner}(heartbeat_interval_ms={self.heartbeat_interval_ms}): must be less than"
                f" session_timeout_ms, that is {self.session_timeout_ms}"
            )
        if self.group_instance_id is not None and self.group_id is None:
            raise InvalidOption(f"{owner}(group_instance_id={self.group_instance_id!r}): needs a group_id")
