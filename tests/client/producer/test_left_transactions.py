"""A transaction that an exception has left while its coordinator is away: one budget, and true words about its end."""

from __future__ import annotations

import pytest
import trio
from support.transaction_broker import TransactionBroker
from support.transaction_coordinators import Coordinators, on_virtual_time

from minikafka.client import Producer, blocking
from minikafka.client.producer import closing
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.end_txn import EndTxnRequest

AWAY = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 10_000
ABORTS = "its coordinator aborts it after transaction_timeout_ms"
UNKNOWN = f"it is not known whether it is committed; if not, {ABORTS}"


class Left(BaseException):
    """Leaves the block."""


async def leave(it: Coordinators, *, committing: bool) -> tuple[float, list[str]]:
    """How long the blocks take to be left, and the notes of the exception."""
    began = 0.0
    try:
        async with it.producer() as producer, producer.transaction():
            await producer.send_and_wait("t", b"", partition=0)
            began = trio.current_time()
            if committing:
                with trio.move_on_after(1):
                    await producer.commit()
                began = trio.current_time()
            raise Left
    except Left as error:
        return trio.current_time() - began, list(getattr(error, "__notes__", []))
    raise AssertionError("it was raised")


@pytest.mark.parametrize("committing", [False, True])
@on_virtual_time
async def test_it_takes_five_seconds_in_all_and_says_what_is_left(
    committing: bool, caplog: pytest.LogCaptureFixture
) -> None:
    took, notes = await leave(Coordinators(2, end=list(AWAY)), committing=committing)
    assert took == pytest.approx(closing.ABORT_TIMEOUT_S)
    left = UNKNOWN if committing else ABORTS
    assert notes == [f"the transaction was not ended within 5 s: {left}"]
    assert f"producer closed within a transaction: x: {left}" in caplog.messages
    assert any("still waiting: ending the transaction after Left, for 5 s at most" in one for one in caplog.messages)
    assert not any("aborted:" in one for one in caplog.messages)


@on_virtual_time
async def test_a_later_end_of_the_producer_has_time_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    it = Coordinators(2, end=list(AWAY))
    async with it.producer() as producer:
        with pytest.raises(Left):
            await leave_block(producer)
        await trio.sleep(100)
        began = trio.current_time()
        trio.lowlevel.spawn_system_task(_mend, it)
    assert trio.current_time() - began == pytest.approx(3, abs=1)
    assert "producer closed within a transaction, which was aborted: x" in caplog.messages
    assert it.ends == [(0, False)]


async def leave_block(producer: Producer) -> None:
    async with producer.transaction():
        await producer.send_and_wait("t", b"", partition=0)
        raise Left


async def _mend(it: Coordinators) -> None:
    await trio.sleep(3)
    it.errors.clear()


@on_virtual_time
async def test_a_transaction_that_is_left_open_was_aborted(caplog: pytest.LogCaptureFixture) -> None:
    it = Coordinators(2)
    async with it.producer() as producer:
        await producer.begin()
        await producer.send_and_wait("t", b"", partition=0)
    assert caplog.messages == ["producer closed within a transaction, which was aborted: x"]


@pytest.mark.slow
def test_a_blocking_producer_says_what_ends_the_wait(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = TransactionBroker()
    broker.network.brokers[0].handlers[EndTxnRequest] = lambda request, version: None
    monkeypatch.setattr(closing, "ABORT_TIMEOUT_S", 3)
    with pytest.raises(KeyboardInterrupt):
        leave_blocking(broker)
    (said,) = [one for one in caplog.messages if "ending the transaction" in one]
    assert "after KeyboardInterrupt, for 3 s at most; another Ctrl-C ends this at once" in said


def leave_blocking(broker: TransactionBroker) -> None:
    seams = broker.network.seams()
    with (
        blocking.Producer(bootstrap_servers="a:1", transactional_id="x", linger_ms=0, seams=seams) as producer,
        producer.transaction(),
    ):
        producer.send_and_wait("t", b"1")
        raise KeyboardInterrupt
