"""Producers that run while a test injects faults into a cluster, and the check of what was acknowledged.

    with load("confluent-kafka", cluster.bootstrap, topic) as ledger:
        moment = ledger.now()
        cluster.kill(leader)
        ledger.wait_acknowledged(100)
    assert wrongs(ledger, read_back(cluster.bootstrap, topic)) == []
    print(ledger.gap_s(partition, moment))

acks=all and idempotence on; values are `key number`, so that loss, doubles and disorder of a key can be told.
"""

from __future__ import annotations

import itertools
import time
from abc import abstractmethod
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minikafka.client.blocking import Admin, Consumer, Producer
from minikafka.protocol.names import TopicPartition
from support.clients import eventually
from support.load import SETTLE_S, Librdkafka, Load
from support.logins import Login

KEYS = 12
DELIVERY_TIMEOUT_MS = 60_000
READ_TIMEOUT_S = 120


class Acknowledged(NamedTuple):
    """An acknowledged record; `at` in seconds of this process's clock, `offset` -1 if unknown."""

    at: float
    partition: int
    offset: int
    value: bytes


@dataclass
class Ledger:
    """The records passed to a producer, and their results."""

    sent: int = 0
    acknowledged: list[Acknowledged] = field(default_factory=list[Acknowledged])
    refused: list[str] = field(default_factory=list[str])

    @staticmethod
    def now() -> float:
        return time.monotonic()

    def hear(self, partition: int, offset: int, value: bytes) -> None:
        self.acknowledged.append(Acknowledged(self.now(), partition, offset, value))

    def wait_acknowledged(self, more: int, partition: int | None = None) -> None:
        """Wait until `count` more records (of a partition), produced from now on, are acknowledged; fails after a
        minute."""
        first, known = self.sent, len(self.acknowledged)

        def count() -> int:
            new = self.acknowledged[known:]
            return sum(partition in (None, one.partition) and _number(one.value) >= first for one in new)

        eventually(lambda: count() >= more, timeout_s=SETTLE_S)

    def gap_s(self, partition: int, moment: float) -> float:
        """The longest time without an acknowledgement of this partition from just before `moment` on."""
        times = [one.at for one in self.acknowledged if one.partition == partition]
        before = max((at for at in times if at <= moment), default=moment)
        later = [before, *(at for at in times if at > moment)]
        return max((b - a for a, b in itertools.pairwise(later)), default=0.0)


def wrongs(ledger: Ledger, found: dict[int, list[bytes]]) -> list[str]:
    """Every difference between the ledger and the partitions read from offset 0, as sentences."""
    said = [f"the producer was refused: {why}" for why in ledger.refused[:5]]
    for _, partition, offset, value in ledger.acknowledged:
        values = found.get(partition, [])
        if offset >= 0 and (offset >= len(values) or values[offset] != value):
            there = values[offset] if offset < len(values) else f"only {len(values)} records"
            said.append(f"{value!r} was acknowledged at {partition}:{offset}, where there is {there!r}")
    counts = Counter(value for values in found.values() for value in values)
    said += [f"{value!r} is there {count} times" for value, count in counts.items() if count > 1]
    said += [f"{one.value!r} was acknowledged and is lost" for one in ledger.acknowledged if one.value not in counts]
    said += [f"key {key!r} is out of order" for key in _disordered(found)]
    unanswered = ledger.sent - len(ledger.acknowledged) - len(ledger.refused)
    if unanswered:
        said.append(f"{unanswered} records were never answered")
    return said[:20]


def _disordered(found: dict[int, list[bytes]]) -> list[bytes]:
    numbers: defaultdict[bytes, list[int]] = defaultdict(list)
    for values in found.values():
        for value in values:
            numbers[value.partition(b" ")[0]].append(_number(value))
    return [key for key, some in numbers.items() if some != sorted(some)]


def _number(value: bytes) -> int:
    """The sequence number of the record."""
    return int(value.rpartition(b" ")[2])


def login_of(where: str | Login) -> Login:
    """How clients reach a cluster that is named by its address, or by a login."""
    return where if isinstance(where, Login) else Login.of(where)


def read_back(where: str | Login, topic: str) -> dict[int, list[bytes]]:
    """The values of each partition from offset 0; offsets must have no gap."""
    options = login_of(where).minikafka
    with Admin(**options) as admin:
        partitions = [TopicPartition(topic, one.index) for one in admin.describe_topic(topic).partitions]
    found: dict[int, list[bytes]] = {tp.partition: [] for tp in partitions}
    with Consumer(**options, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        deadline = time.monotonic() + READ_TIMEOUT_S
        while any(len(found[tp.partition]) < ends[tp] for tp in partitions):
            assert time.monotonic() < deadline, f"read {[len(some) for some in found.values()]} of {ends}"
            for record in consumer.poll(500):
                assert record.offset == len(found[record.partition]), f"a gap before {record}"
                found[record.partition].append(record.value)
    return found


class ClusterLoad(Load):
    """A producer whose values are `key number`."""

    def __init__(self, where: str | Login, topic: str) -> None:
        super().__init__()
        self.login = login_of(where)
        self.topic = topic
        self.ledger = Ledger()

    @abstractmethod
    def send_keyed(self, key: bytes, value: bytes) -> None: ...

    def send(self, number: int) -> None:
        key = b"key-%d" % (number % KEYS)
        self.ledger.sent += 1
        self.send_keyed(key, b"%s %d" % (key, number))

    def __enter__(self) -> Ledger:
        self.begin()
        self.ledger.wait_acknowledged(10)
        return self.ledger

    def __exit__(self, *_: object) -> None:
        self.end()


class ConfluentLoad(ClusterLoad):
    """librdkafka with short timeouts."""

    def __init__(self, where: str | Login, topic: str) -> None:
        super().__init__(where, topic)
        self._producer = self._made()

    def _made(self) -> Librdkafka:
        patience = {"delivery.timeout.ms": DELIVERY_TIMEOUT_MS, "socket.timeout.ms": 1000}
        return Librdkafka(**self.login.confluent, **patience)

    def send_keyed(self, key: bytes, value: bytes) -> None:
        self._producer.produce(self.topic, value, key=key, on_delivery=self._hear)

    def settle(self) -> None:
        self._producer.settle()

    def _hear(self, error: Any, message: Any) -> None:
        """The offset is unknown when a leader rejected an appended batch on stepping down, and librdkafka infers its
        success from that of the next batch."""
        if error is not None:
            self.ledger.refused.append(str(error))
        else:
            offset = message.offset()
            self.ledger.hear(message.partition(), -1 if offset is None else offset, message.value())


class DefaultLibrdkafkaLoad(ConfluentLoad):
    """librdkafka with its defaults, but idempotent: its times of reconnecting and of asking for metadata, too."""

    def _made(self) -> Librdkafka:
        return Librdkafka(**self.login.confluent, quick=False)


class MinikafkaLoad(ClusterLoad):
    """The minikafka client."""

    def __init__(self, where: str | Login, topic: str) -> None:
        super().__init__(where, topic)
        self._producer = Producer(**self.login.minikafka, linger_ms=1, delivery_timeout_ms=DELIVERY_TIMEOUT_MS)

    def begin(self) -> None:
        self._producer.__enter__()
        super().begin()

    def send_keyed(self, key: bytes, value: bytes) -> None:
        self._producer.send(self.topic, value, key=key, on_delivery=_Hearer(self.ledger, value))

    def settle(self) -> None:
        self._producer.flush()
        self._producer.__exit__(None, None, None)


class _Hearer:
    """Records the result of one record."""

    def __init__(self, ledger: Ledger, value: bytes) -> None:
        self._ledger = ledger
        self._value = value

    def __call__(self, metadata: Any, error: Any) -> None:
        if error is not None:
            self._ledger.refused.append(str(error))
        else:
            self._ledger.hear(metadata.partition, metadata.offset, self._value)


LOADS: dict[str, type[ClusterLoad]] = {"confluent-kafka": ConfluentLoad, "minikafka": MinikafkaLoad}
WITH_DEFAULTS: dict[str, type[ClusterLoad]] = {
    "confluent-kafka-with-defaults": DefaultLibrdkafkaLoad,
    "minikafka": MinikafkaLoad,
}


def load(client: str, where: str | Login, topic: str) -> ClusterLoad:
    """Create a producer of the named client."""
    return {**LOADS, **WITH_DEFAULTS}[client](where, topic)
