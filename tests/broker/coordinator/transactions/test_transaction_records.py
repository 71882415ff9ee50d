"""Keys and values of `__transaction_state`."""

from __future__ import annotations

import pytest
from support.coordinator_node import CLOCK_MS

from minikafka.broker.coordinator.transactions.transaction import EPOCH_MAX, Transaction, TransactionState
from minikafka.broker.coordinator.transactions.transaction_records import decode_record, encode_record
from minikafka.protocol.message import encode
from minikafka.protocol.messages.transaction_records import PartitionsSchema, TransactionLogKey, TransactionLogValue
from minikafka.protocol.names import TopicPartition

ID = "airline"
PARTITIONS = frozenset({TopicPartition("flights", 0), TopicPartition("flights", 1)})


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("state", [one for one in TransactionState if one < TransactionState.DEAD])
def test_records_are_read_back(version: int, state: TransactionState) -> None:
    written = Transaction(
        5, 1_000, 4, 6, 3, state=state, start_ms=17, last_update_ms=18, client_version=2,
        partitions=frozenset() if state is TransactionState.EMPTY else PARTITIONS,
    )  # fmt: skip
    found = decode_record(*encode_record(ID, written, version))
    assert found is not None
    key, value = found
    assert key == ID
    assert isinstance(value, Transaction)
    if version == 1:
        assert value == written
    assert (value.producer_id, value.state, value.partitions) == (5, state, written.partitions)
    assert decode_record(*encode_record(ID, None, version)) == (ID, None)


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("partition_count", [0, 1, 2, 16, 17, 200])
def test_records_are_those_of_the_declared_message(version: int, partition_count: int) -> None:
    """Only the numbers are packed by hand."""
    partitions = frozenset(TopicPartition(f"topic {number % 3}", number) for number in range(partition_count))
    for state, client_version, next_id in ((TransactionState.EMPTY, 0, -1), (TransactionState.PREPARE_ABORT, 2, 2**40)):
        value = Transaction(
            2**50, 60_000, 9, next_id, EPOCH_MAX, state=state, start_ms=-1, last_update_ms=CLOCK_MS,
            client_version=client_version, partitions=partitions,
        )  # fmt: skip
        by_topic: dict[str, list[int]] = {}
        for one in sorted(partitions):
            by_topic.setdefault(one.topic, []).append(one.partition)
        some = [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in by_topic.items()]
        message = TransactionLogValue(
            producer_id=2**50, producer_epoch=EPOCH_MAX, transaction_timeout_ms=60_000, transaction_status=state,
            transaction_partitions=None if state is TransactionState.EMPTY else some,
            transaction_last_update_timestamp_ms=CLOCK_MS, transaction_start_timestamp_ms=-1,
        )  # fmt: skip
        if version:
            message.previous_producer_id, message.next_producer_id = 9, next_id
            message.client_transaction_version = client_version
        for _ in "first", "kept":
            key, data = encode_record(ID, value, version)
            assert key == b"\0\0" + encode(TransactionLogKey(transactional_id=ID), 0)
            assert data == version.to_bytes(2, "big") + encode(message, version)
