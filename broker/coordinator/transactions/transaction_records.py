"""Keys and values of `__transaction_state`, as Kafka writes them: values of version 1 from `transaction.version` 1 on.

The key is a transactional id. A value has the state of its transaction; the last one of a key counts.
"""

from __future__ import annotations

from itertools import groupby

from minikafka.broker.coordinator.transactions.transaction import EMPTY, Transaction, TransactionState
from minikafka.protocol.message import MalformedMessage, decode, encode
from minikafka.protocol.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from minikafka.protocol.names import TopicPartition

KEY_VERSION = 0
VALUE_VERSION_MAX = 1


def encode_record(transactional_id: str, value: Transaction | None, version: int) -> tuple[bytes, bytes | None]:
    """Encode key and value; a value of None is a tombstone. `version` is that of the value."""
    key = _versioned(TransactionLogKey(transactional_id=transactional_id), KEY_VERSION)
    return key, None if value is None else _versioned(_message(value, version), version)


def decode_record(key: bytes, value: bytes | None) -> tuple[str, Transaction | None] | None:
    """Decode a record; None for an unknown type.

    Raises:
        MalformedMessage: The record has a known type and cannot be decoded.
    """
    if _version(key) != KEY_VERSION:
        return None
    transactional_id = decode(TransactionLogKey, KEY_VERSION, key, 2).transactional_id
    if value is None:
        return transactional_id, None
    version = _version(value)
    if not 0 <= version <= VALUE_VERSION_MAX:
        raise MalformedMessage(f"a transaction's state has the unknown version {version}")
    return transactional_id, _transaction(decode(TransactionLogValue, version, value, 2))


def _message(value: Transaction, version: int) -> TransactionLogValue:
    partitions = [
        PartitionsSchema(topic=topic, partition_ids=[one.partition for one in some])
        for topic, some in groupby(sorted(value.partitions), lambda partition: partition.topic)
    ]
    message = TransactionLogValue(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        transaction_timeout_ms=value.timeout_ms,
        transaction_status=value.state,
        transaction_partitions=None if value.state is EMPTY else partitions,
        transaction_last_update_timestamp_ms=value.last_update_ms,
        transaction_start_timestamp_ms=value.start_ms,
    )
    if version >= 1:
        message.previous_producer_id = value.previous_producer_id
        message.next_producer_id = value.next_producer_id
        message.client_transaction_version = value.client_version
    return message


def _transaction(value: TransactionLogValue) -> Transaction:
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise MalformedMessage(f"a transaction has the unknown state {value.transaction_status}") from None
    return Transaction(
        producer_id=value.producer_id,
        timeout_ms=value.transaction_timeout_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        state=state,
        partitions=frozenset(
            TopicPartition(one.topic, index)
            for one in value.transaction_partitions or ()
            for index in one.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def _versioned(part: TransactionLogKey | TransactionLogValue, version: int) -> bytes:
    return version.to_bytes(2, "big") + encode(part, version)


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise MalformedMessage(f"{len(data)} bytes are too short for a record of __transaction_state")
    return int.from_bytes(data[:2], "big", signed=True)
