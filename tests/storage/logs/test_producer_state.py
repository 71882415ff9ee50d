"""Producer state: Kafka's rules, a small model, and the format of snapshots."""

from __future__ import annotations

import struct

import pytest
import trio
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from support.logs import PARTITION, append, make_batch, memory_disk, open_log, parse

from minikafka.protocol.errors import KafkaError
from minikafka.protocol.records.batch import Batch, batches
from minikafka.protocol.records.control import ControlType, EndTxnMarker, encode_end_transaction
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs import producer_state
from minikafka.storage.logs.producer_state import (
    BatchMetadata,
    CompletedTransaction,
    CorruptSnapshot,
    Duplicate,
    Origin,
    ProducerStates,
)

LAST = (1 << 31) - 1


def data(
    sequence: int, count: int = 1, *, epoch: int = 0, offset: int = 0, producer: int = 7, open_: bool = False
) -> Batch:
    batch = parse(
        make_batch(
            [b"x"] * count,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=open_,
        )
    )
    batch.base_offset = offset
    return batch


def marker(kind: ControlType, *, epoch: int = 0, offset: int = 0, producer: int = 7, coordinator: int = 0) -> Batch:
    found = encode_end_transaction(
        EndTxnMarker(kind, coordinator), producer_id=producer, producer_epoch=epoch, timestamp=5
    )
    batch = parse(found)
    batch.base_offset = offset
    return batch


def states(*batches: Batch) -> ProducerStates:
    found = ProducerStates(PARTITION)
    for batch in batches:
        completed = found.apply(batch)
        if completed is not None:
            found.complete(completed)
    return found


def error_of(found: ProducerStates, batch: Batch, origin: Origin = Origin.CLIENT, **options: int) -> str:
    with pytest.raises(KafkaError) as caught:
        found.check(batch, origin, **options)
    return caught.value.code.name


def test_an_unknown_producer_may_start_at_any_sequence() -> None:
    """KIP-360: its records may have been deleted."""
    assert ProducerStates(PARTITION).check(data(42)) is None


def test_a_sequence_gap_is_rejected() -> None:
    found = states(data(0, 10))
    assert found.check(data(10)) is None
    assert error_of(found, data(11)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert error_of(found, data(5, 2)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_a_retry_of_any_of_the_last_five_batches_returns_its_offsets() -> None:
    found = states(*[data(number * 3, 3, offset=100 + number * 3) for number in range(7)])
    for number in range(2, 7):
        first = 100 + number * 3
        assert found.check(data(number * 3, 3)) == Duplicate(first, first + 2, 1_700_000_000_002)
    assert error_of(found, data(3, 3)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert error_of(found, data(18, 2)) == "OUT_OF_ORDER_SEQUENCE_NUMBER", "only the exact batch is a retry"


def test_sequences_wrap_around_to_zero() -> None:
    found = states(data(LAST - 1, 2, offset=10))
    assert found.check(data(0)) is None
    found.apply(data(0, offset=12))
    assert found.check(data(1)) is None
    assert found.check(data(LAST - 1, 2)) == Duplicate(10, 11, 1_700_000_000_001)
    across = states(data(LAST, 3, offset=10))
    assert next(iter(across)).last_sequence == 1
    assert across.check(data(2)) is None
    assert across.check(data(LAST, 3)) == Duplicate(10, 12, 1_700_000_000_002)


def test_a_new_epoch_starts_at_zero_and_an_old_one_is_rejected() -> None:
    found = states(data(0, 5, epoch=3))
    assert found.check(data(0, epoch=4)) is None
    assert error_of(found, data(5, epoch=4)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert error_of(found, data(0, epoch=2)) == "INVALID_PRODUCER_EPOCH"
    found.apply(data(0, 5, epoch=4))
    assert found.check(data(0, 5, epoch=4)) is not None
    assert error_of(found, data(0, 5, epoch=3)) == "INVALID_PRODUCER_EPOCH"


def test_coordinators_have_epochs_but_no_sequences() -> None:
    found = states(data(0, 5, epoch=3))
    assert found.check(data(-1, epoch=3), Origin.COORDINATOR) is None
    assert error_of(found, data(-1, epoch=2), Origin.COORDINATOR) == "INVALID_PRODUCER_EPOCH"
    assert found.check(data(99, epoch=1), Origin.REPLICATION) is None


def test_replication_accepts_what_the_leader_accepted() -> None:
    found = states(data(0, epoch=3), data(7, epoch=1))
    assert next(iter(found)).epoch == 1


def test_a_transaction_runs_from_its_first_record_to_its_marker() -> None:
    found = states(data(0, open_=True, offset=10), data(0, producer=8, open_=True, offset=11))
    found.apply(data(1, open_=True, offset=12))
    assert found.first_unstable_offset == found.first_undecided_offset == 10
    completed = found.apply(marker(ControlType.ABORT, offset=13))
    assert completed == CompletedTransaction(7, 10, 13, aborted=True)
    assert found.last_stable_offset(completed) == 11
    found.complete(completed)
    assert found.first_unstable_offset == 10, "the marker is not replicated yet"
    assert found.first_undecided_offset == 11
    found.high_watermark_advanced(13)
    assert found.first_unstable_offset == 10
    found.high_watermark_advanced(14)
    assert found.first_unstable_offset == 11


def test_a_marker_without_a_transaction_completes_nothing() -> None:
    found = states(data(0))
    assert found.apply(marker(ControlType.COMMIT, offset=1)) is None
    assert found.first_unstable_offset is None


def test_an_open_transaction_accepts_only_transactional_records() -> None:
    found = states(data(0, open_=True))
    assert found.check(data(1, open_=True)) is None
    assert error_of(found, data(1)) == "INVALID_TXN_STATE"


def test_markers_are_fenced_by_producer_epoch_and_coordinator_epoch() -> None:
    found = states(data(0, open_=True, epoch=2), marker(ControlType.COMMIT, epoch=2, coordinator=5, offset=1))
    assert error_of(found, marker(ControlType.ABORT, epoch=1), Origin.COORDINATOR) == "INVALID_PRODUCER_EPOCH"
    zombie = marker(ControlType.ABORT, epoch=2, coordinator=4)
    assert error_of(found, zombie, Origin.COORDINATOR) == "TRANSACTION_COORDINATOR_FENCED"
    assert found.check(zombie, Origin.REPLICATION) is None


def test_a_marker_of_an_unknown_producer_has_epochs_that_a_producer_can_have() -> None:
    found = states()
    assert found.check(marker(ControlType.ABORT, epoch=0, coordinator=-1), Origin.COORDINATOR) is None
    assert error_of(found, marker(ControlType.ABORT, epoch=-2), Origin.COORDINATOR) == "INVALID_PRODUCER_EPOCH"
    early = marker(ControlType.ABORT, coordinator=-2)
    assert error_of(found, early, Origin.COORDINATOR) == "TRANSACTION_COORDINATOR_FENCED"
    assert found.check(early, Origin.REPLICATION) is None


def test_with_transactions_version_2_a_marker_increases_the_epoch() -> None:
    """KIP-890; a marker repeated after the end of its transaction is accepted (KAFKA-19999)."""
    found = states(data(0, open_=True, epoch=2))
    late = marker(ControlType.COMMIT, epoch=2)
    assert error_of(found, late, Origin.COORDINATOR, transaction_version=2) == "INVALID_PRODUCER_EPOCH"
    assert found.check(late, Origin.COORDINATOR, transaction_version=1) is None
    raised = marker(ControlType.COMMIT, epoch=3, offset=1)
    assert found.check(raised, Origin.COORDINATOR, transaction_version=2) is None
    found.apply(raised)
    assert found.check(raised, Origin.COORDINATOR, transaction_version=2) is None
    assert error_of(found, data(1, epoch=3)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert found.check(data(0, epoch=3)) is None


def test_a_snapshot_restores_last_batches_and_open_transactions() -> None:
    found = states(*[data(number, offset=number, open_=True) for number in range(6)], data(0, producer=3))
    again = ProducerStates(PARTITION)
    again.load_snapshot(found.encode_snapshot(), 7, 0)
    assert again.end_offset == 7
    assert again.first_undecided_offset == 0
    assert again.check(data(6, open_=True)) is None
    assert again.check(data(5, open_=True)) == Duplicate(5, 5, 1_700_000_000_000)
    assert error_of(again, data(4, open_=True)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert again.encode_snapshot() == found.encode_snapshot()


def test_batches_before_the_snapshot_are_read_from_the_log() -> None:
    found = states(*[data(number, offset=number) for number in range(6)], data(0, producer=8, offset=6))
    again = ProducerStates(PARTITION)
    again.load_snapshot(found.encode_snapshot(), 7, 0)
    asked: list[int] = []

    def histories(end_offset: int) -> dict[tuple[int, int], list[BatchMetadata]]:
        asked.append(end_offset)
        return {(7, 0): list(found.get(7).batches)}  # type: ignore[union-attr]

    again.histories = histories
    assert again.check(data(2)) == Duplicate(2, 2, 1_700_000_000_000)
    assert error_of(again, data(0)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert error_of(again, data(5, producer=8)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert asked == [7], "the log is read once for all producers"


def test_inactive_producers_expire_unless_a_transaction_is_open() -> None:
    found = states(data(0), data(0, producer=8, open_=True))
    last_ms = 1_700_000_000_000
    assert not list(found.expire(last_ms - 1))
    assert len(found) == 2
    assert not list(found.expire(last_ms))
    assert [producer.producer_id for producer in found] == [8]
    again = ProducerStates(PARTITION)
    again.load_snapshot(states(data(0), data(0, producer=8)).encode_snapshot(), 1, last_ms)
    assert len(again) == 0


def test_producers_expire_in_steps_between_which_the_state_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "PRODUCERS_AT_ONCE", 2)
    found = states(*[data(0, producer=number) for number in range(7)])
    left = [len(found) for _ in found.expire(1 << 60)]
    assert (left, len(found)) == ([5, 3, 1], 0)
    found = states(*[data(0, producer=number) for number in range(7)])
    for _ in found.expire(1 << 60):
        found.clear(0)
    assert len(found) == 0


def test_snapshots_have_kafkas_format() -> None:
    found = states(data(0, 3, epoch=1, offset=20, open_=True))
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 7, 1, 2, 22, 2, 1_700_000_000_002, -1, 20)
    assert found.encode_snapshot() == struct.pack(">hI", 1, crc32c(body)) + body
    assert ProducerStates(PARTITION).encode_snapshot() == bytes.fromhex("000148674bc700000000")


def test_a_snapshot_with_a_flipped_bit_is_rejected() -> None:
    good = states(data(0, 3), data(0, producer=9)).encode_snapshot()
    found = ProducerStates(PARTITION)
    for bit in range(len(good) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptSnapshot):
            found.load_snapshot(bytes(bad), 1, 0)
    for size in range(len(good)):
        with pytest.raises(CorruptSnapshot):
            found.load_snapshot(good[:size], 1, 0)
    assert len(found) == 0


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),  # the epoch
            st.one_of(st.none(), st.integers(0, 12)),  # None: the next sequence; else this one
            st.integers(1, 3),  # records
        ),
        max_size=40,
    )
)
def test_checks_agree_with_a_list_of_all_batches(steps: list[tuple[int, int | None, int]]) -> None:
    """The model is a list of all accepted batches of the current epoch, of which the last five may be retried."""
    found = ProducerStates(PARTITION)
    epoch, batches, offset = -1, [], 0
    for new_epoch, chosen, count in steps:
        expected = (batches[-1][1] + 1) if batches and new_epoch == epoch else 0
        sequence = expected if chosen is None else chosen
        batch = data(sequence, count, epoch=new_epoch, offset=offset)
        retried = [one for one in batches[-5:] if (one[0], one[1]) == (sequence, sequence + count - 1)]
        if new_epoch == epoch and sequence != expected and retried:
            assert found.check(batch) == Duplicate(retried[0][2], retried[0][2] + count - 1, batch.max_timestamp)
        elif new_epoch < epoch:
            assert error_of(found, batch) == "INVALID_PRODUCER_EPOCH"
        elif sequence != expected and epoch != -1:
            assert error_of(found, batch) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
        else:
            assert found.check(batch) is None
            found.apply(batch)
            batches = batches if new_epoch == epoch else []
            batches.append((sequence, sequence + count - 1, offset))
            epoch, offset = new_epoch, offset + count


@pytest.mark.parametrize("ending", ["killed", "power failure"])
@pytest.mark.parametrize("deleted", ["all segments", "the start of a segment"])
def test_producers_whose_records_were_all_deleted_are_known_after_an_unclean_end(ending: str, deleted: str) -> None:
    """Or a batch that is sent again would be appended twice: Kafka forgets them."""
    disk = memory_disk()
    log = open_log(disk)
    of_producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    append(log, b"a", b"b", **of_producer)
    append(log, b"c")
    if deleted == "all segments":
        log.update_config(LogConfig(retention_bytes=0))
        log.delete_old_segments(log.end_offset)
    else:
        log.advance_start_offset(2)
    log.delete_old_segments(log.end_offset)
    if ending == "power failure":
        everything = deleted != "all segments"
        assert everything or log.flush_wanted, "its producers are in a file that is not synced"
        trio.run(lambda: log.flush_async(all_segments=everything))
        disk.crash()
    again = open_log(disk, start_offset=log.start_offset, recovery_point=log.recovery_point)
    assert (again.start_offset, again.end_offset) == (log.start_offset, 3)
    (batch,) = batches(make_batch([b"a", b"b"], **of_producer))
    assert again.producers.check(batch) == Duplicate(0, 1, batch.max_timestamp)


def test_producers_are_known_after_a_truncation_above_the_log_start() -> None:
    log = open_log(memory_disk())
    append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, b"b")
    append(log, b"c")
    log.advance_start_offset(1)
    log.truncate_to(2)
    assert [producer.producer_id for producer in log.producers] == [7]
