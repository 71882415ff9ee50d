"""Consume, transform, produce: each flight is counted exactly once, whatever fails in between.

    python examples/exactly_once.py localhost:9092

It reads the topic `flights` (values like `{"origin": "JFK", "delay": 7}`) and writes the delayed ones to `delayed`.
The records that it writes and the offsets of those that it has read are committed in one transaction. If it is killed,
or a broker is, the transaction is aborted; the next run continues from the last one that was committed. A reader with
isolation_level="read_committed" sees nothing twice. Start several, each with a number of its own (0 by default), by
which its next run is known: they share the partitions.

    python examples/exactly_once.py localhost:9092 1
"""

import asyncio
import json
import sys

from minikafka import Consumer, Producer, TopicPartition

GROUP = "delayed-flights"


async def main(bootstrap: str = "localhost:9092", number: str = "0") -> None:
    async with (
        Producer(bootstrap, transactional_id=f"{GROUP}-{number}") as producer,
        Consumer(
            "flights",
            bootstrap_servers=bootstrap,
            group_id=GROUP,
            group_instance_id=f"{GROUP}-{number}",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            enable_auto_commit=False,
        ) as consumer,
    ):
        while True:
            records = await consumer.poll(1000)
            if records:
                async with producer.transaction():
                    for record in records:
                        flight = json.loads(record.value or b"{}")
                        if flight.get("delay", 0) > 0:
                            await producer.send("delayed", record.value, key=record.key)
                    offsets = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
                    await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
