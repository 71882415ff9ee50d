"""Reads the ledger with librdkafka: snapshots, one after the other, in a thread while the faults go on."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import confluent_kafka as ck

from support.bank.transfers import Audit, Torn
from support.logins import Login

PAUSE_S = 0.5
TORN_S = 60.0
"""How long a transaction may be visible in part: its coordinator, or a leader, may be dead meanwhile."""
READ_S = 90.0
WAIT_S = 5
RETRY_S = 0.1


def read_ledger(
    login: Login, ledger: str, partitions: int, isolation: str = "read_committed"
) -> dict[int, list[tuple[int, bytes]]]:
    """Every record from the first to the last stable offset, by a new consumer."""
    consumer = ck.Consumer({
        **login.confluent, "group.id": "unused", "isolation.level": isolation, "log_level": 0,
        "enable.auto.commit": False, "enable.partition.eof": True,
    })  # fmt: skip
    try:
        consumer.assign([ck.TopicPartition(ledger, index, 0) for index in range(partitions)])
        return _until_ends(consumer, ledger, partitions)
    finally:
        consumer.close()


def _until_ends(consumer: ck.Consumer, ledger: str, partitions: int) -> dict[int, list[tuple[int, bytes]]]:
    """Up to what the ends are at first, as others go on writing."""
    found: dict[int, list[tuple[int, bytes]]] = {index: [] for index in range(partitions)}
    deadline = time.monotonic() + READ_S
    ends = {index: _end(consumer, ck.TopicPartition(ledger, index), deadline) for index in found}
    left = {index for index, end in ends.items() if end > 0}
    while left:
        assert time.monotonic() < deadline, f"the ledger cannot be read to its end: {left} of {ends}"
        for message in consumer.consume(5_000, 0.1):
            index = message.partition()
            if message.error() is None:
                found[index].append((message.offset(), message.value()))
                if message.offset() >= ends[index] - 1:
                    left.discard(index)
            elif message.error().code() == ck.KafkaError._PARTITION_EOF:
                left.discard(index)
    return found


def _end(consumer: ck.Consumer, partition: ck.TopicPartition, deadline: float) -> int:
    """The last stable offset, once the partition has a leader."""
    while True:
        try:
            end: int = consumer.get_watermark_offsets(partition, WAIT_S)[1]
            return end
        except ck.KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)


class Auditor:
    """Takes snapshots until the block is left; then raises what the checks of one have raised."""

    def __init__(self, login: Login, ledger: str, partitions: int) -> None:
        self.audit = Audit()
        self._ledger = (login, ledger, partitions)
        self._torn: dict[str, float] = {}
        self._ending = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        self._checking = Future[None]()

    def check(self) -> bool:
        """Check a snapshot; whether each transaction is visible as a whole. Raises AssertionError."""
        try:
            self.audit.check(read_ledger(*self._ledger))
            self._torn = {}
        except Torn as seen:
            now = time.monotonic()
            self._torn = {attempt: self._torn.get(attempt, now) for attempt in seen.attempts}
            late = [attempt for attempt, since in self._torn.items() if now - since > TORN_S]
            assert not late, f"visible in part for {TORN_S} s: {late}"
        return not self._torn

    @property
    def failed(self) -> bool:
        """Whether a check has failed; leaving the block raises why."""
        return self._checking.done()

    def _run(self) -> None:
        while not self._ending.wait(PAUSE_S):
            self.check()

    def __enter__(self) -> Auditor:
        self._checking = self._thread.submit(self._run)
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        self._thread.shutdown()
        self._checking.result()
