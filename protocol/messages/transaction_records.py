"""Keys and values of the records in ``__transaction_state`` (KIP-98), and the value of transaction markers.

Keys and values begin with a 16-bit version. Values of version 1 are flexible and contain the previous and
the next producer id (KIP-890).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int8, int16, int32, int64, string


@message(versions="0", flexible="none")
class TransactionLogKey:
    """A transactional id."""

    transactional_id: string = field(default="", versions="0")


@message(versions="0-1", flexible="1+")
class TransactionLogValue:
    """The producer, state and partitions of a transaction."""

    producer_id: int64 = 0
    previous_producer_id: int64 = field(default=-1, versions="1+", tag=0)
    next_producer_id: int64 = field(default=-1, versions="1+", tag=1)
    producer_epoch: int16 = 0
    transaction_timeout_ms: int32 = 0
    transaction_status: int8 = 0
    transaction_partitions: list[PartitionsSchema] | None
    transaction_last_update_timestamp_ms: int64 = 0
    transaction_start_timestamp_ms: int64 = 0
    client_transaction_version: int16 = field(default=0, versions="1+", tag=2)


@struct
class PartitionsSchema:
    topic: string = ""
    partition_ids: list[int32] = []


@message(versions="0", flexible="none")
class EndTxnMarker:
    """The value of a control record that ends a transaction."""

    coordinator_epoch: int32 = 0
