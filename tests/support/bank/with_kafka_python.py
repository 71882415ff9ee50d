"""Transfers with kafka-python, whose older versions send no membership along: it has a partition of its own."""

from __future__ import annotations

from typing import Any

import kafka
from kafka.structs import OffsetAndMetadata, TopicPartition
from work import HANGING_S, POLL_S, RECORDS_MAX, REQUEST_MS, TRANSACTION_MS, Work, no_longer_than


def main(work: Work) -> None:
    assert work.own_partition is not None
    source = TopicPartition(work.source, work.own_partition)
    producer = kafka.KafkaProducer(
        **work.login.kafka_python,
        transactional_id=work.transactional_id,
        transaction_timeout_ms=TRANSACTION_MS,
        request_timeout_ms=REQUEST_MS,
    )
    producer.init_transactions()  # fences the program before, and ends its transaction, before the offset is fetched
    consumer = kafka.KafkaConsumer(
        **work.login.kafka_python,
        group_id=work.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    consumer.assign([source])
    while True:
        found = consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=RECORDS_MAX)
        if found.get(source):
            with no_longer_than(HANGING_S):
                transfer(work, producer, consumer, source, found[source])


def transfer(work: Work, producer: Any, consumer: Any, source: TopicPartition, some: list[Any]) -> None:
    commits, made = work.attempt(record.value for record in some)
    producer.begin_transaction()
    sent = [producer.send(work.ledger, value, partition=partition) for partition, value in made]
    if commits:
        offset = OffsetAndMetadata(some[-1].offset + 1, "", -1)
        producer.send_offsets_to_transaction({source: offset}, work.group)
        producer.commit_transaction()
        assert all(one.succeeded() for one in sent)
    else:
        producer.flush()
        producer.abort_transaction()
        consumer.seek(source, some[0].offset)


if __name__ == "__main__":
    main(Work.of_arguments("kafka-python"))
