"""AddPartitionsToTxn, API key 24: adds partitions to a transaction (KIP-98).

Versions 0-5, flexible from 3 on (KIP-482).

- v4: many transactions, verify_only (KIP-890).
- v5: TRANSACTION_ABORTABLE may be returned (KIP-890).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int16, int32, int64, string


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    """Up to v3 from clients; from v4 on from brokers, with many transactions, which may only be verified."""

    transactions: list[AddPartitionsToTxnTransaction] = field(default=[], versions="4+")
    v3_and_below_transactional_id: string = field(default="", versions="0-3")
    v3_and_below_producer_id: int64 = field(default=0, versions="0-3")
    v3_and_below_producer_epoch: int16 = field(default=0, versions="0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(default=[], versions="0-3")


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: string = field(default="", versions="4+")
    producer_id: int64 = field(default=0, versions="4+")
    producer_epoch: int16 = field(default=0, versions="4+")
    verify_only: bool = field(default=False, versions="4+")
    topics: list[AddPartitionsToTxnTopic] = field(default=[], versions="4+")


@struct
class AddPartitionsToTxnTopic:
    name: string = ""
    partitions: list[int32] = []


@message(key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    """An error code per partition."""

    throttle_time_ms: int32 = 0
    error_code: int16 = field(default=0, versions="4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(default=[], versions="4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(default=[], versions="0-3")


@struct
class AddPartitionsToTxnResult:
    transactional_id: string = field(default="", versions="4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default=[], versions="4+")


@struct
class AddPartitionsToTxnTopicResult:
    name: string = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = []


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int32 = 0
    partition_error_code: int16 = 0
