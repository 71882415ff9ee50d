"""A program that consumes, transforms and produces in transactions, with librdkafka; tests kill it and its brokers.

    python tests/support/exactly_once.py BOOTSTRAP TRANSACTIONAL_ID GROUP FROM TO [INSTANCE_ID]

It ends when another process has its transactional id, or by a signal. With an instance id it is a static member
(KIP-345): the next process with the same id takes over its partitions at once, also from one that was killed.
"""

from __future__ import annotations

import random
import signal
import sys

import confluent_kafka as ck

POLL_S = 0.2
TIMEOUT_S = 30
HANGING_S = 20
"""librdkafka 2.16 may wait for the group's former coordinator while that is dead, beyond the timeout of the call."""
RECORDS_MAX = 20


def main(
    bootstrap: str, transactional_id: str, group: str, source: str, target: str, instance_id: str = ""
) -> None:
    """Copy records for ever; one transaction in eight is aborted on purpose."""
    quiet = {"bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": 3_000}
    consumer = ck.Consumer({
        **quiet,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 500,
        **({"group.instance.id": instance_id} if instance_id else {}),
    })
    producer = ck.Producer({**quiet, "transactional.id": transactional_id, "transaction.timeout.ms": 20_000})
    producer.init_transactions(TIMEOUT_S)
    consumer.subscribe([source])
    try:
        while True:
            messages = [one for one in consumer.consume(RECORDS_MAX, POLL_S) if one.error() is None]
            if messages:
                _copy(consumer, producer, messages, target)
    finally:
        consumer.close()  # else the group waits for a session timeout before others get the partitions


def _copy(consumer: ck.Consumer, producer: ck.Producer, messages: list[ck.Message], target: str) -> None:
    try:
        producer.begin_transaction()
        for message in messages:
            producer.produce(target, message.value(), partition=message.partition())
        if random.random() < 1 / 8:
            producer.flush(TIMEOUT_S)
            _abort(consumer, producer)
            return
        positions = consumer.position(consumer.assignment())
        _send_offsets(producer, consumer, positions)
        _commit(producer)
    except ck.KafkaException as failure:
        if not failure.args[0].txn_requires_abort():
            raise
        _abort(consumer, producer)


def _send_offsets(producer: ck.Producer, consumer: ck.Consumer, offsets: list[ck.TopicPartition]) -> None:
    signal.alarm(HANGING_S)  # ends the process
    try:
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), TIMEOUT_S)
    finally:
        signal.alarm(0)


def _commit(producer: ck.Producer) -> None:
    while True:
        try:
            producer.commit_transaction(TIMEOUT_S)
            return
        except ck.KafkaException as failure:
            if not failure.args[0].retriable():
                raise


def _abort(consumer: ck.Consumer, producer: ck.Producer) -> None:
    """Abort, and go back to what is committed."""
    while True:
        try:
            producer.abort_transaction(TIMEOUT_S)
            break
        except ck.KafkaException as failure:
            if not failure.args[0].retriable():
                raise
    for position in consumer.committed(consumer.assignment(), TIMEOUT_S):
        position.offset = position.offset if position.offset >= 0 else ck.OFFSET_BEGINNING
        consumer.seek(position)


if __name__ == "__main__":
    main(*sys.argv[1:])
