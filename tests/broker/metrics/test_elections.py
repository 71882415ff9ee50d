"""Elections are counted by their kind, on the active controller only."""

from __future__ import annotations

import trio

from minikafka.broker.metrics.elections import ElectionCounter
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import PartitionChange, PartitionRecord, Record, RemoveTopic, TopicRecord

TOPIC = b"t" * 16


def counts(counter: ElectionCounter) -> list[float]:
    """All, of eligible replicas, unclean."""
    return [value for family in counter.collector()() if family is not None for _, value in family.samples]


def test_elections_are_counted_by_kind() -> None:
    image, active = Image(), True
    first: list[Record] = [
        TopicRecord(topic_id=TOPIC, name="topic"),
        PartitionRecord(topic_id=TOPIC, partition=0, replicas=(1, 2, 3), isr=(1, 2), leader=1, elr=(3,)),
    ]
    for record in first:
        image.apply(record)
    counter = ElectionCounter(image, lambda: active)

    def change(**fields: int | tuple[int, ...]) -> None:
        trio.run(counter.applied, [PartitionChange(topic_id=TOPIC, partition=0, **fields)])  # type: ignore[arg-type]

    change(leader=2, isr=(2,))
    assert counts(counter) == [1, 0, 0]
    change(leader=-1, isr=())
    change(leader=3, isr=(3,), elr=())
    assert counts(counter) == [2, 1, 0]
    change(leader=1, isr=(1,))
    assert counts(counter) == [3, 1, 1]
    change(isr=(1, 2))
    change(leader=2)
    assert counts(counter) == [4, 1, 1]
    active = False
    change(leader=1)
    assert counts(counter) == [4, 1, 1]
    trio.run(counter.applied, [RemoveTopic(TOPIC)])
    assert counts(counter) == [4, 1, 1]
