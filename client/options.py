"""The options of Producer, Consumer and Admin: Kafka's names with underscores, each declared with default and bounds.

`make` turns keyword arguments into an options object. It rejects unknown arguments and impossible values with an
InvalidOption that names the argument, its value and the allowed values. `make pages` writes them to `arguments.py`, for
type checkers and editors, and to `docs/reference/options.md`.
"""

# ruff: noqa: RUF009 (option() makes a dataclass field, as dataclasses.field does)

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, Literal, TypeVar, get_args

from minikafka.client.argument_kinds import shown
from minikafka.client.assignor import Assignor
from minikafka.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from minikafka.client.option_checks import (
    DEFAULT_BOOTSTRAP_SERVERS,
    INT32_MAX,
    BootstrapServers,
    Deserializer,
    Serializer,
    addresses,
    between,
    boolean,
    deserializer,
    function,
    nonempty_text,
    objects,
    one_of,
    option,
    optional,
    plain,
    serializer,
    text,
)
from minikafka.client.security.security_options import ELSEWHERE, InvalidSecurity, SecurityOptions
from minikafka.client.unknown_arguments import unknown_argument
from minikafka.protocol.records.record import RECORD_OVERHEAD_BYTES

O = TypeVar("O", bound="ClientOptions")  # noqa: E741
_CLASSIC_ONLY = ("session_timeout_ms", "heartbeat_interval_ms", "partition_assignment_strategy")
"""What the coordinator decides under the consumer protocol: options that Kafka's consumer rejects there."""

RecoveryStrategy = Literal["rebootstrap", "none"]
Acks = Literal["all", -1, 0, 1, "-1", "0", "1"]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
OffsetReset = Literal["earliest", "latest", "none"]
GroupProtocol = Literal["classic", "consumer"]
IsolationLevel = Literal["read_uncommitted", "read_committed"]
StopAt = Literal["end"]
Start = Literal["eager", "lazy"]
AssignorName = Literal["range", "roundrobin", "cooperative-sticky"]
Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""`(topic, key, value, partition count) -> partition`; key and value as serialized."""


class InvalidOption(ValueError):
    """Raised for an unknown argument of Producer, Consumer or Admin, or for an impossible value.

    Attributes:
        option: The argument with the impossible value; "" for others.
    """

    def __init__(self, text: str, option: str = "") -> None:
        super().__init__(text)
        self.option = option


def make(kind: type[O], arguments: Mapping[str, Any], owner: str) -> O:
    """Options from keyword arguments; `owner` is the class whose constructor got them, for error messages.

    Raises InvalidOption.
    """
    known = {item.name: item for item in fields(kind)}
    given: dict[str, Any] = {}
    for name, value in arguments.items():
        item = known.get(name)
        if item is None:
            raise InvalidOption(unknown_argument(owner, name, list(known), _ELSEWHERE))
        allowed = item.metadata["check"](value := plain(value))
        if allowed is not None:
            raise InvalidOption(f"{owner}({_said(item, value)}): must be {allowed}", name)
        given[name] = value
    options = kind(**given)
    options.check(owner, frozenset(given))
    try:
        options.check_security(frozenset(given))
    except InvalidSecurity as error:
        item = known[error.option]
        said = _said(item, getattr(options, item.name))
        raise InvalidOption(f"{owner}({said}): {error.reason}", item.name) from None
    return options


def _said(item: Field[Any], value: Any) -> str:
    """An option with its value, for an error message; a secret is not shown."""
    return f"{item.name}={'…' if item.metadata['secret'] and value is not None else shown(value)}"


_ELSEWHERE = {
    "consumer_timeout_ms": "poll(timeout_ms) waits for so long, and stop_at='end' ends at the end of the log",
    "api_version": "versions are negotiated with each broker",
    "broker_version": "versions are negotiated with each broker",
    "on_delivery": "give it to send()",
    "dr_cb": "give on_delivery to send()",
    **ELSEWHERE,
}
"""Options of other clients, by how their names begin, and what to do here."""


_FUNCTION = optional(function)
_SERIALIZER, _DESERIALIZER = optional(serializer), optional(deserializer)
_PRODUCER_INTERCEPTORS, _CONSUMER_INTERCEPTORS = objects(ProducerInterceptor), objects(ConsumerInterceptor)
_CODE = (_FUNCTION, _SERIALIZER, _DESERIALIZER, _PRODUCER_INTERCEPTORS, _CONSUMER_INTERCEPTORS)
_NONEMPTY_TEXT = optional(nonempty_text)
_LEVEL = optional(between(-131_072, 22))


def _strategies(value: Any) -> str | None:
    names = get_args(AssignorName)
    listed = not isinstance(value, str) and isinstance(value, Sequence) and value
    if listed and all(one in names if isinstance(one, str) else _is_assignor(one) for one in value):
        return None
    return "a list of " + ", ".join(map(repr, names)) + " or assignor objects"


def _is_assignor(value: Any) -> bool:
    return isinstance(value, Assignor) and not isinstance(value, type) and nonempty_text(value.name) is None


@dataclass(frozen=True, kw_only=True)
class ClientOptions(SecurityOptions):
    """Options of every client (times in ms, sizes in bytes)."""

    bootstrap_servers: BootstrapServers = option(
        DEFAULT_BOOTSTRAP_SERVERS, addresses,
        'Where to find the cluster: "host1:9092,host2:9092", or a list of such addresses, with or without '
        '`PLAINTEXT://`.',
    )
    client_id: str = option(
        "minikafka", text,
        "The name under which brokers log and limit this client.",
    )
    request_timeout_ms: int = option(
        30_000, between(1),
        "How long a request waits for its response, in ms, before its connection is closed and it is repeated.",
    )
    default_api_timeout_ms: int = option(
        60_000, between(1),
        "How long a method repeats its requests after retriable errors, in ms.",
    )
    retry_backoff_ms: int = option(
        100, between(0),
        "The pause before the first repetition, in ms; it doubles with each.",
    )
    retry_backoff_max_ms: int = option(
        1_000, between(0),
        "The longest pause before a repetition, in ms.",
    )
    reconnect_backoff_ms: int = option(
        50, between(0),
        "The pause before an address is tried again, in ms; it doubles with each attempt.",
    )
    reconnect_backoff_max_ms: int = option(
        1_000, between(0),
        "The longest pause before an address is tried again, in ms.",
    )
    socket_connection_setup_timeout_ms: int = option(
        10_000, between(1),
        "How long an attempt to connect may take, in ms.",
    )
    metadata_max_age_ms: int = option(
        300_000, between(0),
        "How old metadata may be before they are requested again, in ms.",
    )
    metadata_recovery_strategy: RecoveryStrategy = option(
        "rebootstrap", one_of(*get_args(RecoveryStrategy)),
        "What to do when no known broker can be reached: begin again with `bootstrap_servers`, or not.",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = option(
        300_000, between(0),
        "How long brokers may give no metadata before the client begins again, in ms.",
    )
    allow_auto_create_topics: bool = option(
        True, boolean,
        "Whether brokers may create a topic that is asked for and does not exist.",
    )

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

    bootstrap_controllers: BootstrapServers | None = option(
        None, optional(addresses),
        "Controllers to ask instead of brokers (KIP-919), without `bootstrap_servers`: for the quorum, ACLs, features, "
        "and settings of controllers. They serve few other methods.",
    )
    allow_auto_create_topics: bool = option(
        False, boolean,
        "Whether brokers may create a topic that is asked for and does not exist.",
    )

    def check(self, owner: str, given: frozenset[str]) -> None:
        if self.bootstrap_controllers is not None and self.bootstrap_servers != DEFAULT_BOOTSTRAP_SERVERS:
            raise InvalidOption(f"{owner}: not both bootstrap_servers and bootstrap_controllers")


@dataclass(frozen=True, kw_only=True)
class ProducerOptions(ClientOptions):
    """Options of a Producer (times in ms, sizes in bytes)."""

    acks: Acks = option(
        "all", one_of(*get_args(Acks)),
        "Which replicas must have a record before it counts as delivered: all in-sync ones (-1), the leader "
        "(1), or none (0).",
    )
    linger_ms: int = option(
        5, between(0),
        "How long a batch waits for more records before it is sent, in ms.",
    )
    batch_size: int = option(
        262_144, between(0),
        "The size of a batch in bytes, not compressed, at which it is sent; a larger record has a batch of its own.",
    )
    compression_type: CompressionType = option(
        "none", one_of(*get_args(CompressionType)),
        "The codec of batches.",
    )
    compression_level: int | None = option(
        None, _LEVEL,
        "The level of the codec, in the range of Kafka's option: 1 to 9 or -1 for gzip, 1 to 17 for lz4, -131072 to 22 "
        "for zstd, none for snappy; None is its default, which is also Kafka's.",
        "compression.gzip.level, compression.lz4.level, compression.zstd.level",
    )
    max_request_size: int = option(
        1_048_576, between(1),
        "The largest record, and the largest request of several batches, in bytes.",
    )
    buffer_memory: int = option(
        33_554_432, between(RECORD_OVERHEAD_BYTES, 1 << 62),
        "How many bytes of records wait for delivery before `send` waits; a larger record is refused.",
    )
    max_block_ms: int = option(
        60_000, between(0, 1 << 62),
        "How long `send` waits for a topic or for memory, in ms; `commit` and `abort` wait as long.",
    )
    metadata_max_idle_ms: int = option(
        300_000, between(5_000),
        "How long a topic that no record is sent to stays among those whose metadata are requested, in ms.",
    )
    delivery_timeout_ms: int = option(
        120_000, between(0),
        "How long the delivery of a record may take, in ms, from `send` on.",
    )
    retries: int = option(
        INT32_MAX, between(0),
        "The most times that a batch is sent again, as long as `delivery_timeout_ms` allows.",
    )
    enable_idempotence: bool = option(
        True, boolean,
        "Whether brokers recognize batches that were sent twice; other `acks` than all, no `retries` or more than 5 "
        "requests in flight turn it off.",
    )
    max_in_flight_requests_per_connection: int = option(
        5, between(1),
        "How many Produce requests to a broker may wait for their responses.",
    )
    transactional_id: str | None = option(
        None, _NONEMPTY_TEXT,
        "The name under which the producer writes in transactions; of two producers with it, the older one is "
        "fenced.",
    )
    transaction_timeout_ms: int = option(
        60_000, between(1),
        "How long a transaction may be open, in ms, before its coordinator aborts it.",
    )
    partitioner: Partitioner | None = option(
        None, _FUNCTION,
        "A function `(topic, key, value, partition count) -> partition`; None is that of the JVM client.",
        "partitioner.class",
    )
    key_serializer: Serializer | None = option(
        None, _SERIALIZER,
        "Makes bytes of a key: a function of it, or an object with `serialize(topic, headers, data)`.",
    )
    value_serializer: Serializer | None = option(
        None, _SERIALIZER,
        "Makes bytes of a value: a function of it, or an object with `serialize(topic, headers, data)`.",
    )
    interceptors: Sequence[ProducerInterceptor] = option(
        (), _PRODUCER_INTERCEPTORS,
        "Objects that see each record before it is sent and when it is acknowledged, in order.",
        "interceptor.classes",
    )
    start: Start = option(
        "eager", one_of(*get_args(Start)),
        'Whether entering the block waits for a broker; with "lazy" the first `send` or `begin` does, for '
        "`max_block_ms`.",
        "",
    )

    @property
    def required_acks(self) -> int:
        """-1 for all, 1 or 0."""
        return -1 if self.acks == "all" else int(self.acks)

    def check(self, owner: str, given: frozenset[str]) -> None:
        self._check_level(owner)
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

    def _check_level(self, owner: str) -> None:
        if self.compression_level is None or self.compression_type == "none":
            return
        from minikafka.protocol.settings.registry import NODE_SETTINGS

        codec, level = self.compression_type, self.compression_level
        setting = NODE_SETTINGS.get(f"compression.{codec}.level")
        if setting is None or setting.valid is None:
            raise InvalidOption(f"{owner}(compression_level={level}): {codec} has no levels")
        if setting.valid.problem(level) is not None:
            raise InvalidOption(f"{owner}(compression_level={level}): those of {codec} are {setting.valid.text}")

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

    allow_auto_create_topics: bool = option(
        False, boolean,
        "Whether brokers may create a topic that is asked for and does not exist.",
    )
    group_id: str | None = option(
        None, _NONEMPTY_TEXT,
        "The group whose members share the partitions, and for which offsets are committed.",
    )
    group_instance_id: str | None = option(
        None, _NONEMPTY_TEXT,
        "The name of a static member, which keeps its partitions while it restarts.",
    )
    group_protocol: GroupProtocol = option(
        "classic", one_of(*get_args(GroupProtocol)),
        "The protocol of the group: classic, or the consumer protocol of KIP-848.",
    )
    group_remote_assignor: str | None = option(
        None, _NONEMPTY_TEXT,
        "The assignor of the coordinator, under the consumer protocol; None leaves the choice to it.",
    )
    client_rack: str | None = option(
        None, _NONEMPTY_TEXT,
        "Where the client is: it reads from a replica in the same rack, if brokers have a replica selector.",
    )
    auto_offset_reset: OffsetReset = option(
        "latest", one_of(*get_args(OffsetReset)),
        'Where to begin without a committed offset, or where it no longer exists; "none" raises an error.',
    )
    enable_auto_commit: bool = option(
        True, boolean,
        "Whether the consumer commits the positions after processed records by itself.",
    )
    auto_commit_interval_ms: int = option(
        5_000, between(0),
        "The interval between two automatic commits, in ms.",
    )
    isolation_level: IsolationLevel = option(
        "read_uncommitted", one_of(*get_args(IsolationLevel)),
        "Whether records of open and aborted transactions are returned.",
    )
    fetch_min_bytes: int = option(
        1, between(0),
        "How many bytes a broker waits for, before it answers a request for records.",
    )
    fetch_max_bytes: int = option(
        52_428_800, between(0),
        "The largest response with records, in bytes; a first batch that is larger is returned all the same.",
    )
    fetch_max_wait_ms: int = option(
        500, between(0),
        "How long a broker waits for `fetch_min_bytes`, in ms.",
    )
    max_partition_fetch_bytes: int = option(
        1_048_576, between(0),
        "The largest part of a response for one partition, in bytes.",
    )
    max_poll_records: int = option(
        500, between(1),
        "The largest number of records that one `poll` returns.",
    )
    max_poll_interval_ms: int = option(
        300_000, between(1),
        "How long an application may process records before its partitions are given to others, in ms.",
    )
    session_timeout_ms: int = option(
        45_000, between(1),
        "How long the coordinator waits for a heartbeat, in ms, before it removes the member.",
    )
    heartbeat_interval_ms: int = option(
        3_000, between(1),
        "How often the member sends a heartbeat, in ms.",
    )
    partition_assignment_strategy: Sequence[AssignorName | Assignor] = option(
        ("range", "cooperative-sticky"), _strategies,
        "The assignors that the member supports, the preferred one first: names, or objects of `Assignor`.",
    )
    check_crcs: bool = option(
        True, boolean,
        "Whether the checksums of batches are checked.",
    )
    exclude_internal_topics: bool = option(
        True, boolean,
        "Whether a pattern matches no internal topics.",
    )
    stop_at: StopAt | None = option(
        None, optional(one_of(*get_args(StopAt))),
        '"end": iterations end where the partitions ended when they were assigned; None: they never end.',
        "",
    )
    key_deserializer: Deserializer | None = option(
        None, _DESERIALIZER,
        "Makes an object of a key: a function of its bytes, or an object with `deserialize(topic, headers, data)`.",
    )
    value_deserializer: Deserializer | None = option(
        None, _DESERIALIZER,
        "Makes an object of a value: a function of its bytes, or an object with `deserialize(topic, headers, "
        "data)`.",
    )
    interceptors: Sequence[ConsumerInterceptor] = option(
        (), _CONSUMER_INTERCEPTORS,
        "Objects that see records before the application does, and commits, in order.",
        "interceptor.classes",
    )

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
