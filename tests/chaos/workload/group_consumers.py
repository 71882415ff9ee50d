"""Programs that are members of groups, with manual or automatic commits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import trio

from chaos.workload.plan import GroupPlan
from chaos.workload.process import ClientProcess, Program, live_on
from chaos.workload.recording_consumer import POLL_LIMITS, POLL_MS, POLLS_MORE, RecordingConsumer, next_offsets
from minikafka.client import Listener
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition

SESSION_TIMEOUT_MS = 6000
STEPS = 60


def member_of(group: str) -> Program:
    """The program of a member of a group of the plan. Several may run."""

    async def member(process: ClientProcess) -> None:
        plan = process.plan.groups[group]
        await live_on(process, program_of(group), partial(_live, group=plan))

    return member


def program_of(group: str) -> str:
    """The name of the program for the members of a group."""
    return f"member of {group}"


class _Member(Listener):
    """Keeps the offsets to commit, and records rebalances, which happen while others wait.

    Attributes:
        owned: The partitions from their assignment until the beginning of their revocation.
        consumed: The next offset of each owned partition that has records which are not committed.
    """

    def __init__(self, it: RecordingConsumer, *, automatic: bool) -> None:
        self.it = it
        self.automatic = automatic
        self.owned: dict[TopicPartition, None] = {}
        self.consumed: dict[TopicPartition, int] = {}

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.it.moved(dict.fromkeys(partitions, None), "rebalance")
        self.owned |= dict.fromkeys(partitions)
        for tp in partitions:
            self.it.uncertain.pop(tp, None)  # Another member may have gone on since.

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        revoked = self._give_up(partitions)
        self.it.moved(dict.fromkeys(partitions, None), "revocation")
        if revoked and self.it.process.chance(0.7):
            await self._try_to_commit(revoked)

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._give_up(partitions)
        self.it.moved(dict.fromkeys(partitions, None), "partitions lost")

    def _give_up(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        for tp in partitions:
            self.owned.pop(tp, None)
        return {tp: self.consumed.pop(tp) for tp in partitions if tp in self.consumed}

    async def poll(self) -> None:
        """Poll, and go on while there are records at once, up to a limit. Raises KafkaError."""
        limit = self.it.process.random.choice(POLL_LIMITS)
        for timeout_ms in (POLL_MS, *(0,) * POLLS_MORE):
            records = await self.it.poll(timeout_ms, limit)
            if not self.automatic:
                self.consumed |= {tp: offset for tp, offset in next_offsets(records).items() if tp in self.owned}
            if not records:
                return

    async def commit(self) -> None:
        """Commit what was consumed. An error leaves it to the next commit."""
        offsets = {tp: one for tp, one in self.it.uncertain.items() if tp in self.owned} | self.consumed
        if offsets and await self._try_to_commit(offsets):
            self.consumed = {tp: offset for tp, offset in self.consumed.items() if offsets.get(tp) != offset}

    async def _try_to_commit(self, offsets: dict[TopicPartition, int]) -> bool:
        try:
            await self.it.consumer.commit(offsets)
        except KafkaError:
            return False
        return True


async def _live(process: ClientProcess, *, group: GroupPlan) -> None:
    """The life of a member, after a while without it. It ends by leaving the group, or by cancellation."""
    await process.rest(process.random.choice((1, 10, 30)))
    it = RecordingConsumer(process, program_of(group.name), **_options(process, group))
    member = _Member(it, automatic=group.automatic)
    with trio.CancelScope() as scope:
        async with it.consumer:
            it.record_commits()
            await it.consumer.subscribe(group.topics, listener=member)
            for _ in range(process.random.randint(STEPS // 2, 2 * STEPS)):
                await member.poll()
                if not group.automatic and process.chance(0.3):
                    await member.commit()
                await process.rest()
            if process.chance(0.3):
                scope.cancel()
                await trio.lowlevel.checkpoint()
    process.count(it.program, "abandoned" if scope.cancelled_caught else "left")


def _options(process: ClientProcess, group: GroupPlan) -> dict[str, Any]:
    common = {
        "group_id": group.name,
        "group_instance_id": process.stable_name if group.static else None,
        "group_protocol": group.protocol,
        "enable_auto_commit": group.automatic,
        "auto_offset_reset": "earliest",
        "isolation_level": process.random.choice(("read_committed", "read_uncommitted")),
        "max_poll_interval_ms": 3 * process.patience_ms,
    }
    if group.protocol == "consumer":
        return {**common, "group_remote_assignor": process.random.choice((None, "uniform", "range"))}
    return {
        **common,
        "partition_assignment_strategy": (group.assignor,),
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "heartbeat_interval_ms": 1000,
    }
