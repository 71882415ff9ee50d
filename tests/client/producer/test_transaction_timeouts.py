"""A transaction that was open for longer than `transaction_timeout_ms`: its coordinator has aborted it."""

from __future__ import annotations

import pytest
import trio
from support.transaction_coordinators import NONE, OFFSETS, Coordinators, on_virtual_time, whole

from minikafka.client import Producer
from minikafka.client.producer.transaction_state import AbortableTransactionError, FatalTransactionError, ProducerFenced
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError

TIMED_OUT = r"the transaction was open for 7\.0 s, longer than transaction_timeout_ms=5000"


async def overtime(producer: Producer, step: str) -> None:
    """A transaction that takes longer than it may, and fails at this request."""
    async with producer.transaction():
        await producer.send_and_wait("t", b"", partition=0)
        await trio.sleep(7)
        if step == "produce":
            await producer.send_and_wait("t", b"", partition=0)
        if step != "end":
            await producer.send_offsets_to_transaction(OFFSETS, "g")


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("produce", ErrorCode.INVALID_PRODUCER_EPOCH),
        ("commit", ErrorCode.INVALID_PRODUCER_EPOCH),
        ("end", ErrorCode.INVALID_TXN_STATE),
    ],
)
@on_virtual_time
async def test_a_transaction_that_took_too_long_says_so_and_the_next_one_succeeds(step: str, code: ErrorCode) -> None:
    """With these errors Apache Kafka 4.3 answers the requests of one that it has aborted, before that is repeated."""
    it = Coordinators(2, **{step: [NONE, code] if step == "produce" else [code]})
    async with it.producer(transaction_timeout_ms=5_000) as producer:
        with pytest.raises(AbortableTransactionError, match=f"call abort.*{TIMED_OUT}, and its coordinator has"):
            await overtime(producer, step)
        await whole(producer)
    assert it.ends == [(0, False), (1, True)]


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize("step", ["produce", "commit", "end"])
@on_virtual_time
async def test_version_1_does_not_tell_a_transaction_that_took_too_long_from_a_fenced_producer(
    step: str, code: ErrorCode
) -> None:
    it = Coordinators(1, **{step: [NONE, code] if step == "produce" else [code]})
    async with it.producer(transaction_timeout_ms=5_000) as producer:
        with pytest.raises(KafkaError):
            await overtime(producer, step)
        with pytest.raises(ProducerFenced, match=f"another producer .* has started, or {TIMED_OUT}; close"):
            await producer.begin()


@pytest.mark.parametrize("step", ["commit", "end"])
@on_virtual_time
async def test_a_transaction_that_was_not_open_for_long_has_not_timed_out(step: str) -> None:
    it = Coordinators(2, **{step: [ErrorCode.INVALID_TXN_STATE]})
    async with it.producer() as producer:
        with pytest.raises(FatalTransactionError):
            await whole(producer)


@pytest.mark.parametrize("waits_for", ["flush", "commit", "abort"])
@on_virtual_time
async def test_it_may_fail_in_several_partitions_at_once(waits_for: str) -> None:
    """Also while it is being aborted, and where each partition has a request of its own."""
    code = ErrorCode.INVALID_PRODUCER_EPOCH
    it = Coordinators(2, produce=[NONE, code, code, code], commit=[code])
    async with it.producer(transaction_timeout_ms=5_000) as producer:
        await producer.begin()
        await producer.send_and_wait("t", b"", partition=0)
        await trio.sleep(7)
        for number in range(4):
            await producer.send("t", b"x", partition=number % 2)
        if waits_for == "flush":
            await producer.flush()
            with pytest.raises(AbortableTransactionError):
                await producer.send_offsets_to_transaction(OFFSETS, "g")
        elif waits_for == "commit":
            with pytest.raises(AbortableTransactionError):
                await producer.commit()
        await producer.abort()
        it.errors.clear()
        await whole(producer)
    assert it.ends[-1][1]


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TRANSACTION_ABORTABLE])
@on_virtual_time
async def test_an_abort_succeeds_though_a_partition_cannot_be_added(code: ErrorCode) -> None:
    it = Coordinators(1, add=[ErrorCode.CONCURRENT_TRANSACTIONS, code])
    async with it.producer() as producer:
        await producer.begin()
        await producer.send("t", b"", partition=0)
        await trio.sleep(0.01)
        await producer.abort()
        await whole(producer)
    assert it.ends[-1][1]
