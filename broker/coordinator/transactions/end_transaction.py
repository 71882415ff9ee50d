"""Ends transactions: decides the outcome, and later the completion, as decisions about one shard (KIP-98, KIP-890).

In version 1 a producer has one epoch for all its transactions: a repeated EndTxn is recognized by the state that it
asks for. In version 2 a repeated EndTxn is recognized by its epoch, which is one less than the current epoch, so that
it can never end the next transaction (KAFKA-17754). Source: Kafka's `TransactionCoordinator.endTransaction`.
"""

from __future__ import annotations

from minikafka.broker.coordinator.decision import Decision, Now, Ticket
from minikafka.broker.coordinator.transactions.init_producer import ProducerIdentity, ProducerIdNeeded
from minikafka.broker.coordinator.transactions.transaction import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    EPOCH_MAX,
    EPOCH_PER_TRANSACTION,
    NONE,
    ONGOING,
    PREPARE_COMMIT,
    Transaction,
    is_exhausted,
)
from minikafka.broker.coordinator.transactions.transaction_shard import TransactionShard
from minikafka.protocol.errors import ErrorCode


def end_transaction(
    shard: TransactionShard,
    now: Now,
    ticket: Ticket,
    *,
    transactional_id: str,
    producer: ProducerIdentity,
    commit: bool,
    client_version: int,
    new_producer_id: int | None,
) -> Decision:
    """Decide the outcome of a transaction (EndTxn), whose markers follow later.

    The reply has the producer id and the epoch of the next transaction, or an error; or it is `ProducerIdNeeded`.
    """
    current = shard.transactions.get(transactional_id)
    bumps = client_version >= EPOCH_PER_TRANSACTION
    if current is None:
        return _refuse(ticket, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    error = (_error_of_version_2 if bumps else _error_of_version_1)(current, producer, commit=commit)
    if error:
        return _refuse(ticket, error)
    if current.producer_epoch == EPOCH_MAX and current.state is not ONGOING:
        return _refuse(ticket, ErrorCode.PRODUCER_FENCED)  # No producer goes on with this epoch.
    if current.state is not ONGOING and not (bumps and current.producer_epoch == producer.epoch):
        return Decision(replies=[(ticket, ProducerIdentity(current.producer_id, current.producer_epoch))])
    next_producer_id = NONE
    if bumps and is_exhausted(current.producer_epoch):
        if new_producer_id is None:
            return Decision(replies=[(ticket, ProducerIdNeeded())])
        next_producer_id = new_producer_id
    prepared = current.prepared(now.clock_ms, client_version, commit=commit, next_producer_id=next_producer_id)
    return Decision([(transactional_id, prepared)], [(ticket, ProducerIdentity(*prepared.following))])


def abort_timed_out(
    shard: TransactionShard, now: Now, ticket: Ticket, *, transactional_id: str, new_producer_id: int | None
) -> Decision:
    """Abort a transaction that has timed out at the last epoch of its producer.

    The transactional id continues with a new producer id, as in Kafka. Nothing happens if the transaction has been
    ended meanwhile. The reply has no information; without `new_producer_id` it is `ProducerIdNeeded`.
    """
    if not shard.has_timed_out(transactional_id, now):
        return Decision(replies=[(ticket, ProducerIdentity())])
    if new_producer_id is None:
        return Decision(replies=[(ticket, ProducerIdNeeded())])
    version = shard.transaction_version()
    aborted = shard.transactions[transactional_id].fenced(now.clock_ms, version, new_producer_id)
    return Decision([(transactional_id, aborted)], [(ticket, ProducerIdentity())])


def complete_transaction(
    shard: TransactionShard, now: Now, ticket: Ticket, *, transactional_id: str, prepared: Transaction
) -> Decision:
    """Write the final state of a transaction whose markers are written, unless it has been completed before."""
    if shard.transactions.get(transactional_id) is not prepared:
        return Decision(replies=[(ticket, None)])
    return Decision([(transactional_id, prepared.completed(now.clock_ms))], [(ticket, None)])


def _refuse(ticket: Ticket, error: ErrorCode) -> Decision:
    return Decision(replies=[(ticket, ProducerIdentity(error=error))])


def _error_of_version_1(current: Transaction, producer: ProducerIdentity, *, commit: bool) -> ErrorCode:
    if current.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != producer.epoch:
        return ErrorCode.PRODUCER_FENCED
    if current.state is ONGOING:
        return ErrorCode.NONE
    if current.is_prepared and (current.state is PREPARE_COMMIT) == commit:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    same = current.state is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
    return ErrorCode.NONE if same else ErrorCode.INVALID_TXN_STATE


def _error_of_version_2(current: Transaction, producer: ProducerIdentity, *, commit: bool) -> ErrorCode:
    repeated_with_new_id = (
        current.previous_producer_id == producer.producer_id
        and producer.epoch == EPOCH_MAX - 1
        and current.producer_epoch == 0
    )
    repeated = current.producer_epoch == producer.epoch + 1 or repeated_with_new_id
    if current.producer_id != producer.producer_id and not repeated_with_new_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if not _is_valid_epoch(current, producer.epoch, repeated=repeated):
        return ErrorCode.PRODUCER_FENCED
    if current.state is ONGOING:
        return ErrorCode.NONE
    if current.is_prepared:
        # With the current epoch it ends the next transaction, which is empty: Kafka calls that producer fenced.
        same = (current.state is PREPARE_COMMIT) == commit or not repeated
        return ErrorCode.CONCURRENT_TRANSACTIONS if same else ErrorCode.INVALID_TXN_STATE
    if repeated:
        same = current.state is (COMPLETE_COMMIT if commit else COMPLETE_ABORT)
        return ErrorCode.NONE if same else ErrorCode.INVALID_TXN_STATE
    return ErrorCode.INVALID_TXN_STATE if commit else ErrorCode.NONE


def _is_valid_epoch(current: Transaction, epoch: int, *, repeated: bool) -> bool:
    """Whether EndTxn may have this epoch: the current epoch, or for a repeated EndTxn the epoch before it."""
    return epoch == current.producer_epoch or (repeated and current.state not in (EMPTY, ONGOING))
