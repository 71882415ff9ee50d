"""Repeated `kill -9` under load: no acknowledged record is lost, none is duplicated, order is preserved.

A producer writes numbered records and notes which were acknowledged at which offset, while the node is killed at seeded
times and restarted. The records read afterwards are compared with these notes.
`MINIKAFKA_NODE_KILLS=20` kills more often.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect, read
from support.clients_logs import check_indexes, scan, segments
from support.load import SETTLE_S, Librdkafka, Load
from support.node import NodeProcess, ServerProcess
from support.oracle import Oracle, needs_oracle

from minikafka.protocol.names import TopicPartition
from minikafka.storage.disks.disk import RealDisk
from minikafka.storage.logs.log import Log, LogConfig
from minikafka.storage.logs.log_context import Checkpointed, LogContext

TOPIC = "ledger"
PARTITIONS = 3
UP_MS_MAX = 900
KILLS = int(os.environ.get("MINIKAFKA_NODE_KILLS", "10"))
SEGMENT_BYTES = 1 << 20

READ_TIMEOUT_S = 120

Offset = int
Value = bytes


@dataclass
class Ledger:
    """The records passed to the producer, and the results."""

    sent: dict[int, list[Value]] = field(default_factory=lambda: {n: [] for n in range(PARTITIONS)})
    acknowledged: dict[int, dict[Offset, Value]] = field(default_factory=lambda: {n: {} for n in range(PARTITIONS)})
    refused: list[str] = field(default_factory=list)

    def unanswered(self) -> int:
        return sum(map(len, self.sent.values())) - sum(map(len, self.acknowledged.values()))


def differences(ledger: Ledger, found: dict[int, list[Value]]) -> list[str]:
    """Returns a sentence for each difference between the notes and the partitions read from offset 0."""
    found_differences = [f"produce failed: {error}" for error in ledger.refused[:5]]
    for partition, values in found.items():
        for offset, value in ledger.acknowledged[partition].items():
            if offset >= len(values) or values[offset] != value:
                found_differences.append(f"{value!r} was acknowledged at {partition}:{offset} but is missing")
        doubled = len(values) - len(set(values))
        if doubled:
            found_differences.append(f"partition {partition} has {doubled} duplicates")
        elif values != ledger.sent[partition][: len(values)]:
            found_differences.append(f"partition {partition} differs from the sent records or their order")
    return found_differences


class LedgerLoad(Load):
    """A producer that writes to the partitions round-robin."""

    records_a_tick = 40

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()

    @abstractmethod
    def send_to(self, partition: int, value: Value) -> None: ...

    def send(self, number: int) -> None:
        value = b"%d " % number * 10
        self.ledger.sent[number % PARTITIONS].append(value)
        self.send_to(number % PARTITIONS, value)

    def __enter__(self) -> Ledger:
        self.begin()
        return self.ledger

    def __exit__(self, *_: object) -> None:
        self.end()


class ConfluentLoad(LedgerLoad):
    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._producer = Librdkafka(**{"bootstrap.servers": bootstrap})

    def send_to(self, partition: int, value: Value) -> None:
        self._producer.produce(TOPIC, value, partition=partition, on_delivery=self._hear)

    def settle(self) -> None:
        self._producer.settle()

    def _hear(self, error: Any, message: Any) -> None:
        if error is not None:
            self.ledger.refused.append(str(error))
        else:
            self.ledger.acknowledged[message.partition()][message.offset()] = message.value()


class KafkaPythonLoad(LedgerLoad):
    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        kafka = pytest.importorskip("kafka")
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            acks="all",
            linger_ms=1,
            reconnect_backoff_max_ms=200,
        )

    def send_to(self, partition: int, value: Value) -> None:
        future = self._producer.send(TOPIC, value, partition=partition)
        future.add_callback(self._hear, value)
        future.add_errback(lambda error: self.ledger.refused.append(repr(error)))

    def settle(self) -> None:
        self._producer.flush(SETTLE_S)
        self._producer.close(SETTLE_S)

    def _hear(self, value: Value, answer: Any) -> None:
        self.ledger.acknowledged[answer.partition][answer.offset] = value


def kill_again_and_again(node: ServerProcess, times: int, seed: int) -> None:
    """Kills the node repeatedly, each time up to a second after its start."""
    moments = random.Random(seed)
    for _ in range(times):
        time.sleep(moments.randrange(UP_MS_MAX) / 1000)
        node.kill()
        node.restart()


def read_back(bootstrap: str) -> dict[int, list[Value]]:
    """Returns the values of each partition from offset 0, which must have no gaps."""
    found: dict[int, list[Value]] = {}
    with connect("confluent-kafka", bootstrap) as client:
        for partition in range(PARTITIONS):
            earliest, latest = client.offsets(TOPIC, partition)
            reader = client.reader(TOPIC, partition=partition)
            records = read(reader, latest - earliest, timeout_s=READ_TIMEOUT_S)
            reader.close()
            assert [record.offset for record in records] == list(range(latest))
            found[partition] = [record.value or b"" for record in records]
    return found


def survive(node: ServerProcess, load: Callable[[str], LedgerLoad], *, kills: int, seed: int) -> dict[int, list[Value]]:
    """Runs a history of kills, checks it, and returns the records of the topic."""
    with connect("confluent-kafka", node.bootstrap) as client:
        client.create_topic(TOPIC, partitions=PARTITIONS, settings={"segment.bytes": str(SEGMENT_BYTES)})
    with load(node.bootstrap) as ledger:
        kill_again_and_again(node, kills, seed)
    found = read_back(node.bootstrap)
    assert differences(ledger, found) == [], f"seed {seed}"
    assert ledger.unanswered() == 0
    assert all(len(values) > kills for values in ledger.sent.values()), "too few records were sent"
    return found


def check_recovery(directory: Path, partition: int, count: int) -> None:
    """The log recovers as after a crash; its indexes, also rebuilt ones, agree with a full scan."""
    for path in [*directory.glob("*.index"), *directory.glob("*.timeindex")][::2]:
        path.unlink()
    log = Log.open(
        LogContext(RealDisk(), lambda: time.time_ns() // 1_000_000),
        str(directory),
        TopicPartition(TOPIC, partition),
        LogConfig(segment_bytes=SEGMENT_BYTES),
        Checkpointed(),
    )
    assert (log.start_offset, log.end_offset) == (0, count)
    log.close()
    for path in segments(directory):
        check_indexes(path)
    assert scan(segments(directory)[-1])[-1].last_offset + 1 == count


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path / "data") as running:
        yield running


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("load", "kills", "seed"), [(ConfluentLoad, KILLS, 20), (KafkaPythonLoad, 5, 5)])
def test_no_acknowledged_record_is_lost_or_duplicated(
    node: NodeProcess, load: Callable[[str], LedgerLoad], kills: int, seed: int
) -> None:
    found = survive(node, load, kills=kills, seed=seed)
    node.kill()
    for partition, values in found.items():
        check_recovery(node.data_dir / f"{TOPIC}-{partition}", partition, len(values))


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.oracle
@pytest.mark.reference
@needs_oracle
@pytest.mark.parametrize("load", [ConfluentLoad, KafkaPythonLoad])
def test_apache_kafka_passes_the_same_test(tmp_path: Path, load: Callable[[str], LedgerLoad]) -> None:
    with Oracle(tmp_path / "data") as kafka:
        survive(kafka, load, kills=1, seed=1)


def history() -> tuple[Ledger, dict[int, list[Value]]]:
    ledger = Ledger()
    for partition, number in itertools.product(range(PARTITIONS), range(5)):
        ledger.sent[partition].append(b"%d" % number)
        ledger.acknowledged[partition][number] = b"%d" % number
    return ledger, {partition: list(values) for partition, values in ledger.sent.items()}


def test_the_check_accepts_a_correct_history() -> None:
    assert differences(*history()) == []


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ([0, 1, 2, 3], "was acknowledged at 1:4 but is missing"),
        ([0, 1, 3, 4], "differs from the sent records"),
        ([0, 1, 2, 3, 4, 4], "partition 1 has 1 duplicates"),
        ([0, 2, 1, 3, 4], "sent records or their order"),
    ],
)
def test_the_check_detects_loss_gaps_duplicates_and_disorder(kept: Sequence[int], expected: str) -> None:
    ledger, found = history()
    found[1] = [b"%d" % number for number in kept]
    assert any(expected in sentence for sentence in differences(ledger, found))
