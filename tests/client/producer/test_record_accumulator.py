"""The record accumulator: batches fill, linger, keep their order after every kind of failure, and complete once."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.options import ProducerOptions, make
from minikafka.client.producer.producer_batch import PendingBatch
from minikafka.client.producer.record_accumulator import Accumulator, ProducerIdentity
from minikafka.client.producer.transaction_state import TransactionState
from minikafka.protocol.errors import (
    DuplicateSequenceNumberError,
    InvalidProducerEpochError,
    InvalidRecordError,
    KafkaError,
    MessageTooLargeError,
    NetworkError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceNumberError,
    RequestTimedOutError,
    UnknownProducerIdError,
)


def accumulator(**options: Any) -> Accumulator:
    made = Accumulator(make(ProducerOptions, options, "Producer"), Backoff(100, 1000, Random(1)))
    made.identity = ProducerIdentity(7, 0)
    return made


def add(made: Accumulator, value: bytes, now: float = 0.0, partition: int = 0) -> PendingBatch:
    batch = made.batch_for(made.lane("t", partition), len(value) + 21, now)
    batch.keys.append(None)
    batch.values.append(value)
    batch.timestamps.append(0)
    return batch


def established(**options: Any) -> Accumulator:
    """An accumulator with a lane whose producer state the broker has, at sequence 1."""
    made = accumulator(**options)
    add(made, b"first")
    [first] = collect(made, 1.0)
    made.succeeded(first, 0)
    return made


def collect(made: Accumulator, now: float) -> list[PendingBatch]:
    requests = made.collect(now, lambda topic, partition: 1, lambda node_id: True)
    return [batch for batches in requests.values() for batch in batches]


def test_a_batch_lingers_until_it_is_full_or_old() -> None:
    made = accumulator(linger_ms=10, batch_size=200)
    add(made, b"x" * 50)
    assert collect(made, 0.005) == []
    assert made.next_time(0.005) == pytest.approx(0.010)
    [batch] = collect(made, 0.010)
    assert batch.values == [b"x" * 50]
    made.succeeded(batch, 0)
    full = add(made, b"y" * 100, 0.011)
    add(made, b"z" * 100, 0.011)
    assert collect(made, 0.011) == [full]


def test_a_batch_is_due_at_the_very_time_that_was_announced() -> None:
    """Whatever the rounding: `now - opened >= linger` can be false where `now >= opened + linger` is true."""
    for uptime_s in range(1, 100_000, 97):
        made = accumulator(linger_ms=5)
        now = uptime_s + 0.1
        add(made, b"x", now)
        assert len(collect(made, made.next_time(now))) == 1


def test_a_flush_ends_lingering_but_sends_no_empty_batch() -> None:
    made = accumulator(linger_ms=1000)
    made.flushing = True
    made.open_batch(made.lane("t", 0), 0.0)
    assert collect(made, 0.0) == []
    add(made, b"x")
    assert len(collect(made, 0.0)) == 1


def test_one_request_takes_one_batch_per_partition_up_to_its_limit() -> None:
    made = accumulator(linger_ms=0, max_request_size=400)
    for partition in range(4):
        add(made, b"x" * 100, partition=partition)
    assert [batch.partition for batch in collect(made, 1.0)] == [0, 1]
    assert [batch.partition for batch in collect(made, 1.0)] == [2, 3]
    assert collect(made, 1.0) == []


def test_partitions_take_turns_when_the_request_is_full() -> None:
    made = accumulator(linger_ms=0, max_request_size=400, batch_size=0, enable_idempotence=False)
    for partition in (0, 0, 0, 1, 2, 3):
        add(made, b"x" * 100, partition=partition)
    assert [batch.partition for _ in range(4) for batch in collect(made, 1.0)] == [0, 1, 2, 3, 0, 0]


def test_partitions_without_leader_or_with_a_busy_one_wait() -> None:
    made = accumulator(linger_ms=0)
    add(made, b"x")
    assert made.collect(1.0, lambda topic, partition: -1, lambda node_id: True) == {}
    assert made.collect(1.0, lambda topic, partition: 1, lambda node_id: False) == {}
    assert made.next_time(1.0) == pytest.approx(120.0)  # only its delivery timeout


def test_a_new_leader_gets_no_batch_while_the_old_one_has_one_in_flight() -> None:
    made = established()
    [first] = [add(made, b"1")]
    assert collect(made, 1.0) == [first]
    second = add(made, b"2", 1.0)
    made.flushing = True
    assert made.collect(1.0, lambda topic, partition: 2, lambda node_id: True) == {}
    made.failed(first, NetworkError("lost"), 1.0, pause=False)
    assert made.collect(1.0, lambda topic, partition: 2, lambda node_id: True) == {2: [first]}
    made.succeeded(first, 1)
    assert made.collect(1.0, lambda topic, partition: 2, lambda node_id: True) == {2: [second]}


def test_sequences_count_records_per_partition() -> None:
    made = established(linger_ms=0, batch_size=0)
    for partition in (0, 1, 0, 0):
        add(made, b"x", partition=partition)
    sent = collect(made, 1.0) + collect(made, 1.0) + collect(made, 1.0)
    assert [(batch.partition, batch.base_sequence) for batch in sent] == [(0, 1), (1, 0), (0, 2), (0, 3)]
    assert all((batch.producer_id, batch.producer_epoch) == (7, 0) for batch in sent)


def test_the_first_batch_of_an_epoch_is_sent_alone() -> None:
    made = accumulator(linger_ms=0, batch_size=0)
    for value in (b"a", b"b", b"c"):
        add(made, value)
    [first] = collect(made, 1.0)
    assert collect(made, 1.0) == []
    made.succeeded(first, 0)
    assert len(collect(made, 1.0) + collect(made, 1.0)) == 2


def transactional(**options: Any) -> Accumulator:
    """An accumulator within a transaction of version 2."""
    made = accumulator(linger_ms=0, **options)
    made.transaction = TransactionState("x", timeout_ms=60_000, now=lambda: 0.0)
    made.transaction.begin(version2=True)
    made.transaction.use("t", 0)
    return made


def test_in_a_transaction_a_batch_is_filled_while_another_one_is_in_flight() -> None:
    made = transactional()
    first = add(made, b"a")
    assert collect(made, 1.0) == [first]
    second = add(made, b"b", 1.0)
    assert collect(made, 2.0) == []
    made.succeeded(first, 0)
    assert add(made, b"c", 2.0) is second
    assert collect(made, 2.0) == [second]


def test_in_a_transaction_the_commit_sends_what_is_held_without_waiting_for_the_first_batch() -> None:
    made = transactional()
    first = add(made, b"a")
    assert collect(made, 1.0) == [first]
    second = add(made, b"b", 1.0)
    made.flushing = True
    assert collect(made, 1.0) == [second]
    made.failed(first, NotLeaderOrFollowerError(), 1.0)
    assert collect(made, 5.0) == []  # the order: the second one is in flight
    made.failed(second, OutOfOrderSequenceNumberError(), 1.0)
    assert collect(made, 5.0) == [first]
    made.succeeded(first, 0)
    assert collect(made, 5.0) == [second]
    assert (first.base_sequence, second.base_sequence) == (0, 1)


def test_open_batches_that_are_to_be_filled_are_not_sent_before_a_flush() -> None:
    made = transactional(batch_size=200)
    made.fills_open = True
    first, second = add(made, b"x" * 100), add(made, b"x" * 100)
    assert first is not second
    assert collect(made, 9.0) == [first], "it is full"
    made.succeeded(first, 0)
    assert collect(made, 9.0) == []
    made.flushing = True
    assert collect(made, 9.0) == [second]


def test_in_a_transaction_full_batches_are_sent_while_others_are_in_flight() -> None:
    made = transactional(batch_size=200)
    for number in range(3):
        add(made, b"x" * 100, float(number))
    assert [batch.base_sequence for batch in collect(made, 3.0) + collect(made, 3.0)] == [0, 1]
    assert collect(made, 3.0) == []


def test_a_retry_keeps_its_position_and_its_sequence() -> None:
    made = established(linger_ms=0, batch_size=0)
    for value in (b"a", b"b", b"c"):
        add(made, value)
    first, second = collect(made, 1.0) + collect(made, 1.0)
    made.failed(first, NotLeaderOrFollowerError(), 1.0)
    assert collect(made, 5.0) == []  # the second batch is in flight
    made.failed(second, OutOfOrderSequenceNumberError(), 1.0)
    assert collect(made, 5.0) == [first]
    assert collect(made, 5.0) == []  # nothing else is in flight while one is retried
    made.succeeded(first, 10)
    assert (collect(made, 5.0), first.base_sequence, second.base_sequence) == ([second], 1, 2)
    made.succeeded(second, 11)
    assert collect(made, 5.0)[0].values == [b"c"]
    assert (first.metadata(0).offset, second.metadata(0).offset) == (10, 11)


def test_a_retry_waits_longer_each_time() -> None:
    made = accumulator(linger_ms=0, delivery_timeout_ms=10_000_000)
    batch = add(made, b"x")
    pauses: list[float] = []
    now = 1.0
    for _ in range(5):
        assert collect(made, now) == [batch]
        made.failed(batch, NetworkError(), now)
        pauses.append(batch.not_before - now)
        assert collect(made, now) == []
        now = made.next_time(now)
    assert pauses == sorted(pauses)
    assert pauses[-1] <= 1.2


def test_retries_end() -> None:
    made = accumulator(linger_ms=0, retries=1, enable_idempotence=False)
    batch = add(made, b"x")
    for now in (1.0, 3.0):
        assert collect(made, now) == [batch]
        made.failed(batch, NetworkError("gone"), now)
    assert isinstance(batch.error, NetworkError)
    assert made.used_bytes == 0


@pytest.mark.parametrize("error", [OutOfOrderSequenceNumberError(), UnknownProducerIdError()])
def test_lost_producer_state_raises_the_epoch_and_starts_at_zero(error: KafkaError) -> None:
    made = established(linger_ms=0, batch_size=0)
    for value in (b"a", b"b", b"c"):
        add(made, value)
    first, second = collect(made, 1.0) + collect(made, 1.0)
    made.succeeded(first, 0)
    made.failed(second, error, 1.0)
    [again] = collect(made, 5.0)
    assert (again, again.base_sequence, again.producer_epoch) == (second, 0, 1)
    made.succeeded(second, 1)
    [third] = collect(made, 5.0)
    assert (third.base_sequence, third.producer_epoch) == (1, 1)


def test_other_partitions_keep_their_epoch() -> None:
    made = accumulator(linger_ms=0, batch_size=0)
    add(made, b"a")
    [batch] = collect(made, 1.0)
    made.failed(batch, UnknownProducerIdError(), 1.0)
    add(made, b"b", partition=1)
    sent = {one.partition: one.producer_epoch for one in collect(made, 5.0)}
    assert sent == {0: 1, 1: 1}


def test_a_fenced_or_exhausted_epoch_requires_a_new_producer_id() -> None:
    made = accumulator(linger_ms=0)
    batch = add(made, b"a")
    assert collect(made, 1.0) == [batch]
    made.failed(batch, InvalidProducerEpochError(), 1.0)
    assert made.identity is None
    assert collect(made, 5.0) == []
    made.identity = ProducerIdentity(8, (1 << 15) - 1)
    assert collect(made, 5.0)[0].producer_id == 8
    made.failed(batch, UnknownProducerIdError(), 5.0)
    assert collect(made, 50.0) == []
    assert made.identity is None


def test_a_failed_batch_leaves_no_gap_for_the_next() -> None:
    made = established(linger_ms=0, batch_size=0)
    add(made, b"bad")
    add(made, b"good")
    bad, good = collect(made, 1.0) + collect(made, 1.0)
    made.failed(bad, InvalidRecordError("no"), 1.0)
    made.failed(good, OutOfOrderSequenceNumberError(), 1.0)
    assert isinstance(bad.error, InvalidRecordError)
    assert collect(made, 5.0) == [good]
    assert (good.base_sequence, good.producer_epoch) == (0, 1)


def with_an_expired_one() -> tuple[Accumulator, PendingBatch]:
    """Of two batches whose requests were lost, the older has expired and the newer is refused for the gap, at 33 s."""
    made = established(linger_ms=0, batch_size=0, delivery_timeout_ms=31_000)
    older, newer = add(made, b"a", 1.0), add(made, b"b", 20.0)
    assert collect(made, 20.0) + collect(made, 20.0) == [older, newer]
    for batch in (older, newer):
        made.failed(batch, NetworkError("lost"), 21.0)
    assert made.expire(32.5) == [older]
    assert collect(made, 33.0) == [newer]
    made.failed(newer, OutOfOrderSequenceNumberError(), 33.0)
    return made, newer


def test_a_batch_whose_lost_request_may_arrive_late_keeps_its_numbers() -> None:
    """Seed 9595: the broker read both requests from the old connection after it had refused the retry for the gap."""
    made, newer = with_an_expired_one()
    assert collect(made, 35.0) == [newer]
    assert (newer.base_sequence, newer.producer_epoch) == (2, 0)
    made.succeeded(newer, 7)  # the broker tells the offset of the lost request
    assert newer.metadata(0).offset == 7
    after = add(made, b"c", 36.0)
    assert collect(made, 36.0) == [after]
    made.failed(after, NetworkError("lost"), 36.0)
    assert collect(made, 38.0) == [after]
    assert (after.base_sequence, after.producer_epoch) == (3, 0)
    made.failed(after, OutOfOrderSequenceNumberError(), 38.0)  # nothing is late any more: the broker lost its state
    assert collect(made, 40.0) == [after]
    assert (after.base_sequence, after.producer_epoch) == (0, 1)


def test_batches_that_were_never_sent_get_new_numbers_once_those_that_may_arrive_late_have_expired() -> None:
    made, newer = with_an_expired_one()
    waits = add(made, b"c", 40.0)
    assert made.expire(51.5) == [newer]
    assert collect(made, 51.5) == [waits]
    assert (waits.base_sequence, waits.producer_epoch) == (0, 1)
    made.succeeded(waits, 3)
    after = add(made, b"d", 52.0)
    assert collect(made, 52.0) == [after]
    assert (after.base_sequence, after.producer_epoch) == (1, 1)


def test_a_batch_too_large_is_split() -> None:
    made = accumulator(linger_ms=0)
    seen: list[Any] = []
    for number in range(5):
        batch = add(made, b"%d" % number)
        batch.callbacks.append((number, lambda metadata, error: seen.append(metadata or error)))
    [batch] = collect(made, 1.0)
    made.failed(batch, MessageTooLargeError(), 1.0)
    [left] = collect(made, 1.0)
    assert left.values == [b"0", b"1"]
    made.failed(left, MessageTooLargeError(), 1.0)
    offsets = {b"0": 0, b"1": 1, b"2": 2}
    for value, offset in offsets.items():
        [part] = collect(made, 1.0)
        assert part.values[0] == value
        made.succeeded(part, offset)
    assert batch.done
    assert [batch.metadata(index).offset for index in range(5)] == [0, 1, 2, 3, 4]
    assert [one.offset for one in seen] == [0, 1, 2, 3, 4]
    assert made.used_bytes == 0


def test_one_record_that_is_too_large_fails() -> None:
    made = accumulator(linger_ms=0)
    batch = add(made, b"x")
    collect(made, 1.0)
    made.failed(batch, MessageTooLargeError("big"), 1.0)
    with pytest.raises(MessageTooLargeError, match="big"):
        batch.metadata(0)


def test_duplicates_are_delivered() -> None:
    made = accumulator(linger_ms=0)
    batch = add(made, b"x")
    collect(made, 1.0)
    made.failed(batch, DuplicateSequenceNumberError(), 1.0)
    assert batch.metadata(0).offset == -1


def test_old_batches_expire_in_every_state() -> None:
    made = accumulator(linger_ms=0, delivery_timeout_ms=31_000)
    in_flight = add(made, b"a")
    collect(made, 1.0)
    waiting = add(made, b"b", 1.0)
    made.expire(30.9)
    assert not in_flight.done
    made.expire(33.0)
    for batch in (in_flight, waiting):
        assert isinstance(batch.error, RequestTimedOutError)
    assert made.used_bytes == 0
    made.succeeded(in_flight, 5)  # too late: the delivery has failed already
    assert isinstance(in_flight.error, RequestTimedOutError)
    add(made, b"c", 34.0)
    [after] = collect(made, 34.0)
    assert (after.base_sequence, after.producer_epoch) == (1, 0)  # the broker may have appended the batch in flight
    made.failed(after, OutOfOrderSequenceNumberError(), 34.0)
    assert collect(made, 40.0) == [after]
    assert (after.base_sequence, after.producer_epoch) == (0, 1)


def test_all_batches_can_be_failed() -> None:
    made = accumulator(linger_ms=0)
    batches = [add(made, b"x", partition=partition) for partition in range(3)]
    collect(made, 1.0)
    batches.append(add(made, b"y", 1.0))
    made.fail_all(NetworkError("closed"))
    assert all(isinstance(batch.error, NetworkError) for batch in batches)
    assert (list(made.unfinished()), made.used_bytes) == ([], 0)
