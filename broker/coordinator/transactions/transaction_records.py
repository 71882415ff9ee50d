"""Keys and values of `__transaction_state`, as Kafka writes them: values of version 1 from `transaction.version` 1 on.

The key is a transactional id. A value has the state of its transaction; the last one of a key counts.

Three values are written for each transaction. What changes between them is numbers, which are packed here; the rest is
encoded by the message's declaration, and kept.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import groupby

from minikafka.broker.coordinator.transactions.transaction import (
    EMPTY,
    IDLE,
    NONE,
    ONGOING,
    PREPARED,
    Transaction,
    TransactionState,
)
from minikafka.protocol.message import MalformedMessage, decode, encode
from minikafka.protocol.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from minikafka.protocol.names import TopicPartition

RECORDED = (*IDLE, ONGOING, *PREPARED)
"""The states that coordinators write: an id that is dead is a tombstone, and no epoch is fenced in the log."""
KEY_VERSION = 0
VALUE_VERSION_MAX = 1
KEPT_MAX, KEPT_LENGTH_MAX, KEPT_PARTITIONS_MAX = 1_024, 256, 16
"""How many encoded parts are kept, of which transactional ids, and of how many partitions."""
_VERSION_SIZE_BYTES = 2
_FIRST = struct.Struct(">hqhib")
"""The version, producer id and epoch, the timeout and the state."""
_TIMES = struct.Struct(">qq")
"""The time of the last update and the start, after the partitions; tags follow in version 1."""
_NO_TAGS = b"\0"


def encode_record(transactional_id: str, value: Transaction | None, version: int) -> tuple[bytes, bytes | None]:
    """Encode key and value; a value of None is a tombstone. `version` is that of the value."""
    key = (_kept_key if len(transactional_id) <= KEPT_LENGTH_MAX else _encoded_key)(transactional_id)
    return key, None if value is None else _encoded_value(value, version)


def decode_record(key: bytes, value: bytes | None) -> tuple[str, Transaction | None] | None:
    """Decode a record; None for an unknown type.

    Raises:
        MalformedMessage: The record has a known type and cannot be decoded, or no coordinator writes such a state.
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


def _encoded_key(transactional_id: str) -> bytes:
    message = TransactionLogKey(transactional_id=transactional_id)
    return KEY_VERSION.to_bytes(_VERSION_SIZE_BYTES, "big") + encode(message, KEY_VERSION)


_kept_key = lru_cache(maxsize=KEPT_MAX)(_encoded_key)


def _encoded_value(value: Transaction, version: int) -> bytes:
    if value.state is EMPTY:
        partitions = _encoded_partitions(None, version)
    elif len(value.partitions) <= KEPT_PARTITIONS_MAX:
        partitions = _kept_partitions(value.partitions, version)
    else:
        partitions = _encoded_partitions(value.partitions, version)
    first = _FIRST.pack(version, value.producer_id, value.producer_epoch, value.timeout_ms, value.state)
    times = _TIMES.pack(value.last_update_ms, value.start_ms)
    if version == 0:
        return first + partitions + times
    tags = _encoded_tags(value.previous_producer_id, value.next_producer_id, value.client_version)
    return first + partitions + times + tags


def _encoded_partitions(partitions: frozenset[TopicPartition] | None, version: int) -> bytes:
    """The part of a value between `_FIRST` and `_TIMES`."""
    some = None if partitions is None else [
        PartitionsSchema(topic=topic, partition_ids=[one.partition for one in some])
        for topic, some in groupby(sorted(partitions), lambda partition: partition.topic)
    ]
    body = encode(TransactionLogValue(transaction_partitions=some), version)
    end = len(body) - _TIMES.size - (0 if version == 0 else len(_NO_TAGS))
    return body[_FIRST.size - _VERSION_SIZE_BYTES : end]


_kept_partitions = lru_cache(maxsize=KEPT_MAX)(_encoded_partitions)


@lru_cache(maxsize=KEPT_MAX)
def _encoded_tags(previous_producer_id: int, next_producer_id: int, client_version: int) -> bytes:
    """The end of a value of version 1, after `_TIMES`."""
    message = TransactionLogValue(
        transaction_partitions=None,
        previous_producer_id=previous_producer_id,
        next_producer_id=next_producer_id,
        client_transaction_version=client_version,
    )
    without = len(encode(TransactionLogValue(transaction_partitions=None), 1)) - len(_NO_TAGS)
    return encode(message, 1)[without:]


def _transaction(value: TransactionLogValue) -> Transaction:
    if value.transaction_status not in RECORDED:
        raise MalformedMessage(f"no record has the state {value.transaction_status} of a transaction")
    _check_markers(value)
    return Transaction(
        producer_id=value.producer_id,
        timeout_ms=value.transaction_timeout_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            TopicPartition(one.topic, index)
            for one in value.transaction_partitions or ()
            for index in one.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        last_update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )


def _check_markers(value: TransactionLogValue) -> None:
    """Check what the transaction's markers consist of. No partition's leader takes impossible ones.

    Raises:
        MalformedMessage: The completion of the transaction would never end.
    """
    if value.producer_id < 0 or value.producer_epoch < 0 or value.client_transaction_version < 0:
        raise MalformedMessage("a transaction has an impossible producer id, epoch or version")
    if value.next_producer_id < NONE or value.previous_producer_id < NONE:
        raise MalformedMessage("a transaction has an impossible next or previous producer id")
    if any(min(one.partition_ids, default=0) < 0 for one in value.transaction_partitions or ()):
        raise MalformedMessage("a transaction has a partition of a negative number")


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise MalformedMessage(f"{len(data)} bytes are too short for a record of __transaction_state")
    return int.from_bytes(data[:2], "big", signed=True)
