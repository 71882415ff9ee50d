"""Stories about the log cleaner at work in a cluster: whoever reads a compacted topic finds the last value of each key.

What is written is remembered in a `Table`, with which each reading from the start is compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import Random

import pytest
from chaos.workload.features import set_transaction_version

from minikafka.client.admin.admin import Admin
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.consumer import Consumer
from minikafka.client.producer.producer import Producer
from minikafka.protocol.errors import CorruptMessageError
from minikafka.protocol.names import TopicPartition
from simulation.stepwise import StepwiseProducer
from simulation.story import Program, Story, Tell

TOPIC = "airports"
AIRPORTS = TopicPartition(TOPIC, 0)
BATCH = 20
"""The records of a batch."""
SETTINGS = {
    "log.cleaner.backoff.ms": "500",
    "log.flush.offset.checkpoint.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
COMPACTED = {"cleanup.policy": "compact", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.001"}
SMALL_MAP = {"log.cleaner.dedupe.buffer.size": "1100000", "log.cleaner.io.buffer.load.factor": "0.002"}
"""It has room for 68 keys, so that each round of the story needs several cleanings."""


class Table:
    """What a topic must contain: the last value of each key."""

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}
        self.deleted: set[str] = set()

    def writing(self, story: Story, entries: Mapping[str, str | None], **options: object) -> Program[None]:
        """The program that writes some values and tombstones (None), and notes them once they are acknowledged."""

        async def program(seams: Seams) -> None:
            servers = story.cluster.bootstrap_servers
            async with Producer(bootstrap_servers=servers, seams=seams, linger_ms=5, **options) as producer:
                for number, (key, value) in enumerate(entries.items(), 1):
                    await producer.send(TOPIC, None if value is None else value.encode(), key=key.encode(), partition=0)
                    if number % BATCH == 0:
                        await producer.flush()
                await producer.flush()
            for key, value in entries.items():
                self.rows.pop(key, None)
                self.deleted.discard(key)
                if value is None:
                    self.deleted.add(key)
                else:
                    self.rows[key] = value

        return program


def records_of(story: Story) -> list[tuple[int, str, str | None]]:
    """Offset, key and value of all records that a read_committed consumer gets from the start."""

    async def program(seams: Seams) -> list[tuple[int, str, str | None]]:
        async with Consumer(
            bootstrap_servers=story.cluster.bootstrap_servers,
            seams=seams,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            consumer.assign([AIRPORTS])
            end = (await consumer.end_offsets([AIRPORTS]))[AIRPORTS]
            found: list[tuple[int, str, str | None]] = []
            while await consumer.position(AIRPORTS) < end:
                for one in await consumer.poll(1000):
                    value = None if one.value is None else one.value.decode()
                    found.append((one.offset, (one.key or b"").decode(), value))
            return found

    return story.do(program)


def latest(story: Story) -> dict[str, str]:
    """The last value of each key, as a consumer finds it."""
    found = {key: value for _, key, value in records_of(story)}
    return {key: value for key, value in found.items() if value is not None}


def replaced_among(records: list[tuple[int, str, str | None]]) -> list[str]:
    """The keys that have more than one record."""
    keys = [key for _, key, _ in records if key != "last"]
    return sorted({key for key in keys if keys.count(key) > 1})


def begin_story(tell: Tell, settings: Mapping[str, str] | None = None, *, brokers: int = 1, **configs: str) -> Story:
    story = tell({**SETTINGS, **(settings or {})}, brokers=brokers)
    story.start()
    named = {name.replace("_", "."): value for name, value in configs.items()}
    story.create(TOPIC, [*range(1, brokers + 1)], {**COMPACTED, **named})
    return story


def clean(story: Story, node_id: int = 1) -> None:
    """Let time pass until everything before the active segment is clean, which a new record closes."""
    story.wait(1.5)
    story.do(Table().writing(story, {"last": "record of its segment"}))
    log = story.replica(node_id, TOPIC).log
    parts = story.node(node_id).parts
    offsets = next(one.checkpoints.cleaner_offsets.offsets for one in parts.logs.directories if AIRPORTS in one.logs)
    story.until(lambda: offsets.get(AIRPORTS, 0) >= log.segments.bases[-1] or gives_up(story))
    assert not gives_up(story), "the cleaner gives up a log that is not damaged"


def gives_up(story: Story) -> bool:
    return any("log cannot be cleaned" in line for line in story.lines)


def round_of(number: int, random: Random) -> dict[str, str | None]:
    """Batches of the same size, in which the records are at different places, and some with tombstones."""
    keys = [*(f"key {one:03}" for one in random.sample(range(300), 200)), *(f"{number}.{one:05}" for one in range(40))]
    random.shuffle(keys)
    entries: dict[str, str | None] = {}
    for begin in range(0, len(keys), BATCH):
        batch, lengths = keys[begin : begin + BATCH], random.sample(range(BATCH), BATCH)
        entries |= {key: f"{number} {'x' * length}" for key, length in zip(batch, lengths, strict=True)}
        if begin % (3 * BATCH) == 0:
            entries |= dict.fromkeys(random.sample(batch, 4))
    return entries


@pytest.mark.parametrize("settings", [{}, SMALL_MAP], ids=["large map", "small map"])
def test_each_key_keeps_its_last_value(tell: Tell, settings: Mapping[str, str]) -> None:
    """Written round by round, so that clean and dirty segments meet; and read from each replica."""
    story = begin_story(tell, settings, brokers=2, delete_retention_ms="5000")
    table, random = Table(), Random(4)
    table.rows["last"] = "record of its segment"
    for number in range(6):
        story.do(table.writing(story, round_of(number, random)))
        clean(story)
        assert latest(story) == table.rows
    deleted = set(table.deleted)
    for _ in range(5):
        clean(story)
    found = records_of(story)
    keys = [key for _, key, _ in found if key != "last"]
    assert replaced_among(found) == []
    assert not deleted & set(keys), "a tombstone outlives its retention, although its segment was cleaned"
    story.until_in_sync(TOPIC, 1, 2)
    story.prefer(TOPIC, 2, 1)
    assert latest(story) == table.rows


async def set_version(story: Story, version: int, seams: Seams) -> None:
    async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
        await set_transaction_version(admin, version)


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_an_aborted_value_replaces_nothing_and_what_follows_it_is_committed(tell: Tell, version: int) -> None:
    """The cleaner is at work while the transaction is open, and after it; the last batch stays, without records."""
    story = begin_story(tell, delete_retention_ms="1000")
    story.do(partial(set_version, story, version))
    table, producer = Table(), StepwiseProducer(story, TOPIC, "airline")
    story.do(table.writing(story, {"a": "committed", "b": "committed"}))
    producer.do("begin")
    producer.do("send", key=b"a", value=b"aborted", partition=0)
    for number in range(3):
        story.wait(1.5)
        story.do(table.writing(story, {"last": str(number), "b": str(number)}))
    producer.do("abort")
    assert latest(story) == table.rows
    for _ in range(2):
        clean(story)
    table.rows["last"] = "record of its segment"
    assert latest(story) == table.rows
    producer.do("begin")
    producer.do("send", key=b"a", value=b"committed later", partition=0)
    producer.do("commit")
    table.rows["a"] = "committed later"
    assert latest(story) == table.rows
    for _ in range(2):
        clean(story)
        assert latest(story) == table.rows


def test_the_cleaner_does_not_hide_that_a_record_has_changed_on_the_disk(tell: Tell) -> None:
    story = begin_story(tell)
    story.do(Table().writing(story, {"a": "true value", "b": "other"}))
    story.do(Table().writing(story, {"b": "replaced"}))
    host = story.hosts[1]
    path = f"/data/{TOPIC}-0/{0:020}.log"
    place = host.disk.read_bytes(path).index(b"true value")
    host.disk.open(path).pwrite(place, b"fals")
    story.wait(1.5)
    story.do(Table().writing(story, {"last": "record of its segment"}))
    story.until(lambda: any("log cannot be cleaned" in line or "log cleaned" in line for line in story.lines))
    with pytest.raises(CorruptMessageError):
        latest(story)


def test_a_batch_that_is_sent_again_is_known_though_nothing_is_left_of_it(tell: Tell) -> None:
    """Its records have been replaced, and the leader, who has got the log from another broker, knows only that."""
    story = begin_story(tell, brokers=2)

    async def move(seams: Seams, node_id: int) -> None:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            await admin.alter_partition_reassignments({AIRPORTS: [node_id]})

    story.do(lambda seams: move(seams, 1))
    story.until(lambda: story.state(TOPIC).replicas == (1,))
    table, lost, client = Table(), Table(), "client of a producer"
    running = story.begin(lost.writing(story, {"b": "old"}, request_timeout_ms=3000), host=client)
    story.until(lambda: story.replica(1, TOPIC).log.end_offset == 1)
    story.cluster.network.cut("node-1", client)
    assert not running.done, "the response is under way"
    story.do(table.writing(story, {"b": "new"}))
    for _ in range(2):
        clean(story)
    story.do(lambda seams: move(seams, 2))
    story.until(lambda: story.state(TOPIC).replicas == (2,))
    story.until(lambda: running.done)
    assert running.error is None
    assert latest(story)["b"] == "new"


def test_what_replaces_truncated_records_is_cleaned_too(tell: Tell) -> None:
    """A broker that had cleaned more than the next leader, elected though it is not in sync, has got."""
    story = begin_story(tell, brokers=2, unclean_leader_election_enable="true")
    story.do(Table().writing(story, round_of(0, Random(1))))
    story.until_in_sync(TOPIC, 1, 2)
    story.cluster.kill(story.hosts[2])
    story.until_in_sync(TOPIC, 1)
    story.do(Table().writing(story, {f"lost {number}": "" for number in range(500)}))
    clean(story)
    story.cluster.kill(story.hosts[1])
    story.cluster.start(story.hosts[2])
    story.until(lambda: story.state(TOPIC).leader == 2)
    for number in range(2):
        story.do(Table().writing(story, {f"new {place}": str(number) for place in range(300)}))
    story.start()
    story.until_in_sync(TOPIC, 1, 2)
    clean(story)
    story.prefer(TOPIC, 1, 2)
    found = records_of(story)
    assert replaced_among(found) == []
    assert {key: value for _, key, value in found if key.startswith("new")} == {f"new {one}": "1" for one in range(300)}
