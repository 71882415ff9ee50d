"""At least once, at most once, independent groups: what a crash doubles, and what it loses.

    python examples/delivery.py localhost:9092

For each of the three a topic gets ten records, a consumer dies in the middle of them, as by `kill -9`, and a second one
continues. What both have processed is printed, with what came twice and what was lost. docs/groups.md explains it.
"""

import os
import subprocess
import sys
from collections import Counter
from uuid import uuid4

from minikafka import TopicPartition
from minikafka.client.blocking import Admin, Consumer, Producer

RECORDS = 10
DIES_AFTER = 6


def consume(bootstrap: str, topic: str, group: str, order: str, processed_max: str) -> None:
    """Process records until the end, or die after some; `order` is what comes first, "process" or "commit"."""
    with Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        group_instance_id="the only one",  # It continues at once, not when the session of the dead one has timed out.
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        partition = TopicPartition(topic, 0)
        end = consumer.end_offsets([partition])[partition]
        processed = 0
        while consumer.positions().get(partition, -1) < end:
            records = consumer.poll(timeout_ms=1_000, max_records=RECORDS)
            if order == "commit":
                consumer.commit()
            for record in records:
                print(int(record.value or b"0"), flush=True)  # This is the processing.
                processed += 1
                if processed == int(processed_max):
                    os._exit(1)
            if order == "process":
                consumer.commit()


def run(bootstrap: str, topic: str, group: str, order: str, processed_max: int = -1) -> list[int]:
    """What a consumer in a process of its own has processed."""
    command = [sys.executable, __file__, "consume", bootstrap, topic, group, order, str(processed_max)]
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return [int(number) for number in finished.stdout.split()]


def tell(title: str, first: list[int], second: list[int]) -> None:
    seen = Counter(first + second)
    print(f"{title}\n  the first processed   {first}, and died\n  the second processed  {second}")
    print(f"  twice: {[one for one in seen if seen[one] > 1] or 'none'}", end="; ")
    print(f"lost: {[one for one in range(RECORDS) if one not in seen] or 'none'}\n")


def topic_with_records(bootstrap: str) -> str:
    topic = f"delivery-{uuid4()}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic(topic, partitions=1)
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(RECORDS):
            producer.send(topic, str(number).encode())
    return topic


def main(bootstrap: str = "localhost:9092") -> None:
    topic = topic_with_records(bootstrap)
    first = run(bootstrap, topic, topic, "process", DIES_AFTER)
    tell("at least once: process, then commit", first, run(bootstrap, topic, topic, "process"))

    topic = topic_with_records(bootstrap)
    first = run(bootstrap, topic, topic, "commit", DIES_AFTER)
    tell("at most once: commit, then process", first, run(bootstrap, topic, topic, "commit"))

    topic = topic_with_records(bootstrap)
    first = run(bootstrap, topic, f"{topic}-billing", "process", DIES_AFTER)
    other = run(bootstrap, topic, f"{topic}-statistics", "process")
    print("independent groups: each has offsets of its own")
    print(f"  statistics processed  {other}, whatever happens to billing")
    tell("  billing:", first, run(bootstrap, topic, f"{topic}-billing", "process"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["consume"]:
        consume(*sys.argv[2:])
    else:
        main(*sys.argv[1:2])
