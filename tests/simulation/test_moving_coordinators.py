"""Stories about coordinators that move again and again while their groups and transactions are at work.

They are moved by operators, stopped, killed and started again; members of both protocols come and go, records flow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import anyio
import pytest
from chaos.workload.features import set_transaction_version

from minikafka.client.admin.admin import Admin
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.consumer import Consumer
from minikafka.client.producer.producer import Producer
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from simulation import test_group_stories as groups
from simulation import test_transaction_stories as transactions
from simulation.story import Story, Tell

CLASSIC = {**groups.CLASSIC, "auto_offset_reset": "earliest"}
CONSUMER = {**groups.CONSUMER, "auto_offset_reset": "earliest"}
MOVES = ("prefer", "stop", "kill")


class Worker(groups.Member):
    """A member that commits what it has processed."""

    async def work(self, consumer: Consumer) -> None:
        records = await consumer.poll(100)
        for record in records:
            self.flow.process(self, TopicPartition(record.topic, record.partition), record.offset)
        done = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
        if not done:
            return
        try:
            await consumer.commit(done)
        except KafkaError:
            return  # It has lost partitions: the next owner reads these records again.
        self.flow.note_committed(done)

    @property
    def flow(self) -> Flow:
        assert isinstance(self._group, Flow)
        return self._group

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await super().on_partitions_assigned(partitions)
        self.flow.note_begin(self, partitions)


class Flow(groups.Group):
    """A group whose topic grows all the time.

    Attributes:
        committed: The largest offset of each partition that was acknowledged.
        begin: By member and partition, what was committed when it was assigned.
        seen: The offsets of each partition that were processed.
    """

    member_class = Worker

    def __init__(self, story: Story, partitions: int) -> None:
        super().__init__(story)
        self.partitions = [TopicPartition(groups.TOPIC, index) for index in range(partitions)]
        self.committed = dict.fromkeys(self.partitions, 0)
        self.begin: dict[tuple[str, TopicPartition], int] = {}
        self.seen: dict[TopicPartition, set[int]] = {one: set() for one in self.partitions}
        self.ends = dict.fromkeys(self.partitions, 0)
        self._goes_on = True

    def process(self, member: groups.Member, partition: TopicPartition, offset: int) -> None:
        self.seen[partition].add(offset)
        begin = self.begin.get((member.name, partition), 0)
        if offset < begin:
            self.anomalies.append(f"{member.name} reads {partition} at {offset}, and {begin} was committed before")

    def note_begin(self, member: groups.Member, partitions: Sequence[TopicPartition]) -> None:
        self.begin.update({(member.name, one): self.committed[one] for one in partitions})

    def note_committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            if offset < self.committed[partition]:
                self.anomalies.append(f"{partition} goes back from {self.committed[partition]} to {offset}")
            self.committed[partition] = offset

    async def produce(self, seams: Seams) -> None:
        """Until `stop`, a record for each partition every 300 ms."""
        async with Producer(bootstrap_servers=self.story.cluster.bootstrap_servers, seams=seams) as producer:
            while self._goes_on:
                for partition in self.partitions:
                    sent = await producer.send_and_wait(groups.TOPIC, b"x", partition=partition.partition)
                    self.ends[partition] = sent.offset + 1
                await anyio.sleep(0.3)

    def stop(self) -> None:
        """End the records, and wait until all of them are committed."""
        self._goes_on = False
        self.story.until(lambda: self.committed == self.ends or bool(self.anomalies))
        assert self.anomalies == []
        assert self.seen == {one: set(range(end)) for one, end in self.ends.items()}


def leader_of(story: Story, topic: str) -> int:
    return story.state(topic).leader if topic in story.image.topics else -1


def move(story: Story, topic: str, how: str) -> None:
    """Let another broker lead the partition of coordinators, by this means."""
    leader = leader_of(story, topic)
    if how == "prefer":
        others = [node_id for node_id in (1, 2, 3) if node_id != leader]
        story.prefer(topic, *others, leader)
        return
    {"stop": story.cluster.stop, "kill": story.cluster.kill}[how](story.hosts[leader])
    story.until(lambda: leader_of(story, topic) not in (-1, leader))
    story.wait(1)
    story.until(lambda: not story.hosts[leader].is_running)
    story.start()
    story.until_in_sync(topic, 1, 2, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds",
    [(CLASSIC, CLASSIC, CLASSIC), (CONSUMER, CONSUMER, CONSUMER), (CLASSIC, CONSUMER, CLASSIC)],
    ids=["classic", "consumer", "both"],
)
def test_a_coordinator_moves_while_members_come_and_go_and_commit(
    tell: Tell, kinds: Sequence[Mapping[str, object]]
) -> None:
    """With both kinds the group changes its protocol while records flow, to and fro."""
    settings = {**groups.SETTINGS, "offsets.topic.replication.factor": "3"}
    story = tell(settings, brokers=3)
    story.start()
    create(story, groups.TOPIC, partitions=4)
    flow = Flow(story, partitions=4)
    story.begin(flow.produce, host="producer")
    flow.join("a", kinds[0])
    flow.until(4)
    flow.join("b", kinds[1])
    move(story, groups.OFFSETS, MOVES[0])
    flow.until(2, 2)
    move(story, groups.OFFSETS, MOVES[1])
    flow.leave("a")
    flow.until(4)
    flow.join("c", kinds[2])
    move(story, groups.OFFSETS, MOVES[2])
    flow.until(2, 2)
    flow.kill("b")
    flow.until(4)
    flow.stop()


def create(story: Story, topic: str, partitions: int) -> None:
    async def program(seams: Seams) -> None:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            await admin.create_topic(topic, assignments={number: [1, 2, 3] for number in range(partitions)})

    story.do(program)


class Transactions:
    """A program of transactions, one after the other until `goes_on` is unset; every third is aborted."""

    def __init__(self, story: Story) -> None:
        self.committed: list[str] = []
        self.goes_on = True
        self._servers = story.cluster.bootstrap_servers

    async def __call__(self, seams: Seams) -> None:
        async with Producer(
            bootstrap_servers=self._servers, seams=seams, transactional_id=transactions.ID, linger_ms=0
        ) as producer:
            number = 0
            while self.goes_on:
                await producer.begin()
                for partition in (0, 1):
                    await producer.send(transactions.TOPIC, b"%d" % number, partition=partition)
                await anyio.sleep(0.05)
                if number % 3 == 2:
                    await producer.abort()
                else:
                    await producer.commit()
                    self.committed.append(str(number))
                number += 1


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_a_coordinator_moves_while_transactions_begin_and_end(tell: Tell, version: int) -> None:
    """Each transaction is read once and in order, or not at all if it was aborted; its producer is never fenced."""
    story = transactions.begin_story(tell)

    async def change(seams: Seams) -> None:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            await set_transaction_version(admin, version)

    story.do(change)
    program = Transactions(story)
    running = story.begin(program)
    story.until(lambda: transactions.COMPLETE(story))
    for how in MOVES:
        move(story, transactions.STATE, how)
    program.goes_on = False
    story.until(lambda: running.done)
    assert running.error is None
    assert len(program.committed) > 10
    story.until(lambda: transactions.COMPLETE(story))
    assert transactions.committed(story) == [program.committed] * 2
