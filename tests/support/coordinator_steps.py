"""Very many transactions and offsets in a coordinator's log, and the steps in which it does something about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trio

from minikafka.broker.coordinator.groups.group_coordinator import TOPIC
from minikafka.broker.coordinator.groups.state.group_records import NEVER, OffsetCommitValue, encode_record
from minikafka.broker.coordinator.transactions.transaction import Transaction, TransactionState
from minikafka.broker.coordinator.transactions.transaction_records import encode_record as encode_transaction
from minikafka.protocol.messages.group_records import OffsetCommitKey
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.record import Record
from support.coordinator_node import CLOCK_MS, MemoryLogs
from support.transaction_bench import PARTITIONS

TRANSACTIONS = "__transaction_state"
LONG_AGO_MS = CLOCK_MS - 100 * 86_400_000


class Steps(trio.abc.Instrument):
    """Counts something between two checkpoints of each task: `counts` has the steps in which there was any."""

    def __init__(self) -> None:
        self.count = 0
        self.counts: list[int] = []
        self.rounds: list[int] = []
        """In which round of the loop each of these steps was."""
        self._round = 0

    def add(self, number: int = 1) -> None:
        self.count += number

    def before_io_wait(self, timeout: float) -> None:
        self._round += 1

    def before_task_step(self, task: Any) -> None:
        self.count = 0

    def after_task_step(self, task: Any) -> None:
        if self.count:
            self.counts.append(self.count)
            self.rounds.append(self._round)


@contextmanager
def counted_calls(owner: Any, name: str) -> Iterator[Steps]:
    """Count the calls of a method in the steps of the running loop."""
    steps, method = Steps(), getattr(owner, name)

    def counting(*args: Any, **named: Any) -> Any:
        steps.add()
        return method(*args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, counting)
        trio.lowlevel.add_instrument(steps)
        yield steps
        trio.lowlevel.remove_instrument(steps)


def transactions(logs: MemoryLogs, count: int, value: Transaction) -> None:
    partition = TopicPartition(TRANSACTIONS, 0)
    for first in range(0, count, 500):
        records = [Record(-1, 0, *encode_transaction(f"id {number}", value, 1)) for number in range(first, first + 500)]
        logs.append(partition, bytearray(encode_batch(records)))


def offsets(logs: MemoryLogs, keys: list[tuple[str, str, int]]) -> None:
    """Commits of long ago, in partition 0."""
    value = OffsetCommitValue(offset=1, commit_timestamp=LONG_AGO_MS, expire_timestamp=NEVER)
    for first in range(0, len(keys), 500):
        records = [
            Record(-1, 0, *encode_record(OffsetCommitKey(group=group, topic=topic, partition=number), value))
            for group, topic, number in keys[first : first + 500]
        ]
        logs.append(TopicPartition(TOPIC, 0), bytearray(encode_batch(records)))


def open_since(start_ms: int) -> Transaction:
    state = TransactionState.ONGOING
    return Transaction(7, 60_000, 7, producer_epoch=0, state=state, partitions=PARTITIONS, start_ms=start_ms,
                       last_update_ms=start_ms)  # fmt: skip
