"""One small interface to third-party clients and ours, so that one test suite runs against each of them.

    client = connect("aiokafka", "127.0.0.1:9092")      # skips the test where the package is absent
    client.create_topic("t", partitions=3)
    client.produce("t", [Outgoing(b"value", key=b"key")], codec="zstd")
    [record] = client.consume("t", 1)

Adapters only translate calls: they do not retry or wait for a broker to catch up. A client's error is raised as
`Refused` with Kafka's error code, whatever class the client itself raised.
"""

from __future__ import annotations

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import pytest

from minikafka.protocol.errors import RequestTimedOutError

if TYPE_CHECKING:
    from collections.abc import Iterator

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ADAPTERS = {
    "confluent-kafka": ("confluent_kafka", "support.clients_confluent", "ConfluentClient"),
    "kafka-python": ("kafka", "support.clients_kafka_python", "KafkaPythonClient"),
    "aiokafka": ("aiokafka", "support.clients_aiokafka", "AiokafkaClient"),
    "minikafka": ("minikafka.client", "support.clients_minikafka", "MinikafkaClient"),
}
CLIENTS = tuple(ADAPTERS)
FOREIGN_CLIENTS = CLIENTS[:3]
WAIT_S = 60.0

Closable = TypeVar("Closable", bound="Reader")
Value = TypeVar("Value")
Headers = tuple[tuple[str, bytes | None], ...]
Transactions = Sequence[tuple[Sequence[bytes], bool]]
"""(values, whether to commit) for each transaction."""


class Refused(Exception):
    """The client reported an error; `code` is Kafka's number for it, `text` the client's error message."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to produce; None leaves the choice to the client."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A record as a consumer returned it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @classmethod
    def of(cls, record: Any) -> Received:
        """Built from the attributes that the Python clients' records share."""
        place = (record.topic, record.partition, record.offset, record.timestamp)
        return cls(*place, record.key, record.value, tuple(record.headers))


@dataclass(frozen=True, slots=True)
class Start:
    """Where a reader starts; exactly one field is set."""

    reset: str | None = None
    offset: int | None = None
    timestamp_ms: int | None = None


EARLIEST = Start(reset="earliest")
LATEST = Start(reset="latest")


class Reader(Protocol):
    """A consumer, with assigned partitions or as a member of a group."""

    def poll(self, timeout_s: float) -> list[Received]:
        """The records received within the time; returns at once if there are any."""
        ...

    def close(self) -> None: ...


class Member(Reader, Protocol):
    """A consumer whose partitions are assigned by its group; commits only through `commit`."""

    def assignment(self) -> set[tuple[str, int]]: ...

    def commit(self) -> None:
        """Commits synchronously the position after all records that `poll` returned."""
        ...


class Client(ABC):
    """One client library, connected to one cluster.

    Args:
        options: further options of the library, such as those of security.
    """

    name: str
    writes_null_headers = True

    def __init__(self, bootstrap: str, options: Mapping[str, Any]) -> None:
        self.bootstrap = bootstrap
        self.options = options

    @property
    @abstractmethod
    def codecs(self) -> tuple[str, ...]:
        """The codecs of `CODECS` that this installation of the client supports."""

    @abstractmethod
    def create_topic(
        self, topic: str, *, partitions: int = 1, settings: Mapping[str, str] | None = None
    ) -> None: ...

    @abstractmethod
    def delete_topic(self, topic: str) -> None: ...

    @abstractmethod
    def add_partitions(self, topic: str, *, total: int) -> None: ...

    @abstractmethod
    def topics(self) -> dict[str, int]:
        """Every topic with its number of partitions."""

    @abstractmethod
    def describe_settings(self, topic: str) -> dict[str, str]: ...

    @abstractmethod
    def alter_settings(self, topic: str, settings: Mapping[str, str]) -> None: ...

    @abstractmethod
    def produce(
        self,
        topic: str,
        records: Sequence[Outgoing],
        *,
        codec: str = "none",
        idempotent: bool = False,
        acks: int = -1,
        size_bytes_max: int = 1 << 20,
    ) -> list[tuple[int, int]]:
        """Produces all records and waits for delivery; returns (partition, offset) in the order of `records`."""

    @abstractmethod
    def transact(self, transactional_id: str, topic: str, transactions: Transactions) -> None:
        """Writes the values of each transaction to two partitions in turn, and commits or aborts it."""

    @abstractmethod
    def reader(self, topic: str, *, partition: int = 0, start: Start = EARLIEST) -> Reader: ...

    @abstractmethod
    def member(
        self, group: str, topics: Sequence[str], *, reset: str = "earliest", session_timeout_ms: int = 30_000
    ) -> Member: ...

    @abstractmethod
    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """The earliest and the latest offset."""

    @abstractmethod
    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        """The first offset at or after that time; None if there is none."""

    @abstractmethod
    def delete_records(self, topic: str, before_offset: int, partition: int = 0) -> int:
        """Returns the new first offset."""

    @abstractmethod
    def groups(self) -> set[str]: ...

    @abstractmethod
    def close(self) -> None: ...

    def consume(
        self, topic: str, count: int, *, partition: int = 0, start: Start = EARLIEST
    ) -> list[Received]:
        """Reads until `count` records were received; fails after a timeout."""
        with closing(self.reader(topic, partition=partition, start=start)) as reader:
            return read(reader, count)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(name: str, bootstrap: str, **options: Any) -> Client:
    """The adapter of that name, with options of its library; skips the test if its package is not installed."""
    package, module, class_name = ADAPTERS[name]
    pytest.importorskip(package)
    return getattr(importlib.import_module(module), class_name)(bootstrap, options)


@contextmanager
def closing(reader: Closable) -> Iterator[Closable]:
    try:
        yield reader
    finally:
        reader.close()


def read(reader: Reader, count: int, *, timeout_s: float = WAIT_S) -> list[Received]:
    """Polls until `count` records were received; fails with the missing number after a timeout."""
    deadline, got = time.monotonic() + timeout_s, list[Received]()
    while len(got) < count:
        assert time.monotonic() < deadline, f"{len(got)} of {count} records came in {timeout_s} s"
        got += reader.poll(0.5)
    return got


def eventually(look: Callable[[], Value], *, timeout_s: float = WAIT_S) -> Value:
    """Calls a function until its result is true, and returns the result."""
    deadline = time.monotonic() + timeout_s
    while not (value := look()):
        assert time.monotonic() < deadline, f"still {value!r} after {timeout_s} s"
        time.sleep(0.02)
    return value


async def until_answered(ask: Callable[[], Awaitable[Value]]) -> Value:
    """Repeats a request after timeouts, for clients with a short timeout; raises any other error."""
    while True:
        with suppress(RequestTimedOutError):
            return await ask()
