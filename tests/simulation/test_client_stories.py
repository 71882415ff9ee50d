"""Stories about consumers: fetch sessions, brokers that are gone, brokers whose metadata are old.

In all of them a consumer gets each record once, in order, and does not stop.
"""

from __future__ import annotations

from minikafka.client.admin.admin import Admin
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.consumer import Consumer
from minikafka.client.producer.producer import Producer
from minikafka.protocol.names import TopicPartition
from simulation.story import CONTROLLER, Story, Tell, values

TOPIC, GROUP = "flights", "delays"
FLIGHTS = TopicPartition(TOPIC, 0)
OFFSETS = "__consumer_offsets"
PARTITIONS = 12
"""So many that the consumer opens a fetch session."""


class Reader:
    """A consumer that reads on, and what it has got.

    Attributes:
        found: The values of each partition.
        steps: Of its process.
    """

    def __init__(self, story: Story, partitions: list[TopicPartition], *, host: str = "", **options: object) -> None:
        self._story, self._options = story, {"auto_offset_reset": "earliest", **options}
        self.wanted = partitions
        self.seek_to: dict[TopicPartition, int] = {}
        self.found: dict[TopicPartition, list[str]] = {}
        self.steps = 0
        self.rounds = 0
        story.begin(self._run, host=host or "client of a consumer")

    async def _run(self, seams: Seams) -> None:
        options = {"bootstrap_servers": self._story.cluster.bootstrap_servers, **self._options}
        machine, assigned = self._story.world.running, list[TopicPartition]()
        assert machine is not None
        async with Consumer(seams=seams, **options) as consumer:
            while True:
                if assigned != self.wanted:
                    assigned = [*self.wanted]
                    consumer.assign(assigned)
                while self.seek_to:
                    consumer.seek(*self.seek_to.popitem())
                for one in await consumer.poll(500):
                    tp = TopicPartition(one.topic, one.partition)
                    self.found.setdefault(tp, []).append((one.value or b"").decode())
                self.steps, self.rounds = machine.steps, consumer.cluster._bootstrap.rounds

    def until(self, tp: TopicPartition, *expected: str, within_s: float = 30) -> None:
        """Let time pass until it has got exactly these values of a partition."""
        end_s = self._story.world.now + within_s
        self._story.world.run_until(end_s, lambda: len(self.found.get(tp, ())) >= len(expected))
        assert self.found.get(tp, []) == [*expected]


def create(story: Story, topic: str, partitions: int = PARTITIONS) -> None:
    async def program(seams: Seams) -> None:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            await admin.create_topic(topic, assignments={number: [1] for number in range(partitions)})

    story.do(program)


def produce(story: Story, topic: str, *texts: str, partitions: int = PARTITIONS) -> None:
    """The same values to all partitions."""

    async def program(seams: Seams) -> None:
        async with Producer(bootstrap_servers=story.cluster.bootstrap_servers, seams=seams) as producer:
            for text in texts:
                for number in range(partitions):
                    await producer.send(topic, text.encode(), partition=number)
            await producer.flush()

    story.do(program)


def test_a_fetch_session_follows_what_the_consumer_wants(tell: Tell) -> None:
    """Seeks, fewer partitions, a topic that is made anew, lost responses; what is not wanted costs nothing."""
    story = tell(brokers=1)
    story.start()
    create(story, TOPIC)
    create(story, "others", 1)
    produce(story, TOPIC, "one")
    others, last = TopicPartition("others", 0), TopicPartition(TOPIC, PARTITIONS - 1)
    every = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    reader = Reader(story, [*every, others], metadata_max_age_ms=2000)
    for tp in every:
        reader.until(tp, "one")
    produce(story, TOPIC, "two")
    for tp in every:
        reader.until(tp, "one", "two")
    reader.seek_to[FLIGHTS] = 0
    reader.until(FLIGHTS, "one", "two", "one", "two")
    story.cluster.network.reset_connections("node-1", "client of a consumer")
    produce(story, TOPIC, "three")
    reader.until(FLIGHTS, "one", "two", "one", "two", "three")
    reader.until(last, "one", "two", "three")
    reader.wanted = [*every[:-1], others]
    story.wait(2)
    produce(story, TOPIC, "four")
    reader.until(FLIGHTS, "one", "two", "one", "two", "three", "four")
    before = reader.steps
    story.wait(10)
    assert reader.steps - before < 1000, "what the consumer has, or wants no more, is sent to it again and again"
    story.delete("others")
    create(story, "others", 1)
    produce(story, "others", "anew", partitions=1)
    reader.until(others, "anew")
    produce(story, TOPIC, "five")
    reader.until(FLIGHTS, "one", "two", "one", "two", "three", "four", "five")
    before = reader.steps
    story.wait(10)
    assert reader.steps - before < 1000, "what is gone, or known, is asked for again and again"
    reader.until(last, "one", "two", "three")


def test_a_client_whose_brokers_are_gone_begins_with_its_bootstrap_addresses(tell: Tell) -> None:
    """It knows two brokers, and reaches a third one only, which had not been there (KIP-899)."""
    story = tell({"min.insync.replicas": "1"}, brokers=3)
    story.start()
    story.create(TOPIC, [1, 2, 3])
    story.cluster.kill(story.hosts[3])
    story.until_in_sync(TOPIC, 1, 2)
    story.produce(TOPIC, *values(0, 3))
    reader = Reader(story, [FLIGHTS], bootstrap_servers="node-3:9092,node-1:9092", metadata_max_age_ms=5000)
    reader.until(FLIGHTS, *values(0, 3))
    for node in ("node-1", "node-2"):
        for pair in ((node, "client of a consumer"), ("client of a consumer", node)):
            story.cluster.network.cut(*pair)
            story.cluster.network.reset_connections(*pair)
    story.start()
    story.until_in_sync(TOPIC, 1, 2, 3)
    story.prefer(TOPIC, 3, 1, 2)
    story.produce(TOPIC, *values(3, 6))
    reader.until(FLIGHTS, *values(0, 6), within_s=120)


def test_a_client_that_gets_metadata_does_not_begin_anew(tell: Tell) -> None:
    """However long it runs; nor after a time without metadata that was short enough."""
    story = tell(brokers=1)
    story.start()
    story.create(TOPIC, [1])
    story.produce(TOPIC, *values(0, 3))
    reader = Reader(
        story, [FLIGHTS], metadata_max_age_ms=1000, metadata_recovery_rebootstrap_trigger_ms=20_000
    )
    reader.until(FLIGHTS, *values(0, 3))
    story.wait(60)
    story.cluster.network.cut("node-1", "client of a consumer")
    story.wait(10)
    story.cluster.network.heal_all()
    story.produce(TOPIC, *values(3, 6))
    reader.until(FLIGHTS, *values(0, 6), within_s=60)
    assert reader.rounds == 0


def test_an_old_leader_is_not_asked_for_what_a_later_one_has_committed(tell: Tell) -> None:
    """It still believes that it leads, and so does the broker that is asked for metadata first (KIP-320)."""
    story = tell({"min.insync.replicas": "1", "offsets.topic.num.partitions": "1"}, brokers=3)
    story.start()
    story.create(TOPIC, [1, 3])
    story.produce(TOPIC, *values(0, 5))
    group = {"group_id": GROUP, "enable_auto_commit": False}

    async def commit(seams: Seams, offset: int) -> None:
        async with Consumer(
            bootstrap_servers="node-3:9092", seams=seams, auto_offset_reset="earliest", **group
        ) as consumer:
            consumer.assign([FLIGHTS])
            while await consumer.position(FLIGHTS) < offset:
                await consumer.poll(500)
            await consumer.commit()

    story.do(lambda seams: commit(seams, 5))
    story.prefer(OFFSETS, 3, 1, 2)
    for node_id in (1, 2):
        story.isolate(node_id, from_=[3, CONTROLLER])
    story.until(lambda: story.state(TOPIC).leader == story.state(OFFSETS).leader == 3)
    story.produce(TOPIC, *values(5, 10), bootstrap_servers="node-3:9092")
    story.do(lambda seams: commit(seams, 10))
    reader = Reader(story, [FLIGHTS], bootstrap_servers="node-2:9092,node-3:9092", **group)
    story.wait(5)
    story.produce(TOPIC, *values(10, 12), bootstrap_servers="node-3:9092")
    reader.until(FLIGHTS, *values(10, 12))
