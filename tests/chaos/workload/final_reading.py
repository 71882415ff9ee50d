"""The end of a run, when all faults are healed: demands progress, and reads everything for the checker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import trio

from chaos.history import Outcome, ReadAll, partitions_named
from chaos.workload.directories import uncordon_all
from chaos.workload.offset_readers import fetch_offsets
from chaos.workload.plan import COUNTING
from chaos.workload.process import ClientProcess
from chaos.workload.producers import RecordingProducer
from chaos.workload.recording_consumer import RecordingConsumer
from chaos.workload.values import read_of
from minikafka.client import EARLIEST, LATEST, Admin, ConsumerRecord
from minikafka.protocol.errors import KafkaError, OffsetOutOfRangeError
from minikafka.protocol.names import TopicPartition

PROGRAM = "final reading"
PAUSE_S = 0.5
"""Between two attempts."""


class NoProgress(Exception):
    """The cluster does not do, after it was healed, what it must do within the time limit."""


async def final_reading(
    process: ClientProcess, *, groups: Collection[str] = (), ended: Collection[str] = (), limit_s: float = 60
) -> None:
    """Demand progress, then read all partitions and committed offsets. Producers must have stopped.

    Args:
        groups: The groups whose members are running, and must consume and commit everything.
        ended: Other groups that have committed offsets, besides those of the plan.
        limit_s: The time for each step.

    Raises:
        NoProgress: A partition that was used is unknown; one has no leader, takes no write or cannot be read to its
            end; a transaction stays open; or a group lags.
    """
    client = process.client_name()
    async with await _open_admin(process, limit_s) as admin:
        await _until(limit_s, "brokers stay cordoned", lambda: uncordon_all(process, admin))
        partitions = await _led_partitions(process, admin, limit_s)
        await _until(limit_s, "a transaction stays open", _no_open_transaction(admin, partitions))
        written = await _write_everywhere(process, partitions, limit_s)
        for group in groups:
            await _wait_without_lag(process, admin, group, partitions, limit_s)
        for read_committed in (True, False):
            await _read_everything(process, written, limit_s, read_committed=read_committed)
        for group in (*process.plan.groups, COUNTING.name, *ended):
            fetch = _fetch(process, admin, client, group, partitions)
            await _until(limit_s, f"the offsets of {group} cannot be read", fetch)


def _fetch(
    process: ClientProcess, admin: Admin, client: str, group: str, partitions: Collection[TopicPartition]
) -> Callable[[], Awaitable[bool]]:
    async def fetch() -> bool:
        await fetch_offsets(process, admin, client, group, final=partitions)
        return True

    return fetch


def _no_open_transaction(admin: Admin, partitions: Collection[TopicPartition]) -> Callable[[], Awaitable[bool]]:
    """Whether the last stable offset is the end of each partition: what the producers left open has timed out."""

    async def closed() -> bool:
        latest = dict.fromkeys(partitions, LATEST)
        stable = await admin.list_offsets(latest, isolation_level="read_committed")
        ends = await admin.list_offsets(latest)
        return all(stable[tp].offset >= ends[tp].offset for tp in partitions)

    return closed


async def _until(limit_s: float, missing: str, attempt: Callable[[], Awaitable[bool]]) -> None:
    """Call `attempt` until it returns True. A KafkaError counts as False. Raises NoProgress."""
    last: KafkaError | None = None
    with trio.move_on_after(limit_s):
        while True:
            try:
                if await attempt():
                    return
                last = None
            except KafkaError as error:
                last = error
            await trio.sleep(PAUSE_S)
    raise NoProgress(f"{missing} within {limit_s:g} s" + (f": {last!r}" if last else ""))


async def _open_admin(process: ClientProcess, limit_s: float) -> Admin:
    """An admin client that will connect. Raises NoProgress if no broker can be reached."""

    async def connect() -> bool:
        async with process.admin():
            return True

    await _until(limit_s, "no broker can be reached", connect)
    return process.admin()


async def _led_partitions(process: ClientProcess, admin: Admin, limit_s: float) -> list[TopicPartition]:
    """All partitions of the plan, when each has a leader. Raises NoProgress.

    A broker that was cut off from the controller names fewer partitions until it has caught up, in Apache Kafka too.
    All that were used are waited for, since outputs and lost records may be in any of them.
    """
    found: dict[TopicPartition, int] = {}
    known = _known_partitions(process)
    missing: list[str] = []

    async def look() -> bool:
        described = await admin.describe_topics(list(process.plan.topics))
        missing[:] = [f"{name}: {one}" for name, one in described.items() if isinstance(one, KafkaError)]
        topics = [one for one in described.values() if not isinstance(one, KafkaError)]
        found.clear()
        found.update({TopicPartition(one.name, part.index): part.leader for one in topics for part in one.partitions})
        missing.extend(f"{tp} is unknown" for tp in known if tp not in found)
        missing.extend(f"{tp} has no leader" for tp, leader in found.items() if leader < 0)
        return not missing

    try:
        await _until(limit_s, "partitions have no leader", look)
    except NoProgress as error:
        raise NoProgress(f"{error}: {', '.join(missing)}") from error
    return list(found)


def _known_partitions(process: ClientProcess) -> list[TopicPartition]:
    """The partitions of the plan that an administrator has made or a client of the history has named."""
    topics = process.plan.topics
    grown = [TopicPartition(name, index) for name, count in process.plan.grown.items() for index in range(count)]
    return sorted({*grown, *(tp for tp in partitions_named(process.recorder.events) if tp.topic in topics)})


async def _write_everywhere(
    process: ClientProcess, partitions: list[TopicPartition], limit_s: float
) -> dict[TopicPartition, int]:
    """Write a record to every partition. Returns their offsets. Raises NoProgress."""
    waiting = dict.fromkeys(partitions)
    written: dict[TopicPartition, int] = {}

    async def write() -> bool:
        sending = RecordingProducer(process, PROGRAM, linger_ms=0)
        async with sending.producer:
            sent = {tp: await sending.send_to(tp) for tp in waiting}
            await sending.producer.flush()
        sending.check()
        for tp, delivery in sent.items():
            if (offset := delivery.result().offset) >= 0:
                written[tp] = offset
                del waiting[tp]
        return not waiting

    try:
        await _until(limit_s, "partitions take no write", write)
    except NoProgress as error:
        raise NoProgress(f"{error}: {', '.join(map(str, waiting))}") from error
    return written


async def _wait_without_lag(
    process: ClientProcess, admin: Admin, group: str, everything: Collection[TopicPartition], limit_s: float
) -> None:
    """Wait until a group has committed an offset behind the last record of each partition. Raises NoProgress.

    A partition without records may have no committed offset.
    """
    lagging: list[str] = []

    async def look() -> bool:
        topics = process.plan.groups[group].topics
        partitions = [tp for tp in everything if tp.topic in topics]
        starts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
        ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
        committed = await admin.list_group_offsets(group, partitions)
        empty = {tp: ends[tp].offset for tp in partitions if starts[tp].offset == ends[tp].offset}
        at = {tp: committed[tp].offset if tp in committed else empty.get(tp) for tp in partitions}
        behind = {tp: at[tp] or starts[tp].offset for tp in partitions if at[tp] != ends[tp].offset}
        unread = await _first_with_records(process, behind, {tp: ends[tp].offset for tp in behind}) if behind else None
        lagging[:] = [f"{tp} at {at[tp]} of {ends[tp].offset}" for tp in behind if tp == unread]
        return unread is None

    try:
        await _until(limit_s, f"group {group} does not catch up", look)
    except NoProgress as error:
        state = await _state_of(admin, group)
        raise NoProgress(f"{error}: {', '.join(lagging)}; {state}") from error


async def _first_with_records(
    process: ClientProcess, starts: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> TopicPartition | None:
    """A partition that has records between two offsets, and not only markers of transactions; None if none has.

    Those of aborted transactions do not count: members that read committed records only commit no offset behind them.
    """
    async with process.consumer(auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        consumer.assign(list(starts))
        for tp, start in starts.items():
            consumer.seek(tp, start)
        while any([await consumer.position(tp) < end for tp, end in ends.items()]):
            for record in await consumer.poll(500):
                if record.offset < ends[TopicPartition(record.topic, record.partition)]:
                    return TopicPartition(record.topic, record.partition)
    return None


async def _state_of(admin: Admin, group: str) -> str:
    try:
        return str(await admin.describe_group(group))
    except KafkaError as error:
        return repr(error)


async def _read_everything(
    process: ClientProcess, written: dict[TopicPartition, int], limit_s: float, *, read_committed: bool
) -> None:
    """Record a `ReadAll` of every partition. Raises NoProgress for those whose end is not reached.

    Args:
        written: The offset of a record that was acknowledged, by partition. A reading that ends before it does not
            count: it may come from a leader that was cut off and has not heard yet of the one that took its place.
    """
    waiting = dict(written)

    async def read() -> bool:
        for tp in await _read_from_start(process, waiting, read_committed=read_committed):
            del waiting[tp]
        return not waiting

    try:
        await _until(limit_s, "partitions cannot be read to their end", read)
    except NoProgress as error:
        raise NoProgress(f"{error}: {', '.join(map(str, waiting))}") from error


async def _read_from_start(
    process: ClientProcess, written: dict[TopicPartition, int], *, read_committed: bool
) -> list[TopicPartition]:
    """Read partitions to the high watermark; those read beyond what was written to them. Raises KafkaError.

    A reading is in the history from before its end is known: what is written meanwhile need not be in it.
    """
    isolation = "read_committed" if read_committed else "read_uncommitted"
    it = RecordingConsumer(
        process, PROGRAM, isolation_level=isolation, auto_offset_reset="none", enable_auto_commit=False
    )
    invocations = {
        tp: process.invoke(it.name, ReadAll(tp, read_committed=read_committed)) for tp in written
    }
    try:
        readings = await _read_all(process, it, list(written), read_committed=read_committed)
    except KafkaError as error:
        for invocation in invocations.values():
            process.complete(invocation, Outcome.FAIL, error=error)
        raise
    reached = [tp for tp, one in readings.items() if one.position >= one.end > written[tp]]
    for tp, reading in readings.items():
        process.complete(invocations[tp], Outcome.OK if tp in reached else Outcome.FAIL, reading)
    return reached


async def _read_all(
    process: ClientProcess, it: RecordingConsumer, partitions: list[TopicPartition], *, read_committed: bool
) -> dict[TopicPartition, ReadAll]:
    """How far each partition could be read, and its records. Raises KafkaError."""
    async with process.admin() as admin, it.consumer as consumer:
        starts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
        ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
        consumer.assign(partitions)
        for tp in partitions:
            consumer.seek(tp, starts[tp].offset)
        records, positions = await _read_to(it, {tp: one.offset for tp, one in ends.items()}, process.patience_ms)
    reads = {
        tp: tuple(read_of(one) for one in records if (one.topic, one.partition) == tp) for tp in partitions
    }
    return {
        tp: ReadAll(tp, starts[tp].offset, positions[tp], ends[tp].offset, reads[tp], read_committed)
        for tp in partitions
    }


async def _read_to(
    it: RecordingConsumer, ends: dict[TopicPartition, int], patience_ms: int
) -> tuple[list[ConsumerRecord], dict[TopicPartition, int]]:
    """Poll until the positions have reached the ends, or polls return nothing for `patience_ms`. Raises KafkaError."""
    records: list[ConsumerRecord] = []
    positions = {tp: await it.consumer.position(tp) for tp in ends}
    while any(positions[tp] < end for tp, end in ends.items()):
        try:
            some = await it.consumer.poll(patience_ms)
        except OffsetOutOfRangeError:  # retention has deleted what was about to be read
            break
        records += some
        positions = {tp: await it.consumer.position(tp) for tp in ends}
        if not some and any(positions[tp] < end for tp, end in ends.items()):
            break
    return records, positions
