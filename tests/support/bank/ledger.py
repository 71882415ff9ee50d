"""Reads the ledger with librdkafka: snapshots, one after the other, in a thread while the faults go on."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import confluent_kafka as ck

from support.bank.transfers import Audit, Torn

PAUSE_S = 0.5
TORN_S = 60.0
"""How long a transaction may be visible in part: its coordinator, or a leader, may be dead meanwhile."""
READ_S = 90.0


def read_ledger(
    bootstrap: str, ledger: str, partitions: int, isolation: str = "read_committed"
) -> dict[int, list[tuple[int, bytes]]]:
    """Every record from the first to the last stable offset, by a new consumer."""
    consumer = ck.Consumer({
        "bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": isolation, "log_level": 0,
        "enable.auto.commit": False, "enable.partition.eof": True,
    })  # fmt: skip
    try:
        consumer.assign([ck.TopicPartition(ledger, index, 0) for index in range(partitions)])
        return _until_ends(consumer, partitions)
    finally:
        consumer.close()


def _until_ends(consumer: ck.Consumer, partitions: int) -> dict[int, list[tuple[int, bytes]]]:
    found: dict[int, list[tuple[int, bytes]]] = {index: [] for index in range(partitions)}
    ended = set[int]()
    deadline = time.monotonic() + READ_S
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"the ledger cannot be read to its end: {ended} of {partitions}"
        for message in consumer.consume(5_000, 0.1):
            if message.error() is None:
                found[message.partition()].append((message.offset(), message.value()))
            elif message.error().code() == ck.KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    return found


class Auditor:
    """Takes snapshots until the block is left; then raises what the checks of one have raised."""

    def __init__(self, bootstrap: str, ledger: str, partitions: int) -> None:
        self.audit = Audit()
        self._ledger = (bootstrap, ledger, partitions)
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
