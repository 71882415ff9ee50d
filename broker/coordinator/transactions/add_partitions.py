"""Adds partitions to a transaction, and verifies partitions: decisions about one shard (KIP-98, KIP-890).

It serves AddPartitionsToTxn, AddOffsetsToTxn and the verification before appends.

Source: Kafka's `TransactionCoordinator`.
"""

from __future__ import annotations

from minikafka.broker.coordinator.decision import Decision, Now, Ticket
from minikafka.broker.coordinator.transactions.init_producer import ProducerIdentity
from minikafka.broker.coordinator.transactions.transaction import ONGOING, Transaction
from minikafka.broker.coordinator.transactions.transaction_shard import TransactionShard
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.names import TopicPartition


def add_partitions(
    shard: TransactionShard,
    now: Now,
    ticket: Ticket,
    *,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: frozenset[TopicPartition],
    client_version: int,
) -> Decision:
    """Add partitions to the transaction, which begins with the first one. The reply is one error code for all."""
    current = shard.transactions.get(transactional_id)
    error = check_producer(current, producer)
    if error or current is None:
        return Decision(replies=[(ticket, error)])
    if current.state is ONGOING and partitions <= current.partitions:
        return Decision(replies=[(ticket, ErrorCode.NONE)])
    changed = current.with_partitions(partitions, now.clock_ms, client_version)
    return Decision([(transactional_id, changed)], [(ticket, ErrorCode.NONE)])


def verify_partitions(
    shard: TransactionShard,
    ticket: Ticket,
    *,
    transactional_id: str,
    producer: ProducerIdentity,
    partitions: frozenset[TopicPartition],
) -> Decision:
    """Verify that partitions belong to the open transaction. The reply is an error code for each partition."""
    current = shard.transactions.get(transactional_id)
    error = check_producer(current, producer)
    if error or current is None:
        return Decision(replies=[(ticket, dict.fromkeys(partitions, error))])
    missing = dict.fromkeys(partitions - current.partitions, ErrorCode.TRANSACTION_ABORTABLE)
    return Decision(replies=[(ticket, dict.fromkeys(partitions, ErrorCode.NONE) | missing)])


def is_member(
    shard: TransactionShard, transactional_id: str, producer: ProducerIdentity, partitions: frozenset[TopicPartition]
) -> bool:
    """Whether `verify_partitions` finds no error, without a decision: most verifications are of this kind."""
    current = shard.transactions.get(transactional_id)
    return current is not None and not check_producer(current, producer) and partitions <= current.partitions


def check_producer(current: Transaction | None, producer: ProducerIdentity) -> ErrorCode:
    """Whether the producer is the one that may change the transaction now."""
    if current is None or current.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != producer.epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.CONCURRENT_TRANSACTIONS if current.is_prepared else ErrorCode.NONE
