"""A program that produces in transactions. The incarnations of a process share a transactional id, and are fenced."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.history import AbortTransaction, Action, BeginTransaction, CommitTransaction, Event, Outcome
from chaos.workload.process import ClientProcess, live_on
from chaos.workload.producers import RecordingProducer
from chaos.workload.values import KEY_COUNT
from minikafka.client import AbortableTransactionError
from minikafka.protocol.errors import KafkaError, RequestTimedOutError

PROGRAM = "transactional producer"
TRANSACTIONS_MAX = 40
RECORDS = (1, 1, 2, 4, 8)
TIMEOUT_MS = 8_000
"""After that the coordinator aborts what a killed process has left open, within its cleanup interval."""
ATTEMPTS_MAX = 4


async def transactional_producer(process: ClientProcess) -> None:
    """Transactions over several topics, most of which are committed."""
    await live_on(process, PROGRAM, _live)


async def _live(process: ClientProcess) -> None:
    sending = RecordingProducer(
        process,
        PROGRAM,
        transactional_id=process.stable_name,
        transaction_timeout_ms=TIMEOUT_MS,
        linger_ms=process.random.choice((0, 5)),
        batch_size=process.random.choice((200, 16_384)),
    )
    topics = list(process.plan.topics)
    async with sending.producer:
        for _ in range(process.random.randint(1, TRANSACTIONS_MAX)):
            await _transaction(sending, topics)
            await process.rest()
    sending.check()


async def _transaction(sending: RecordingProducer, topics: Sequence[str]) -> None:
    """One transaction. Raises KafkaError if the producer can do no more; then its outcome is unknown."""
    process = sending.process
    await sending.producer.begin()
    process.note(sending.name, BeginTransaction())
    try:
        for _ in range(process.random.choice(RECORDS)):
            key = f"key-{process.random.randrange(KEY_COUNT)}" if process.chance(0.5) else None
            await sending.send(process.random.choice(topics), key=key)
            if process.chance(0.1):
                await process.rest()
        if process.chance(0.3):
            await sending.producer.flush()
        if process.chance(0.8):
            await commit(sending, PROGRAM)
            return
    except AbortableTransactionError as error:
        process.count(PROGRAM, "commit", error)
    await abort(sending, PROGRAM)


async def commit(sending: RecordingProducer, program: str) -> None:
    """Raises AbortableTransactionError: the transaction is not committed. Another KafkaError: that is not known."""
    invocation = sending.process.invoke(sending.name, CommitTransaction())
    for attempt in range(ATTEMPTS_MAX):
        try:
            await sending.producer.commit()
            break
        except AbortableTransactionError as error:
            _complete(sending, program, invocation, Outcome.FAIL, CommitTransaction(), error)
            raise
        except KafkaError as error:
            if attempt == ATTEMPTS_MAX - 1 or not isinstance(error, RequestTimedOutError):
                _complete(sending, program, invocation, Outcome.UNKNOWN, CommitTransaction(), error)
                raise
    _complete(sending, program, invocation, Outcome.OK, CommitTransaction())


async def abort(sending: RecordingProducer, program: str) -> None:
    """Abort the transaction. Raises KafkaError: the producer can do no more."""
    invocation = sending.process.invoke(sending.name, AbortTransaction())
    for attempt in range(ATTEMPTS_MAX):
        try:
            await sending.producer.abort()
            break
        except KafkaError as error:
            if attempt == ATTEMPTS_MAX - 1 or not isinstance(error, RequestTimedOutError):
                _complete(sending, program, invocation, Outcome.UNKNOWN, AbortTransaction(), error)
                raise
    _complete(sending, program, invocation, Outcome.OK, AbortTransaction())


def _complete(
    sending: RecordingProducer,
    program: str,
    invocation: Event | None,
    outcome: Outcome,
    action: Action,
    error: KafkaError | None = None,
) -> None:
    sending.process.complete(invocation, outcome, action, error=error or "")
    sending.process.count(program, "commit" if isinstance(action, CommitTransaction) else "abort", error)
