"""Verifications (KIP-890): which transactional batches may open a transaction in a partition."""

from __future__ import annotations

import pytest
from support.batches import encode_batch

from minikafka.broker.partitions.batch_validation import produced_batch
from minikafka.broker.partitions.partition import AppendResult, Partition
from minikafka.broker.partitions.verification import ENTRIES_MAX, Verification
from minikafka.controller.metadata.image import PartitionState
from minikafka.protocol.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.control import ControlType, EndTxnMarker, encode_end_transaction
from minikafka.protocol.records.record import Record
from minikafka.storage import Log, LogConfig, MemoryDisk
from minikafka.storage.logs.log_context import Checkpointed, LogContext

NOW_MS = 1_700_000_000_000
TP = TopicPartition("flights", 0)
PRODUCER = 7


def partition() -> Partition:
    log = Log.open(LogContext(MemoryDisk(), lambda: NOW_MS), "log", TP, LogConfig(), Checkpointed())
    found = Partition(1, bytes(16), TP, log)
    found.become(state(leader=1, epoch=0))
    return found


def state(*, leader: int, epoch: int) -> PartitionState:
    return PartitionState(replicas=(1, 2), isr=(leader,), leader=leader, leader_epoch=epoch, partition_epoch=epoch)


def produce(
    target: Partition, token: Verification | None, *, epoch: int = 0, sequence: int = 0, producer: int = PRODUCER
) -> AppendResult:
    data = encode_batch(
        [Record(-1, NOW_MS, None, b"v")],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    return target.append(produced_batch(bytearray(data), 11), now_ms=NOW_MS, verification=token)


def end(target: Partition, *, epoch: int = 0, coordinator_epoch: int = 0, version: int = 0) -> None:
    marker = EndTxnMarker(ControlType.ABORT, coordinator_epoch)
    data = encode_end_transaction(marker, producer_id=PRODUCER, producer_epoch=epoch, timestamp=NOW_MS)
    target.append_internal(bytearray(data), transaction_version=version)


def test_a_transaction_is_opened_with_a_token_only() -> None:
    target = partition()
    with pytest.raises(InvalidTxnStateError):
        produce(target, None)
    token = target.begin_verification(PRODUCER, 0, 0)
    with pytest.raises(InvalidTxnStateError):
        produce(target, Verification({}, PRODUCER, 0, 0, bumps_epoch=False))
    produce(target, token)
    assert target.begin_verification(PRODUCER, 0, 1) is None, "its transaction is open"
    produce(target, None, sequence=1)
    assert target.log.end_offset == 2


def test_a_marker_makes_a_token_void() -> None:
    """A produce that is late arrives after its transaction was aborted, and must not open it again."""
    target = partition()
    token = target.begin_verification(PRODUCER, 0, 0)
    end(target)
    with pytest.raises(InvalidTxnStateError):
        produce(target, token)
    assert target.last_stable_offset == target.log.end_offset == 1


def test_the_marker_of_the_transaction_before_leaves_the_token_of_the_next_one() -> None:
    """A client of version 2 begins the next transaction as soon as EndTxn is answered, before the marker is written."""
    target = partition()
    produce(target, target.begin_verification(PRODUCER, 0, 0, bumps_epoch=True))
    token = target.begin_verification(PRODUCER, 1, 0, bumps_epoch=True)
    end(target, epoch=1, version=2)
    produce(target, token, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        target.begin_verification(PRODUCER, 0, 0, bumps_epoch=True)


def test_a_new_leader_epoch_makes_a_token_void() -> None:
    target = partition()
    token = target.begin_verification(PRODUCER, 0, 0)
    target.become(state(leader=2, epoch=1))
    with pytest.raises(NotLeaderOrFollowerError):
        target.begin_verification(PRODUCER, 0, 0)
    target.become(state(leader=1, epoch=2))
    with pytest.raises(InvalidTxnStateError):
        produce(target, token)


def test_a_token_opens_one_transaction() -> None:
    target = partition()
    token = target.begin_verification(PRODUCER, 0, 0)
    produce(target, token)
    end(target)
    with pytest.raises(InvalidTxnStateError):
        produce(target, token, sequence=1)
    assert target.log.end_offset == 2


def test_a_batch_that_comes_twice_is_known_also_after_the_end() -> None:
    target = partition()
    first = produce(target, target.begin_verification(PRODUCER, 0, 0))
    end(target)
    assert produce(target, None).first_offset == first.first_offset
    assert target.log.end_offset == 2


def test_batches_that_wait_together_keep_their_order() -> None:
    target = partition()
    first = target.begin_verification(PRODUCER, 0, 0)
    second = target.begin_verification(PRODUCER, 0, 1)
    assert first is second
    with pytest.raises(OutOfOrderSequenceNumberError):
        produce(target, second, sequence=1)
    produce(target, first)
    produce(target, second, sequence=1)


def test_each_transaction_of_version_2_begins_with_sequence_0() -> None:
    target = partition()
    token = target.begin_verification(PRODUCER, 0, 3, bumps_epoch=True)
    with pytest.raises(OutOfOrderSequenceNumberError):
        produce(target, token, sequence=3)


def test_an_older_epoch_gets_a_token_that_is_void() -> None:
    target = partition()
    newer = target.begin_verification(PRODUCER, 1, 0)
    older = target.begin_verification(PRODUCER, 0, 0)
    with pytest.raises(InvalidTxnStateError):
        produce(target, older)
    produce(target, newer, epoch=1)
    with pytest.raises(InvalidTxnStateError):
        produce(target, older)


def test_the_number_of_tokens_is_limited() -> None:
    target = partition()
    first = target.begin_verification(PRODUCER, 0, 0)
    for producer in range(1000, 1000 + ENTRIES_MAX):
        last = target.begin_verification(producer, 0, 0)
    with pytest.raises(InvalidTxnStateError):
        produce(target, first)
    produce(target, last, producer=999 + ENTRIES_MAX)


def test_markers_of_earlier_transactions_and_coordinators_are_refused() -> None:
    target = partition()
    produce(target, target.begin_verification(PRODUCER, 3, 0), epoch=3)
    with pytest.raises(InvalidProducerEpochError):
        end(target, epoch=2)
    with pytest.raises(InvalidProducerEpochError):
        end(target, epoch=3, version=2)
    end(target, epoch=4, coordinator_epoch=5, version=2)
    end(target, epoch=4, coordinator_epoch=5, version=2)
    with pytest.raises(TransactionCoordinatorFencedError):
        end(target, epoch=4, coordinator_epoch=4, version=2)
    with pytest.raises(InvalidProducerEpochError):
        produce(target, target.begin_verification(PRODUCER, 3, 1), epoch=3, sequence=1)


def test_a_refused_verification_does_not_hold_up_an_earlier_epoch() -> None:
    """A producer that claims a later epoch than it has must not keep the real one from writing."""
    target = partition()
    claimed = target.begin_verification(PRODUCER, 9, 0)
    assert claimed is not None
    claimed.withdraw()
    produce(target, target.begin_verification(PRODUCER, 1, 0), epoch=1)
    assert target.log.end_offset == 1


def test_a_withdrawn_verification_leaves_a_later_one() -> None:
    target = partition()
    earlier = target.begin_verification(PRODUCER, 0, 0)
    later = target.begin_verification(PRODUCER, 1, 0)
    assert earlier is not None
    earlier.withdraw()
    produce(target, later, epoch=1)
    assert target.log.end_offset == 1


def test_an_epoch_below_that_of_the_last_marker_is_refused_before_anybody_is_asked() -> None:
    target = partition()
    end(target, epoch=3)
    with pytest.raises(InvalidProducerEpochError, match="smaller than the last seen epoch 3"):
        target.begin_verification(PRODUCER, 2, 0)
    assert target.begin_verification(PRODUCER, 3, 0) is not None
