"""DescribeTransactions, API key 65: the state of transactions (KIP-664).

Version 0, flexible (KIP-482)."""

from __future__ import annotations

from minikafka.protocol.message import message, struct
from minikafka.protocol.types import int16, int32, int64, string


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsRequest:
    """Transactional ids."""

    transactional_ids: list[string] = []


@message(key=65, versions="0", flexible="0+")
class DescribeTransactionsResponse:
    """The state, producer and partitions of each transaction."""

    throttle_time_ms: int32 = 0
    transaction_states: list[TransactionState] = []


@struct
class TransactionState:
    error_code: int16 = 0
    transactional_id: string = ""
    transaction_state: string = ""
    transaction_timeout_ms: int32 = 0
    transaction_start_time_ms: int64 = 0
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    topics: list[TopicData] = []


@struct
class TopicData:
    topic: string = ""
    partitions: list[int32] = []
