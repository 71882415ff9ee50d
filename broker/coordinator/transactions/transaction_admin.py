"""Reads the transactions of one shard for DescribeTransactions and ListTransactions (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
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

LISTED_AT_ONCE = 2_000
"""The number of transactions that are looked at before other tasks run; about 5 ms."""
TITLES = {state.title for state in State}


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters of a ListTransactions request other than the pattern; an empty one matches all."""

    producer_ids: frozenset[int]
    states: frozenset[str]
    duration_ms: int

    @classmethod
    def of(cls, request: ListTransactionsRequest) -> Filters:
        return cls(frozenset(request.producer_id_filters), frozenset(request.state_filters), request.duration_filter)

    def match(self, one: Transaction, now: Now) -> bool:
        """Whether a transaction passes all filters."""
        if self.producer_ids and one.producer_id not in self.producer_ids:
            return False
        if self.states and one.state.title not in self.states:
            return False
        return self.duration_ms < 0 or now.clock_ms - one.start_ms > self.duration_ms


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
    shard: TransactionShard, now: Now, filters: Filters
) -> Generator[None, None, list[ListedTransaction]]:
    """The transactional ids that match all filters, read in steps. An unknown state matches none."""
    found: list[ListedTransaction] = []
    for number, (key, one) in enumerate(list(shard.transactions.items()), 1):
        if filters.match(one, now):
            state = one.state.title
            found.append(ListedTransaction(transactional_id=key, producer_id=one.producer_id, transaction_state=state))
        if number % LISTED_AT_ONCE == 0:
            yield
    return found


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    """The names in the state filter that are not names of states, each once."""
    return [name for name in dict.fromkeys(request.state_filters) if name not in TITLES]
