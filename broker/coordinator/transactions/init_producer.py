"""InitProducerId for a transactional id: a decision about one shard (KIP-98, KIP-360, KIP-588).

Source: Kafka's `TransactionCoordinator.prepareInitProducerIdTransit`.
"""

from __future__ import annotations

from typing import NamedTuple

from minikafka.broker.coordinator.decision import Decision, Now, Ticket
from minikafka.broker.coordinator.transactions.transaction import (
    EPOCH_MAX,
    NONE,
    ONGOING,
    Transaction,
    is_exhausted,
)
from minikafka.broker.coordinator.transactions.transaction_shard import TransactionShard
from minikafka.protocol.errors import ErrorCode, ProducerFencedError


class ProducerIdNeeded(NamedTuple):
    """The reply of a decision that needs a new producer id. The caller makes the decision again with a new id."""


class ProducerIdentity(NamedTuple):
    """A producer id and an epoch: those of a producer that sends a request, or those of an answer, with its error."""

    producer_id: int = NONE
    epoch: int = NONE
    error: ErrorCode = ErrorCode.NONE


def init_producer_id(
    shard: TransactionShard,
    now: Now,
    ticket: Ticket,
    *,
    transactional_id: str,
    timeout_ms: int,
    expected: ProducerIdentity | None,
    new_producer_id: int | None,
) -> Decision:
    """Give the producer the next epoch. A transaction that its predecessor left open is first aborted.

    Args:
        expected: The producer's present id and epoch, if it continues after an error; otherwise None.
        new_producer_id: A producer id that was never used. If it is None, the reply may be `ProducerIdNeeded`.
    """
    known = shard.transactions.get(transactional_id)
    if known is None and new_producer_id is None:
        return Decision(replies=[(ticket, ProducerIdNeeded())])
    if known is None:
        assert new_producer_id is not None
        current, new_producer_id = Transaction(new_producer_id, timeout_ms), None
    else:
        current = known
    error = _error(current, expected)
    if error:
        return Decision(replies=[(ticket, ProducerIdentity(error=error))])
    if current.state is ONGOING:
        aborted = current.fenced(now.clock_ms, shard.transaction_version())
        again = ProducerIdentity(error=ErrorCode.CONCURRENT_TRANSACTIONS)
        return Decision([(transactional_id, aborted)], [(ticket, again)])
    rotates = _rotates(current, expected)
    if rotates and new_producer_id is None:
        return Decision(replies=[(ticket, ProducerIdNeeded())])
    try:
        changed = _changed(current, expected, timeout_ms, now, new_producer_id if rotates else None)
    except ProducerFencedError:
        return Decision(replies=[(ticket, ProducerIdentity(error=ErrorCode.PRODUCER_FENCED))])
    answer = ProducerIdentity(changed.producer_id, changed.producer_epoch)
    return Decision([(transactional_id, changed)], [(ticket, answer)])


def _error(current: Transaction, expected: ProducerIdentity | None) -> ErrorCode:
    if expected is not None and not _may_continue(current, expected):
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if current.is_prepared else ErrorCode.NONE


def _may_continue(current: Transaction, expected: ProducerIdentity) -> bool:
    """Whether the producer may continue: it has the current id, or the previous id, whose epochs were used up.

    A transactional id without an epoch accepts any producer, whose state has expired here or on the leaders.
    """
    if current.producer_epoch == NONE or expected.producer_id == current.producer_id:
        return True
    return expected.producer_id == current.previous_producer_id and is_exhausted(expected.epoch)


def _rotates(current: Transaction, expected: ProducerIdentity | None) -> bool:
    """Whether the producer needs a new producer id, since its id has no epoch left.

    It also needs one if the current epoch is `EPOCH_MAX`, with which an InitProducerId may have fenced the producer,
    and the producer has the epoch before: `EPOCH_MAX` is given to no producer. Kafka answers UNKNOWN_SERVER_ERROR then.
    """
    if expected is None or expected.epoch == current.producer_epoch:
        return is_exhausted(current.producer_epoch)
    return current.producer_epoch == EPOCH_MAX and expected.epoch == current.last_producer_epoch


def _changed(
    current: Transaction, expected: ProducerIdentity | None, timeout_ms: int, now: Now, new_producer_id: int | None
) -> Transaction:
    if new_producer_id is not None:
        last_epoch = NONE if expected is None else expected.epoch
        return current.with_new_producer_id(new_producer_id, timeout_ms, now.clock_ms, last_epoch=last_epoch)
    return current.initialized(None if expected is None else expected.epoch, timeout_ms, now.clock_ms)
