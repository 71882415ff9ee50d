"""DescribeTransactions and ListTransactions: decisions without records about one shard (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from minikafka.broker.coordinator.decision import Decision, Now, Ticket
from minikafka.broker.coordinator.transactions.transaction import Transaction
from minikafka.broker.coordinator.transactions.transaction import TransactionState as State
from minikafka.broker.coordinator.transactions.transaction_shard import TransactionShard
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.describe_transactions import TopicData
from minikafka.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest
from minikafka.protocol.messages.list_transactions import TransactionState as ListedTransaction

TITLES = {state.title for state in State}


def describe_transaction(shard: TransactionShard, ticket: Ticket, transactional_id: str) -> Decision:
    """State, producer and partitions of a transactional id."""
    known = shard.transactions.get(transactional_id)
    if known is None:
        missing = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return Decision(replies=[(ticket, DescribedTransaction(error_code=missing, transactional_id=transactional_id))])
    by_topic = groupby(sorted(known.partitions), lambda name: name.topic)
    described = DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=known.state.title,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.start_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=[TopicData(topic=topic, partitions=[name.partition for name in some]) for topic, some in by_topic],
    )
    return Decision(replies=[(ticket, described)])


def list_transactions(
    shard: TransactionShard,
    now: Now,
    ticket: Ticket,
    request: ListTransactionsRequest,
    matches: Callable[[str], object] | None,
) -> Decision:
    """The transactional ids that match all filters, `matches` among them. An unknown state matches none."""
    found = [
        ListedTransaction(transactional_id=key, producer_id=one.producer_id, transaction_state=one.state.title)
        for key, one in shard.transactions.items()
        if _matches(one, now, request) and (matches is None or matches(key))
    ]
    return Decision(replies=[(ticket, found)])


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    """The names among the filters that are no state."""
    return [name for name in request.state_filters if name not in TITLES]


def _matches(one: Transaction, now: Now, request: ListTransactionsRequest) -> bool:
    if request.producer_id_filters and one.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and one.state.title not in request.state_filters:
        return False
    return request.duration_filter < 0 or now.clock_ms - one.start_ms > request.duration_filter
