"""Transfers with confluent-kafka (librdkafka)."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka as ck
from work import (
    HANGING_S,
    HEARTBEAT_MS,
    POLL_S,
    RECORDS_MAX,
    REQUEST_MS,
    SESSION_MS,
    TIMEOUT_S,
    TRANSACTION_MS,
    Work,
    no_longer_than,
)


def main(work: Work) -> None:
    quiet = {**work.login.confluent, "log_level": 0, "socket.timeout.ms": REQUEST_MS}
    producer = ck.Producer({
        **quiet, "transactional.id": work.transactional_id, "transaction.timeout.ms": TRANSACTION_MS,
    })  # fmt: skip
    producer.init_transactions(TIMEOUT_S)
    consumer = ck.Consumer({
        **quiet,
        "group.id": work.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "session.timeout.ms": SESSION_MS,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "partition.assignment.strategy": "range",
        **({} if work.instance_id is None else {"group.instance.id": work.instance_id}),
    })
    try:
        if work.own_partition is None:
            consumer.subscribe([work.source])
        else:
            consumer.assign([ck.TopicPartition(work.source, work.own_partition)])
        while True:
            messages = [one for one in consumer.consume(RECORDS_MAX, POLL_S) if one.error() is None]
            if messages:
                transfer(work, producer, consumer, messages)
    finally:
        consumer.close()


def transfer(work: Work, producer: ck.Producer, consumer: ck.Consumer, messages: list[ck.Message]) -> None:
    commits, made = work.attempt(message.value() for message in messages)
    try:
        producer.begin_transaction()
        for partition, value in made:
            producer.produce(work.ledger, value, partition=partition)
        if commits:
            positions = {(one.topic(), one.partition()): one.offset() + 1 for one in messages}
            offsets = [ck.TopicPartition(*place, offset) for place, offset in positions.items()]
            with no_longer_than(HANGING_S):
                producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
            again(producer.commit_transaction)
            return
        producer.flush(TIMEOUT_S)
    except ck.KafkaException as failure:
        if not failure.args[0].txn_requires_abort():
            raise
    again(producer.abort_transaction)
    for position in consumer.committed(consumer.assignment(), TIMEOUT_S):
        position.offset = position.offset if position.offset >= 0 else ck.OFFSET_BEGINNING
        consumer.seek(position)


def again(end: Callable[[float], None]) -> None:
    """End the transaction; again while the outcome is not known."""
    while True:
        try:
            end(TIMEOUT_S)
            return
        except ck.KafkaException as failure:
            if not failure.args[0].retriable():
                raise


if __name__ == "__main__":
    main(Work.of_arguments("confluent-kafka"))
