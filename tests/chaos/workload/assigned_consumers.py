"""Programs that consume partitions of their choice, and seek."""

from __future__ import annotations

from chaos.workload.process import ClientProcess, live_on
from chaos.workload.recording_consumer import POLL_LIMITS, POLLS_MORE, RecordingConsumer, poll_or_reset
from minikafka.protocol.names import TopicPartition

PROGRAM = "assigned consumer"
STEPS = 40


async def assigned_consumer(process: ClientProcess) -> None:
    """Assigns partitions, polls, seeks and pauses, with either isolation level."""
    await live_on(process, PROGRAM, _live)


async def _live(process: ClientProcess) -> None:
    isolation = process.random.choice(("read_committed", "read_uncommitted"))
    it = RecordingConsumer(
        process, PROGRAM, isolation_level=isolation, auto_offset_reset="none", enable_auto_commit=False
    )
    async with it.consumer:
        await _assign(it)
        for _ in range(process.random.randint(STEPS // 2, 2 * STEPS)):
            await _step(it)
            await process.rest()


async def _step(it: RecordingConsumer) -> None:
    random = it.process.random
    rare = {0: _assign, 1: _seek, 2: _seek, 3: _seek_to_time, 4: _pause_or_resume}
    if random.random() < 0.15:
        await rare[random.randrange(len(rare))](it)
    limit = random.choice(POLL_LIMITS)
    if await poll_or_reset(it, max_records=limit):
        for _ in range(POLLS_MORE):
            if not await poll_or_reset(it, timeout_ms=0, max_records=limit):
                return


async def _assign(it: RecordingConsumer) -> None:
    """Consume some of the partitions that exist, each from a new position."""
    chosen = await _some_partitions(it)
    before = it.consumer.assignment()
    it.consumer.assign(chosen)
    it.moved({tp: None for tp in chosen if tp not in before}, "assign")
    it.consumer.resume()
    for tp in chosen:
        if tp not in before:
            it.seek_to_beginning(tp)


async def _some_partitions(it: RecordingConsumer) -> list[TopicPartition]:
    plan, random = it.process.plan, it.process.random
    names = random.sample(list(plan.topics), random.randint(1, len(plan.topics)))
    known = [await it.consumer.cluster.topic(name, it.process.patience_ms) for name in names]
    every = [TopicPartition(topic.name, one.index) for topic in known for one in topic.partitions]
    return random.sample(every, random.randint(1, len(every)))


async def _seek(it: RecordingConsumer) -> None:
    """Seek to the beginning, to the end, or in between."""
    random, consumer = it.process.random, it.consumer
    tp = random.choice(consumer.assignment())
    match random.randrange(4):
        case 0:
            it.seek_to_beginning(tp)
        case 1:
            it.moved({tp: None}, "seek to the end")
            consumer.seek_to_end(tp)
        case _:
            first = (await consumer.beginning_offsets([tp]))[tp]
            end = (await consumer.end_offsets([tp]))[tp]
            it.seek(tp, random.randint(first, max(first, end)))


async def _seek_to_time(it: RecordingConsumer) -> None:
    process = it.process
    tp = process.random.choice(it.consumer.assignment())
    await it.consumer.seek_to_time(max(process.seams.now_ms() - process.random.randrange(30_000), 0), tp)
    it.moved({tp: None}, "seek to a time")


async def _pause_or_resume(it: RecordingConsumer) -> None:
    """Pause a partition, or resume all."""
    paused = it.consumer.paused()
    if paused:
        it.consumer.resume()
    else:
        it.consumer.pause(it.process.random.choice(it.consumer.assignment()))
    it.process.count(PROGRAM, "resume" if paused else "pause")
