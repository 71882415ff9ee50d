"""TransactionCoordinator over logs in memory: epochs, outcomes, markers, timeouts, expiry, and crashes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import trio
import trio.testing
from support.transaction_bench import ID, PARTITIONS, TIMEOUT_MS, V1, V2, Bench, in_trio

from minikafka.broker.coordinator.transactions.init_producer import ProducerIdentity
from minikafka.broker.coordinator.transactions.transaction import EPOCH_MAX, Transaction, TransactionState
from minikafka.protocol.errors import ErrorCode, NotEnoughReplicasError, TransactionCoordinatorFencedError
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest
from minikafka.protocol.names import TopicPartition


def test_version_1_keeps_its_epoch_and_version_2_gets_one_for_each_transaction() -> None:
    async def body() -> None:
        bench = Bench()
        async with bench.running():
            producer = await bench.init()
            assert await bench.ended(producer, version=V1) == producer
            assert bench.now.state is TransactionState.COMPLETE_COMMIT
            following = await bench.ended(producer, commit=False)
            assert following == ProducerIdentity(producer.producer_id, producer.epoch + 1)
            assert bench.now.state is TransactionState.COMPLETE_ABORT
        assert [(one.producer_epoch, one.committed) for one, _ in bench.markers.written] == [(0, True), (1, False)]
        assert {names for _, names in bench.markers.written} == {PARTITIONS}

    in_trio(body)


def test_markers_wait_until_the_outcome_is_committed() -> None:
    async def body() -> None:
        bench = Bench()
        async with bench.running():
            producer = await bench.init()
            await bench.add(producer)
            bench.logs.held = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bench.end, producer)
                await trio.testing.wait_all_tasks_blocked()
                assert bench.now.is_prepared
                assert bench.markers.written == [], "a later leader may decide otherwise"
                bench.logs.held.set()
            await trio.testing.wait_all_tasks_blocked()
            assert len(bench.markers.written) == 1

    in_trio(body)


@pytest.mark.parametrize("commit", [True, False])
def test_the_next_coordinator_completes_what_is_decided_once_that_is_committed(commit: bool) -> None:
    async def body() -> None:
        bench = Bench()
        bench.markers.held = trio.Event()
        async with bench.running():
            producer = await bench.init()
            await bench.ended(producer, commit=commit)
            assert bench.now.is_prepared
        bench.markers.held = None
        bench.logs.held = trio.Event()
        async with bench.running():
            assert bench.markers.written == []
            bench.logs.held.set()
            await trio.testing.wait_all_tasks_blocked()
            ((marker, names),) = bench.markers.written
            assert (marker.committed, marker.coordinator_epoch, names) == (commit, 2, PARTITIONS)
            assert bench.now.state.title == ("CompleteCommit" if commit else "CompleteAbort")
            assert await bench.end(producer, commit=commit) == ProducerIdentity(producer.producer_id, 1), "repeated"

    in_trio(body)


def test_kafka_17754_a_late_commit_does_not_end_the_next_transaction() -> None:
    async def body() -> None:
        bench = Bench()
        async with bench.running():
            first = await bench.init()
            second = await bench.ended(first)
            await bench.add(second)
            assert (await bench.end(first)).error is ErrorCode.PRODUCER_FENCED
            assert bench.now.state is TransactionState.ONGOING

    in_trio(body)


def test_a_commit_that_is_repeated_is_answered_the_same() -> None:
    async def body() -> None:
        bench = Bench()
        async with bench.running():
            first = await bench.init()
            second = await bench.ended(first)
            assert await bench.end(first) == second
            assert (await bench.end(first, commit=False)).error is ErrorCode.INVALID_TXN_STATE

    in_trio(body)


def test_an_empty_abort_waits_for_the_markers_of_the_transaction_before() -> None:
    async def body() -> None:
        bench = Bench()
        bench.markers.held = trio.Event()
        async with bench.running():
            second = await bench.ended(await bench.init())
            assert (await bench.end(second, commit=False)).error is ErrorCode.CONCURRENT_TRANSACTIONS
            bench.markers.held.set()
            await trio.testing.wait_all_tasks_blocked()
            assert await bench.end(second, commit=False) == ProducerIdentity(second.producer_id, 2)

    in_trio(body)


def test_kafka_9666_an_initialization_that_fails_takes_no_epoch() -> None:
    async def body() -> None:
        bench = Bench()
        async with bench.running():
            producer = await bench.init()
            await bench.add(producer)
            for _ in range(3):
                bench.logs.refusal = NotEnoughReplicasError("")
                assert (await bench.init()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (bench.now.producer_epoch, bench.now.state) == (0, TransactionState.ONGOING)
            assert (await bench.init()).error is ErrorCode.CONCURRENT_TRANSACTIONS
            await trio.testing.wait_all_tasks_blocked()
            assert (await bench.init()).epoch == 2

    in_trio(body)


def test_kip_360_a_producer_continues_and_an_older_one_is_fenced() -> None:
    async def body() -> None:
        bench = Bench()
        async with bench.running():
            first = await bench.init()
            second = await bench.init(first)
            assert second == ProducerIdentity(first.producer_id, 1)
            assert await bench.init(first) == second, "the answer was lost"
            await bench.init()
            assert (await bench.init(second)).error is ErrorCode.PRODUCER_FENCED
            other = ProducerIdentity(999, 0)
            assert (await bench.init(other)).error is ErrorCode.PRODUCER_FENCED

    in_trio(body)


def test_a_producer_without_epochs_gets_a_new_id_when_it_initializes() -> None:
    async def body() -> None:
        bench = Bench()
        bench.put(Transaction(7, TIMEOUT_MS, producer_epoch=EPOCH_MAX - 1))
        async with bench.running():
            found = await bench.init(ProducerIdentity(7, EPOCH_MAX - 1))
            assert found == ProducerIdentity(101, 0)
            assert await bench.init(ProducerIdentity(7, EPOCH_MAX - 1)) == found, "the answer was lost"

    in_trio(body)


def test_a_producer_without_epochs_gets_a_new_id_with_its_last_transaction() -> None:
    async def body() -> None:
        bench = Bench()
        last = ProducerIdentity(7, EPOCH_MAX - 1)
        bench.put(Transaction(7, TIMEOUT_MS, producer_epoch=EPOCH_MAX - 1))
        async with bench.running():
            found = await bench.ended(last)
            assert found == ProducerIdentity(101, 0)
            assert await bench.end(last) == found, "repeated"
            ((marker, _),) = bench.markers.written
            assert (marker.producer_id, marker.producer_epoch) == (7, EPOCH_MAX)
            assert await bench.ended(found) == ProducerIdentity(101, 1)

    in_trio(body)


def test_the_next_coordinator_goes_on_with_the_new_id_of_a_producer_without_epochs() -> None:
    async def body() -> None:
        bench = Bench()
        last = ProducerIdentity(7, EPOCH_MAX - 1)
        bench.put(Transaction(7, TIMEOUT_MS, producer_epoch=EPOCH_MAX - 1))
        bench.markers.held = trio.Event()
        async with bench.running():
            found = await bench.ended(last)
            assert bench.now.is_prepared
        bench.markers.held = None
        async with bench.running():
            ((marker, _),) = bench.markers.written
            assert (marker.producer_id, marker.producer_epoch) == (7, EPOCH_MAX)
            assert await bench.end(last) == found == ProducerIdentity(101, 0), "repeated"
            assert await bench.ended(found) == ProducerIdentity(101, 1)

    in_trio(body)


def test_fencing_never_exceeds_the_last_epoch() -> None:
    async def body() -> None:
        bench = Bench()
        bench.put(
            Transaction(7, TIMEOUT_MS, producer_epoch=EPOCH_MAX - 1, state=TransactionState.ONGOING, start_ms=0)
        )
        async with bench.running():
            assert (await bench.init()).error is ErrorCode.CONCURRENT_TRANSACTIONS
            await trio.testing.wait_all_tasks_blocked()
            assert bench.now.producer_epoch == EPOCH_MAX
            assert await bench.init() == ProducerIdentity(101, 0)

    in_trio(body)


def test_a_transaction_that_takes_too_long_at_the_last_epoch_is_aborted_with_a_new_producer_id() -> None:
    async def body() -> None:
        bench = Bench()
        last = ProducerIdentity(7, EPOCH_MAX - 1)
        bench.put(Transaction(7, TIMEOUT_MS, producer_epoch=EPOCH_MAX - 1))
        async with bench.running():
            await bench.add(last, V2)
            await trio.sleep(TIMEOUT_MS / 1000 + 15)
            assert bench.now.state is TransactionState.COMPLETE_ABORT
            ((marker, _),) = bench.markers.written
            assert (marker.producer_id, marker.producer_epoch, marker.committed) == (7, EPOCH_MAX, False)
            following = await bench.end(last, commit=False)
            assert following == ProducerIdentity(bench.now.producer_id, 0), "as Apache Kafka answers"
            assert following.producer_id != 7
            assert (await bench.ended(following, version=V2)).error is ErrorCode.NONE
            assert bench.now.state is TransactionState.COMPLETE_COMMIT

    in_trio(body)


@pytest.mark.parametrize("version", [V1, V2])
def test_a_transaction_that_takes_too_long_is_aborted_with_an_epoch_of_its_own(version: int) -> None:
    async def body() -> None:
        bench = Bench()
        bench.version = version
        async with bench.running():
            producer = await bench.init()
            await bench.add(producer, version)
            await trio.sleep(TIMEOUT_MS / 1000 - 1)
            assert bench.now.state is TransactionState.ONGOING
            await trio.sleep(15)
            assert bench.now.state is TransactionState.COMPLETE_ABORT
            ((marker, _),) = bench.markers.written
            assert (marker.producer_epoch, marker.committed) == (1, False)
            late = await bench.end(producer, version=version)
            assert late.error is (ErrorCode.INVALID_TXN_STATE if version == V2 else ErrorCode.PRODUCER_FENCED)
            assert await bench.add(producer) is ErrorCode.PRODUCER_FENCED

    in_trio(body)


@pytest.mark.parametrize("version", [V1, V2])
@pytest.mark.parametrize("step", ["outcome", "markers"])
def test_a_commit_that_is_decided_does_not_time_out(step: str, version: int) -> None:
    """Neither while the outcome is written, nor while the markers are; nor does its successor abort it."""

    async def body() -> None:
        bench = Bench()
        bench.version = version
        async with bench.running(), trio.open_nursery() as nursery:
            producer = await bench.init()
            await bench.add(producer, version)
            await trio.sleep(TIMEOUT_MS / 1000 - 1)
            released = trio.Event()
            if step == "outcome":
                bench.logs.held = released
            else:
                bench.markers.held = released
            nursery.start_soon(partial(bench.end, producer, version=version))
            await trio.sleep(3 * TIMEOUT_MS / 1000)
            assert bench.now.state is TransactionState.PREPARE_COMMIT
            released.set()
            await trio.testing.wait_all_tasks_blocked()
            assert bench.now.state is TransactionState.COMPLETE_COMMIT
        assert [one.committed for one, _ in bench.markers.written] == [True]

    in_trio(body)


@pytest.mark.parametrize("version", [V1, V2])
def test_a_commit_comes_too_late_as_soon_as_the_time_out_is_in_the_log(version: int) -> None:
    async def body() -> None:
        bench = Bench()
        bench.version = version
        async with bench.running(), trio.open_nursery() as nursery:
            producer = await bench.init()
            await bench.add(producer, version)
            bench.logs.held = trio.Event()
            await trio.sleep(TIMEOUT_MS / 1000 + 15)
            assert bench.now.state is TransactionState.PREPARE_ABORT
            answers: list[ErrorCode] = []

            async def end() -> None:
                answers.append((await bench.end(producer, version=version)).error)

            nursery.start_soon(end)
            await trio.testing.wait_all_tasks_blocked()
            bench.logs.held.set()
            await trio.testing.wait_all_tasks_blocked()
            assert answers == [ErrorCode.INVALID_TXN_STATE if version == V2 else ErrorCode.PRODUCER_FENCED]
            assert bench.now.state is TransactionState.COMPLETE_ABORT
        assert [one.committed for one, _ in bench.markers.written] == [False]

    in_trio(body)


def test_a_transaction_that_began_while_a_clock_was_ahead_times_out_all_the_same() -> None:
    async def body() -> None:
        bench = Bench()
        async with bench.running():
            producer = await bench.init()
            await bench.add(producer)
            bench.put(replace(bench.now, start_ms=bench.now.start_ms + 3_600_000))
        async with bench.running():
            await trio.sleep(TIMEOUT_MS / 1000 - 1)
            assert bench.now.state is TransactionState.ONGOING
            await trio.sleep(25)
            assert bench.now.state is TransactionState.COMPLETE_ABORT

    in_trio(body)


def test_each_transaction_has_its_own_time() -> None:
    async def body() -> None:
        bench = Bench()
        async with bench.running():
            producer = await bench.init()
            for _ in range(5):
                await bench.add(producer)
                await trio.sleep(TIMEOUT_MS / 1000 - 15)
                producer = await bench.end(producer)
                assert producer.error is ErrorCode.NONE

    in_trio(body)


def test_a_transactional_id_that_nobody_uses_expires_unless_its_transaction_is_open() -> None:
    async def body() -> None:
        bench = Bench(expiration_ms=100_000, expiry_interval_ms=1_000, timeout_max_ms=2**31 - 1)
        async with bench.running():
            producer = await bench.coordinator.init_producer_id(ID, 2**31 - 1, None)
            await bench.add(producer)
            await trio.sleep(200)
            assert bench.now.state is TransactionState.ONGOING, "two-phase commit has no timeout"
            await bench.end(producer)
            await trio.sleep(99)
            assert bench.now.state is TransactionState.COMPLETE_COMMIT
            await trio.sleep(3)
            assert (await bench.coordinator.describe(ID)).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        async with bench.running():
            assert (await bench.coordinator.list(ListTransactionsRequest())).transaction_states == []

    in_trio(body)


def test_two_phase_commit_must_be_allowed_and_has_no_timeout() -> None:
    async def body() -> None:
        day_ms = 86_400_000
        bench = Bench(two_phase_commit_enabled=True, abort_interval_ms=day_ms, expiry_interval_ms=day_ms)
        async with bench.running():
            producer = await bench.coordinator.init_producer_id(ID, 0, None, two_phase_commit=True)
            assert await bench.add(producer) is ErrorCode.NONE
            await trio.sleep(30 * day_ms / 1000)
            assert bench.now.state is TransactionState.ONGOING
        async with Bench().running() as forbids:
            answer = await forbids.init_producer_id(ID, 0, None, two_phase_commit=True)
            assert answer.error is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    in_trio(body)


def test_ids_are_matched_by_patterns_of_re2() -> None:
    async def body() -> None:
        bench = Bench()
        async with bench.running():
            for name in ("pay-1", "pay-2", "a" * 30_000):
                await bench.coordinator.init_producer_id(name, TIMEOUT_MS, None)

            async def listed(pattern: str) -> list[str]:
                found = await bench.coordinator.list(ListTransactionsRequest(transactional_id_pattern=pattern))
                return sorted(one.transactional_id for one in found.transaction_states)

            assert await listed(r"\Qpay-1\E|[[:alpha:]]{3}-\x32") == ["pay-1", "pay-2"]
            assert await listed("ay-1") == []
            assert bench.in_threads == 0
            assert await listed("a{199}|" * 9 + "pay-1") == ["pay-1"]
            assert bench.in_threads == 1, "for the long id"
            refused = await bench.coordinator.list(ListTransactionsRequest(transactional_id_pattern="("))
            assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    in_trio(body)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_coordinator_whose_markers_are_refused_stops(at_once: bool) -> None:
    async def body() -> None:
        bench = Bench()
        bench.markers.at_once = at_once
        bench.markers.refusal = TransactionCoordinatorFencedError("a later coordinator")
        async with bench.running():
            await bench.ended(await bench.init())
            assert bench.now.is_prepared
            assert bench.markers.written == []

    in_trio(body)


def test_verification_tells_members_of_the_transaction_from_others() -> None:
    async def body() -> None:
        bench = Bench()
        async with bench.running() as coordinator:
            producer = await bench.init()
            other = TopicPartition("other", 0)
            asked = frozenset({*PARTITIONS, other})
            await bench.add(producer, V1)
            found = await coordinator.verify_partitions(ID, producer, asked)
            assert found == dict.fromkeys(PARTITIONS, ErrorCode.NONE) | {other: ErrorCode.TRANSACTION_ABORTABLE}
            stale = ProducerIdentity(producer.producer_id, producer.epoch - 1)
            refused = await coordinator.verify_partitions(ID, stale, asked)
            assert set(refused.values()) == {ErrorCode.PRODUCER_FENCED}

    in_trio(body)


@pytest.mark.parametrize("version", [V1, V2])
def test_the_next_transaction_waits_for_the_markers_of_the_last_one(version: int) -> None:
    async def body() -> None:
        bench = Bench()
        async with bench.running(), trio.open_nursery() as nursery:
            first = await bench.init()
            assert await bench.add(first, version) is ErrorCode.NONE
            bench.markers.held = trio.Event()
            following = await bench.end(first, version=version)
            await trio.testing.wait_all_tasks_blocked()
            answers: list[ErrorCode] = []

            async def add() -> None:
                answers.append(await bench.add(following, version))

            nursery.start_soon(add)
            await trio.testing.wait_all_tasks_blocked()
            assert not answers
            bench.markers.held.set()
            await trio.testing.wait_all_tasks_blocked()
            assert answers == [ErrorCode.NONE]

    in_trio(body)


def test_the_answer_to_an_end_comes_before_the_work_on_its_markers() -> None:
    async def body() -> None:
        bench = Bench()
        async with bench.running():
            following = await bench.init()
            for number in range(10):
                await bench.add(following)
                following = await bench.end(following)
                assert bench.markers.asked == number
                await trio.testing.wait_all_tasks_blocked()

    in_trio(body)


def test_markers_are_not_waited_for_without_end() -> None:
    async def body() -> None:
        bench = Bench(retry_max_ms=70)
        async with bench.running():
            first = await bench.init()
            await bench.add(first)
            bench.markers.held = trio.Event()
            following = await bench.end(first)
            began = trio.current_time()
            assert await bench.add(following) is ErrorCode.CONCURRENT_TRANSACTIONS
            assert trio.current_time() - began == pytest.approx(0.07)

    in_trio(body)
