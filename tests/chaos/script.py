"""`Script`: writes short histories by hand, one operation after the other."""

from __future__ import annotations

from dataclasses import replace

from chaos.history import (
    AbortTransaction,
    Action,
    BeginTransaction,
    CommitOffsets,
    CommitTransaction,
    FetchOffsets,
    Outcome,
    Poll,
    Position,
    Produce,
    Read,
    ReadAll,
    Recorder,
    ReplicaLog,
)
from minikafka.protocol.names import TopicPartition

FIRST, SECOND = TopicPartition("events", 0), TopicPartition("events", 1)
COMPACTED, KEEPING, FORGETTING = (TopicPartition(name, 0) for name in ("settings", "keeping", "forgetting"))
"""Topics with compaction: with tombstones that may go, that stay, and that go only after what they delete."""
OK, FAIL, UNKNOWN = Outcome.OK, Outcome.FAIL, Outcome.UNKNOWN


class Script:
    """Records operations one after the other. The methods return the number of the operation."""

    def __init__(self) -> None:
        self.recorder = Recorder()

    def do(self, process: str, action: Action, outcome: Outcome = OK, invoked: Action | None = None) -> int:
        event = self.recorder.invoke(process, action if invoked is None else invoked)
        self.recorder.complete(event, outcome, action)
        return event.operation

    def send(
        self, value: str, offset: int | None, by: str = "p", to: TopicPartition = FIRST, outcome: Outcome = OK,
        key: str | None = "k", idempotent: bool = True, acks_all: bool = True, tombstone: bool = False,
    ) -> int:  # fmt: skip
        action = Produce(to, key, value, offset, acks_all=acks_all, idempotent=idempotent, tombstone=tombstone)
        return self.do(by, action, outcome, replace(action, offset=None))

    def poll(
        self, *records: tuple[int, str], by: str = "c", of: TopicPartition = FIRST, key: str | None = "k",
        read_committed: bool = True, outcome: Outcome = OK, high_watermark: int | None = None,
    ) -> int:  # fmt: skip
        reads = tuple(Read(of, offset, key, value) for offset, value in records)
        ends = () if high_watermark is None else ((of, high_watermark),)
        return self.do(by, Poll(reads, read_committed, ends), outcome)

    def read_all(
        self, *records: tuple[int, str], of: TopicPartition = FIRST, start: int = 0, position: int | None = None,
        end: int | None = None, outcome: Outcome = OK, key: str | None = "k", read_committed: bool = True,
    ) -> int:  # fmt: skip
        reads = tuple(Read(of, offset, key, value) for offset, value in records)
        end = max([offset + 1 for offset, _ in records], default=0) if end is None else end
        position = end if position is None else position
        return self.do("last", ReadAll(of, start, position, end, reads, read_committed), outcome)

    def position(self, offset: int | None, by: str = "c", of: TopicPartition = FIRST, cause: str = "rebalance") -> int:
        return self.do(by, Position(((of, offset),), cause))

    def begin(self, by: str = "t") -> int:
        return self.do(by, BeginTransaction())

    def commit(self, by: str = "t", outcome: Outcome = OK) -> int:
        return self.do(by, CommitTransaction(), outcome)

    def abort(self, by: str = "t", outcome: Outcome = OK) -> int:
        return self.do(by, AbortTransaction(), outcome)

    def replica(self, node: int, *records: tuple[int, str], high_watermark: int) -> int:
        reads = tuple(Read(FIRST, offset, "k", value) for offset, value in records)
        return self.do("disk", ReplicaLog(FIRST, node, 0, high_watermark, reads))

    def commit_offset(self, offset: int, by: str = "c", outcome: Outcome = OK) -> int:
        return self.do(by, CommitOffsets("group", ((FIRST, offset),)), outcome)

    def fetch_offset(self, offset: int | None, by: str = "d") -> int:
        return self.do(by, FetchOffsets("group", ((FIRST, offset),)))
