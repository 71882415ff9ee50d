"""Transfers with minikafka's own client."""

from __future__ import annotations

import asyncio
from typing import Any

from work import HEARTBEAT_MS, POLL_S, RECORDS_MAX, REQUEST_MS, SESSION_MS, TRANSACTION_MS, Work

from minikafka.client import Consumer, Producer
from minikafka.protocol.names import TopicPartition


class Undone(Exception):
    """Aborts a transaction on purpose."""


async def main(work: Work) -> None:
    member: dict[str, Any] = {} if work.instance_id is None else {"group_instance_id": work.instance_id}
    topics = [] if work.own_partition is not None else [work.source]
    async with (
        Producer(
            transactional_id=work.transactional_id,
            transaction_timeout_ms=TRANSACTION_MS,
            request_timeout_ms=REQUEST_MS,
            **work.login.minikafka,
        ) as producer,
        Consumer(
            *topics,
            group_id=work.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            request_timeout_ms=REQUEST_MS,
            **member,
            **work.login.minikafka,
        ) as consumer,
    ):
        if work.own_partition is not None:
            consumer.assign([TopicPartition(work.source, work.own_partition)])
        while True:
            records = await consumer.poll(int(POLL_S * 1000), RECORDS_MAX)
            if records:
                await transfer(work, producer, consumer, records)


async def transfer(work: Work, producer: Producer, consumer: Consumer, records: list[Any]) -> None:
    commits, made = work.attempt(record.value for record in records)
    try:
        async with producer.transaction():
            for partition, value in made:
                await producer.send(work.ledger, value, partition=partition)
            if not commits:
                await producer.flush()
                raise Undone
            offsets = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
            await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    except Undone:
        committed = await consumer.committed()
        for one in consumer.assignment():
            consumer.seek(one, committed[one].offset if one in committed else 0)


if __name__ == "__main__":
    asyncio.run(main(Work.of_arguments("minikafka")))
