"""A coordinator that loads its partitions: one at a time, in steps, and nobody is held up meanwhile."""

from __future__ import annotations

import pytest
import trio
from support.coordinator_node import MemoryLogs, MemoryNode

from minikafka.broker.coordinator.groups.group_coordinator import TOPIC
from minikafka.broker.coordinator.groups.group_shard import GroupShard
from minikafka.broker.coordinator.groups.state.group_records import OffsetCommitValue
from minikafka.broker.coordinator.replay import APPLY_WORK, WORK_AT_ONCE
from minikafka.broker.coordinator.runtime import Status
from minikafka.protocol.messages.group_records import OffsetCommitKey
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.record import Record

PARTITIONS, BATCHES, PER_BATCH = 17, 40, 100
PER_PARTITION = BATCHES * PER_BATCH
BUFFER_BYTES = 100_000
"""`offsets.load.buffer.size`: a partition takes several reads."""


def filled() -> MemoryLogs:
    """Each partition has commits of as many keys as records; the topic of a key names the partition that it is in."""
    logs = MemoryLogs(PARTITIONS)
    for partition in range(PARTITIONS):
        for first in range(0, PER_PARTITION, PER_BATCH):
            records = [
                Record(-1, 1, *GroupShard.encode(
                    OffsetCommitKey(group="g", topic=str(partition), partition=first + number),
                    OffsetCommitValue(offset=number),
                ))
                for number in range(PER_BATCH)
            ]  # fmt: skip
            logs.append(TopicPartition(TOPIC, partition), bytearray(encode_batch(records)))
    return logs


class Loading:
    """What a load does between two turns of another task, and where it reads."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.applied: list[int] = []
        self.steps: list[int] = []
        self.reads: list[int] = []
        self.loading: set[int] = set()
        logs, loading, apply = filled(), self, GroupShard.apply

        def applied(shard: GroupShard, key: OffsetCommitKey, *rest: object) -> None:
            loading.applied.append(int(key.topic))
            apply(shard, key, *rest)  # type: ignore[arg-type]

        read = logs.read

        async def reads(partition: TopicPartition, offset: int, max_bytes: int) -> bytes:
            loading.reads.append(partition.partition)
            return await read(partition, offset, max_bytes)

        patch.setattr(GroupShard, "apply", applied)
        patch.setattr(logs, "read", reads)
        self.node = MemoryNode(logs, {"offsets.load.buffer.size": str(BUFFER_BYTES)})

    async def run(self) -> None:
        """Load all partitions, while another task takes a turn in every round of the loop."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.node.groups.run)
            for partition in range(PARTITIONS):
                self.node.groups.elected(partition, 0)
            before = 0
            while any(status is Status.LOADING for _, status in self.node.groups.runtime.partitions()):
                await trio.lowlevel.checkpoint()
                self.steps.append(len(self.applied) - before)
                before = len(self.applied)
            nursery.cancel_scope.cancel()


def runs(numbers: list[int]) -> list[int]:
    """The numbers without repetitions that follow one another."""
    return [number for number, last in zip(numbers, [-1, *numbers], strict=False) if number != last]


@pytest.mark.slow
def test_partitions_load_one_after_the_other_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    loading = Loading(monkeypatch)
    trio.run(loading.run)
    assert len(loading.applied) == sum(loading.steps) == PARTITIONS * PER_PARTITION
    assert max(loading.steps) <= 2 * WORK_AT_ONCE // APPLY_WORK, "a step in each round, before or after the other's"
    assert len(loading.reads) > 2 * PARTITIONS
    for order in (runs(loading.reads), runs(loading.applied)):
        assert sorted(order) == list(range(PARTITIONS)), "no partition is loaded while another one is"
