"""A program that reads, processes and writes in transactions: it counts each record of a topic exactly once.

The output of a record has a key that names the record (`count_of`), and the offsets of the input are committed in the
transaction of the outputs. What `chaos.checks.counted` demands in the end follows from that.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.checks.counted import count_of
from chaos.history import BeginTransaction, CommitOffsets, Outcome
from chaos.workload.group_consumers import SESSION_TIMEOUT_MS
from chaos.workload.plan import COUNTING
from chaos.workload.process import ClientProcess, live_on
from chaos.workload.producers import RecordingProducer
from chaos.workload.recording_consumer import REJECTED, RecordingConsumer, next_offsets
from chaos.workload.transactional_producers import TIMEOUT_MS, abort, commit
from minikafka.client import AbortableTransactionError, ConsumerRecord, Listener
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition

PROGRAM = "read-process-write"
POLLS_MAX = 40
OUTPUT = "growing"


class _Moves(Listener):
    """Records rebalances."""

    def __init__(self, it: RecordingConsumer) -> None:
        self._it = it

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._it.moved(dict.fromkeys(partitions, None), "rebalance")

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._it.moved(dict.fromkeys(partitions, None), "revocation")


async def transformer(process: ClientProcess) -> None:
    """Reads committed records as a member of a group, and writes one record for each."""
    await live_on(process, PROGRAM, _live)


async def _live(process: ClientProcess) -> None:
    """Ends with the first transaction that is not committed: the next life begins at the committed offsets."""
    it = RecordingConsumer(
        process,
        PROGRAM,
        group_id=COUNTING.name,
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=SESSION_TIMEOUT_MS,
        heartbeat_interval_ms=1000,
    )
    sending = RecordingProducer(
        process, PROGRAM, transactional_id=f"{PROGRAM} {process.stable_name}", transaction_timeout_ms=TIMEOUT_MS
    )
    async with sending.producer, it.consumer as consumer:
        await consumer.subscribe(COUNTING.topics, listener=_Moves(it))
        for _ in range(process.random.randint(1, POLLS_MAX)):
            records = await it.poll(max_records=process.random.choice((1, 5, 50)))
            if records and not await _count(sending, it, records):
                break
            await process.rest()
    sending.check()


async def _count(sending: RecordingProducer, it: RecordingConsumer, records: Sequence[ConsumerRecord]) -> bool:
    """One transaction; whether it is committed. Raises KafkaError if the producer can do no more."""
    process, member = sending.process, it.consumer.group_metadata()
    await sending.producer.begin()
    process.note(sending.name, BeginTransaction())
    try:
        for record in records:
            await sending.send(OUTPUT, key=count_of(TopicPartition(record.topic, record.partition), record.offset))
        await _send_offsets(sending, next_offsets(records), member)
        if process.chance(0.85):
            await commit(sending, PROGRAM)
            return True
    except AbortableTransactionError as error:
        process.count(PROGRAM, "commit", error)
    await abort(sending, PROGRAM)
    return False


async def _send_offsets(sending: RecordingProducer, offsets: dict[TopicPartition, int], member: object) -> None:
    """Raises KafkaError."""
    process = sending.process
    action = CommitOffsets(COUNTING.name, tuple(offsets.items()))
    invocation = process.invoke(sending.name, action)
    try:
        await sending.producer.send_offsets_to_transaction(offsets, member)  # type: ignore[arg-type]
    except KafkaError as error:
        rejected = isinstance(error, REJECTED) or isinstance(error.__cause__, REJECTED)
        process.complete(invocation, Outcome.FAIL if rejected else Outcome.UNKNOWN, error=error)
        process.count(PROGRAM, "offsets", error)
        raise
    process.complete(invocation, Outcome.OK)
    process.count(PROGRAM, "offsets")
