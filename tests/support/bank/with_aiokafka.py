"""Transfers with aiokafka, which sends no membership along with the offsets: it has a partition of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import aiokafka
from work import POLL_S, RECORDS_MAX, REQUEST_MS, TRANSACTION_MS, Work


async def main(work: Work) -> None:
    assert work.own_partition is not None
    source = aiokafka.TopicPartition(work.source, work.own_partition)
    producer = aiokafka.AIOKafkaProducer(
        **work.login.aiokafka,
        transactional_id=work.transactional_id,
        transaction_timeout_ms=TRANSACTION_MS,
        request_timeout_ms=REQUEST_MS,
    )
    async with producer:  # fences the program before, and ends its transaction, before the offset is fetched
        consumer = aiokafka.AIOKafkaConsumer(
            **work.login.aiokafka,
            group_id=work.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            request_timeout_ms=REQUEST_MS,
        )
        consumer.assign([source])
        async with consumer:
            while True:
                found = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=RECORDS_MAX)
                if found.get(source):
                    await transfer(work, producer, consumer, source, found[source])


async def transfer(work: Work, producer: Any, consumer: Any, source: aiokafka.TopicPartition, some: list[Any]) -> None:
    commits, made = work.attempt(record.value for record in some)
    await producer.begin_transaction()
    for partition, value in made:
        await producer.send(work.ledger, value, partition=partition)
    if commits:
        await producer.send_offsets_to_transaction({source: some[-1].offset + 1}, work.group)
        await producer.commit_transaction()
    else:
        await producer.flush()
        await producer.abort_transaction()
        consumer.seek(source, some[0].offset)


if __name__ == "__main__":
    asyncio.run(main(Work.of_arguments("aiokafka")))
