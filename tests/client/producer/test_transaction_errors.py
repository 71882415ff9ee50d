"""A transactional producer with a scripted coordinator: each error at each request, in both versions."""

from __future__ import annotations

from contextlib import suppress

import pytest
import trio
from support.transaction_coordinators import OFFSETS, Coordinators, on_virtual_time, whole
from trio.testing import MockClock

from minikafka.client import Producer
from minikafka.client.options import InvalidOption
from minikafka.client.producer.transaction_state import (
    AbortableTransactionError,
    FatalTransactionError,
    ProducerFenced,
    TransactionAborted,
)
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import GroupAuthorizationFailedError, KafkaError, RequestTimedOutError


@on_virtual_time
async def test_version_1_adds_partitions_and_groups_and_keeps_its_epoch() -> None:
    it = Coordinators(1)
    async with it.producer() as producer:
        await whole(producer)
        await whole(producer)
    assert sorted(it.asked[1:5]) == ["add", "commit", "offsets", "produce"]
    assert it.asked.index("add") < it.asked.index("produce")
    assert it.asked.index("offsets") < it.asked.index("commit")
    assert it.ends == [(0, True), (0, True)]
    assert (it.versions["produce"], it.versions["end"], it.versions["commit"], it.versions["add"]) == (11, 4, 4, 3)


@on_virtual_time
async def test_version_2_adds_nothing_and_gets_an_epoch_with_each_end() -> None:
    it = Coordinators(2)
    async with it.producer() as producer:
        await whole(producer)
        await whole(producer)
    assert "add" not in it.asked
    assert "offsets" not in it.asked
    assert it.ends == [(0, True), (1, True)]
    assert it.versions["produce"] > 11


@pytest.mark.parametrize("version", [1, 2])
@on_virtual_time
async def test_an_empty_transaction_sends_nothing(version: int) -> None:
    it = Coordinators(version)
    async with it.producer() as producer, producer.transaction():
        pass
    assert it.asked == ["init"]


@pytest.mark.parametrize("code", [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
@pytest.mark.parametrize("name", ["init", "add", "offsets", "commit", "end"])
@on_virtual_time
async def test_a_busy_coordinator_is_asked_again(name: str, code: ErrorCode) -> None:
    it = Coordinators(1, **{name: [code, code]})
    async with it.producer() as producer:
        await whole(producer)
    assert it.ends == [(0, True)]
    assert it.asked.count(name) == 3
    assert it.finds == 2, "the coordinators were looked up once each"


@pytest.mark.parametrize("name", ["init", "add", "offsets", "commit", "end"])
@on_virtual_time
async def test_a_coordinator_that_has_moved_is_looked_up_again(name: str) -> None:
    it = Coordinators(1, **{name: [ErrorCode.NOT_COORDINATOR]})
    async with it.producer() as producer:
        await whole(producer)
    assert it.ends == [(0, True)]
    assert it.finds == 3


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize("name", ["add", "offsets", "commit", "end"])
@on_virtual_time
async def test_a_fenced_producer_says_so_and_stays_so(name: str, code: ErrorCode) -> None:
    it = Coordinators(1, **{name: [code]})
    async with it.producer() as producer:
        with pytest.raises(ProducerFenced, match="another producer"):
            await whole(producer)
        with pytest.raises(ProducerFenced):
            await producer.begin()
        with pytest.raises(ProducerFenced):
            await producer.send("t", b"")
    assert it.ends == []


@on_virtual_time
async def test_a_fenced_producer_does_not_start() -> None:
    with pytest.raises(ProducerFenced):
        async with Coordinators(1, init=[ErrorCode.PRODUCER_FENCED]).producer():
            pass


@on_virtual_time
async def test_an_error_that_cannot_be_repaired_is_fatal() -> None:
    it = Coordinators(1, end=[ErrorCode.INVALID_TXN_STATE])
    async with it.producer() as producer:
        with pytest.raises(FatalTransactionError, match="create another one"):
            await whole(producer)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("add", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("add", ErrorCode.TRANSACTION_ABORTABLE),
        ("produce", ErrorCode.TRANSACTION_ABORTABLE),
        ("produce", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        ("produce", ErrorCode.UNKNOWN_PRODUCER_ID),
        ("offsets", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("commit", ErrorCode.ILLEGAL_GENERATION),
        ("commit", ErrorCode.FENCED_INSTANCE_ID),
    ],
)
@on_virtual_time
async def test_a_failed_transaction_must_be_aborted_and_the_next_one_has_another_epoch(
    name: str, code: ErrorCode, version: int
) -> None:
    if version == 2 and name in ("add", "offsets"):
        pytest.skip("these are requests of version 1")
    it = Coordinators(version, **{name: [code]})
    async with it.producer() as producer:
        await producer.begin()
        await producer.send("t", b"", partition=0)
        with suppress(AbortableTransactionError, GroupAuthorizationFailedError):
            await producer.send_offsets_to_transaction(OFFSETS, "g")
        with pytest.raises(AbortableTransactionError, match="call abort"):
            await producer.commit()
        with pytest.raises(AbortableTransactionError):
            await producer.send("t", b"")
        with pytest.raises(RuntimeError, match="call abort"):
            await producer.begin()
        await producer.abort()
        await whole(producer)
    assert it.ends == [(0, False), (1, True)]


@on_virtual_time
async def test_the_block_aborts_when_its_commit_fails() -> None:
    it = Coordinators(2, produce=[ErrorCode.TRANSACTION_ABORTABLE])
    async with it.producer() as producer:
        with pytest.raises(AbortableTransactionError):
            await whole(producer)
        await whole(producer)
    assert it.ends == [(0, False), (1, True)]


@on_virtual_time
async def test_the_block_aborts_when_it_is_cancelled() -> None:
    it = Coordinators(1)
    async with it.producer() as producer:
        with trio.move_on_after(1):
            async with producer.transaction():
                await (await producer.send("t", b""))
                await trio.sleep_forever()
        await whole(producer)
    assert it.ends == [(0, False), (0, True)]


@on_virtual_time
async def test_a_commit_without_an_answer_can_be_repeated() -> None:
    it = Coordinators(1, end=[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2)
    async with it.producer(max_block_ms=200) as producer:
        await producer.begin()
        await producer.send("t", b"")
        with pytest.raises(RequestTimedOutError):
            await producer.commit()
        with pytest.raises(RuntimeError, match=r"call commit\(\) again"):
            await producer.abort()
        with pytest.raises(RuntimeError, match=r"call commit\(\) again"):
            await producer.begin()
        await producer.commit()
    assert it.ends == [(0, True)]


@on_virtual_time
async def test_records_that_were_not_sent_are_dropped() -> None:
    it = Coordinators(1, add=[ErrorCode.CONCURRENT_TRANSACTIONS] * 1000)
    async with it.producer() as producer:
        await producer.begin()
        delivery = await producer.send("t", b"")
        await trio.sleep(1)
        it.errors.clear()
        await producer.abort()
        with pytest.raises(TransactionAborted):
            await delivery
    assert "produce" not in it.asked


@on_virtual_time
async def test_a_transaction_of_which_nothing_was_sent_is_not_ended() -> None:
    """While the markers of the one before are written, Kafka takes such an EndTxn for that of a fenced producer."""
    it = Coordinators(2)
    async with it.producer(linger_ms=10_000) as producer:
        await producer.begin()
        await producer.send("t", b"")
        await producer.abort()
        await whole(producer)
    assert it.ends == [(0, True)]


@on_virtual_time
async def test_closing_aborts_what_is_open() -> None:
    it = Coordinators(2)
    async with it.producer() as producer:
        await producer.begin()
        await (await producer.send("t", b""))
    assert it.ends == [(0, False)]


@on_virtual_time
async def test_a_record_needs_a_transaction() -> None:
    async with Coordinators(2).producer() as producer:
        with pytest.raises(RuntimeError, match="begin"):
            await producer.send("t", b"")
        with pytest.raises(RuntimeError, match="begin"):
            await producer.commit()
    async with Producer("a:1", seams=Coordinators(2).network.seams()) as plain:
        with pytest.raises(RuntimeError, match="transactional_id"):
            await plain.begin()


def test_transactions_need_idempotence() -> None:
    with pytest.raises(InvalidOption, match="transactional_id"):
        Producer("a:1", transactional_id="x", enable_idempotence=False)
    with pytest.raises(InvalidOption, match="transactional_id"):
        Producer("a:1", transactional_id="x", acks=1)


CODES = [code for code in ErrorCode if code]
ALWAYS = 1_000
OPTIONS = {"delivery_timeout_ms": 6_000, "request_timeout_ms": 3_000, "max_block_ms": 6_000, "linger_ms": 0}
SEQUENCES = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
}
"""A producer with sequences may set them right by itself."""


def told(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(one.getMessage() for one in caplog.records if "still waiting" in one.getMessage())


@pytest.mark.slow
@pytest.mark.parametrize("idempotent", [True, False])
def test_a_record_fails_at_once_or_is_retried_for_its_time_and_the_next_one_is_delivered(
    idempotent: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(code: ErrorCode) -> None:
        coordinators = Coordinators(2, produce=[code] * ALWAYS)
        options = {**OPTIONS, "enable_idempotence": idempotent}
        with trio.fail_after(20):
            async with Producer("a:1", seams=coordinators.network.seams(), **options) as producer:
                error = await outcome(producer)
                coordinators.errors.clear()
                if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    assert error is None  # the broker has it
                elif code.retriable or (idempotent and code in SEQUENCES):
                    assert isinstance(error, RequestTimedOutError)
                    assert code.text in told(caplog)
                else:
                    assert error is not None
                    assert error.code == code
                assert coordinators.asked.count("produce") <= 20
                assert await outcome(producer) is None

    for code in CODES:
        caplog.clear()
        trio.run(story, code, clock=MockClock(autojump_threshold=0))


async def outcome(producer: Producer) -> KafkaError | None:
    try:
        await producer.send_and_wait("t", b"x", partition=0)
    except KafkaError as error:
        return error
    return None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "request_name"),
    [(2, "init"), (2, "produce"), (2, "commit"), (2, "end"), (1, "add"), (1, "offsets"), (1, "end")],
)
def test_a_transaction_ends_with_an_error_or_is_retried_with_a_word(
    version: int, request_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(code: ErrorCode) -> None:
        coordinators = Coordinators(version, **{request_name: [code] * ALWAYS})
        began, error = trio.current_time(), None
        with trio.fail_after(60):
            try:
                async with coordinators.producer(**OPTIONS) as producer, producer.transaction():
                    await producer.send("t", b"x")
                    await producer.send_offsets_to_transaction(OFFSETS, "g")
            except KafkaError as raised:
                error = raised
        took = trio.current_time() - began
        is_delivered = request_name == "produce" and code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        assert (error is None) == is_delivered
        assert coordinators.asked.count(request_name) <= 60
        assert took < 4 or code.text in told(caplog)

    for code in CODES:
        caplog.clear()
        trio.run(story, code, clock=MockClock(autojump_threshold=0))
