"""The worst published bugs that concern whole nodes, as stories; the entries are in `docs/published-bugs.md`.

Each story builds the situation of the bug in a simulated cluster, with real nodes and clients, and checks what clients
may rely on. The bugs of single partitions are in `tests/broker/replication/test_published_bugs.py`.
"""

from __future__ import annotations

import pytest
import trio

from minikafka.client.admin.admin import Admin
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.consumer import Consumer
from minikafka.client.producer.producer import Producer
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.disks.checkpoint_files import CLEAN_SHUTDOWN
from simulation.story import CONTROLLER, Story, Tell, values

TOPIC = "flights"
FLIGHTS = TopicPartition(TOPIC, 0)
GROUP = "delays"
OFFSETS = "__consumer_offsets"


def test_kafka_14616_a_topic_is_made_anew_while_a_broker_is_down(tell: Tell) -> None:
    """The broker must not continue with the log of the deleted topic, whose epochs and offsets look the same."""
    story = tell(brokers=3)
    story.start()
    story.create(TOPIC, [1, 2, 3])
    story.produce(TOPIC, *values(0, 5))
    story.cluster.kill(story.hosts[3])

    async def make_anew(seams: Seams) -> None:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            await admin.delete_topic(TOPIC)
            await admin.create_topic(TOPIC, assignments={0: [1, 2, 3]})

    story.do(make_anew)
    new = [f"new {number}" for number in range(3)]
    story.produce(TOPIC, *new)
    story.cluster.start(story.hosts[3])
    story.until_in_sync(TOPIC, 1, 2, 3)
    story.prefer(TOPIC, 3, 1, 2)
    assert story.read(TOPIC) == new


def test_kip_966_the_last_replica_standing_loses_its_unsynced_records(tell: Tell) -> None:
    """Alone in the in-sync replicas, it commits nothing; after a power failure it must not be elected."""
    story = tell({"min.insync.replicas": "2"}, brokers=3)
    story.make_forgetful(1)
    story.start()
    story.create(TOPIC, [1, 2, 3])
    story.cluster.kill(story.hosts[3])
    story.until_in_sync(TOPIC, 1, 2)
    story.produce(TOPIC, *values(0, 10), acks="all")
    story.isolate(2)
    story.until_in_sync(TOPIC, 1)
    story.crash(1)
    story.cluster.start(story.hosts[1])
    story.until(lambda: story.hosts[1].ready)
    assert story.replica(1, TOPIC).log.end_offset < 10, "the power failure has lost records"
    story.wait(5)
    assert story.state(TOPIC).leader == -1, "no replica that may lead is there"
    story.isolate(2, cut=False)
    story.until_in_sync(TOPIC, 1, 2)
    assert story.read(TOPIC) == values(0, 10)


@pytest.mark.slow
def test_kafka_10471_a_crash_after_a_clean_shutdown_is_not_clean(tell: Tell) -> None:
    """The clean-shutdown file is gone before a log is opened: each start after a crash recovers the logs."""
    for seed in range(8):
        story = tell(nodes=1, seed=seed)
        story.start()
        story.create(TOPIC, [1])
        host = story.hosts[1]
        kept: list[str] = []
        for round_ in range(3):
            story.cluster.stop(host)
            story.until(lambda host=host: not host.is_running)  # type: ignore[misc]
            assert host.disk.exists(f"/data/{CLEAN_SHUTDOWN}")
            kept = _start_and_read(story)
            assert not host.disk.exists(f"/data/{CLEAN_SHUTDOWN}")
            new = [f"{one:2000}" for one in values(10 * round_, 10 * round_ + 10)]
            story.produce(TOPIC, *new, acks="all")
            story.crash(1)
            after = _start_and_read(story)
            assert after[: len(kept)] == kept, "what was flushed is there"
            assert after == (kept + new)[: len(after)], "a prefix is left"


def _start_and_read(story: Story) -> list[str]:
    story.cluster.start(story.hosts[1])
    story.until(lambda: story.hosts[1].ready)
    return story.read(TOPIC)


@pytest.mark.slow
def test_kafka_7447_a_coordinator_moves_away_and_back_while_it_loads(tell: Tell) -> None:
    """Commits that the other broker has acknowledged count, not what the first one has loaded."""
    story = tell(
        {
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "2",
            "offsets.load.buffer.size": "1",
            "min.insync.replicas": "2",
        },
        brokers=2,
        seed=2,  # with it a broker that goes on as coordinator is noticed
    )
    story.start()
    story.create(TOPIC, [1, 2])
    group = Committing(story)
    story.until(lambda: group.acknowledged >= 100)
    for _ in range(6):
        for leader in (2, 1):
            story.prefer(OFFSETS, leader, 3 - leader)
            story.prefer(OFFSETS, 3 - leader, leader)  # at once: it loads still
            story.prefer(OFFSETS, leader, 3 - leader)
            enough = group.acknowledged + 15
            story.until(lambda enough=enough: group.seen >= enough or group.has_failed)  # type: ignore[misc]
    group.end()


class Committing:
    """One consumer that commits ever higher offsets, and one that reads them, each from the coordinator it knows.

    Attributes:
        acknowledged: The last offset whose commit was acknowledged.
        seen: The last offset that was read.
    """

    def __init__(self, story: Story) -> None:
        self.acknowledged = self.seen = 0
        self._story = story
        self._ending = False
        self._running = [story.begin(self._commit), story.begin(self._look)]

    @property
    def has_failed(self) -> bool:
        """One of them has raised an exception."""
        return any(one.done for one in self._running)

    def end(self) -> None:
        """Both end without an error."""
        self._ending = True
        self._story.until(lambda: all(one.done for one in self._running))
        assert [one.error for one in self._running] == [None, None]

    def _consumer(self, seams: Seams) -> Consumer:
        servers = self._story.cluster.bootstrap_servers
        return Consumer(bootstrap_servers=servers, seams=seams, group_id=GROUP, enable_auto_commit=False)

    async def _commit(self, seams: Seams) -> None:
        async with self._consumer(seams) as consumer:
            consumer.assign([FLIGHTS])
            while not self._ending:
                await consumer.commit({FLIGHTS: self.acknowledged + 1})
                self.acknowledged += 1

    async def _look(self, seams: Seams) -> None:
        async with self._consumer(seams) as consumer:
            while not self._ending:
                before = self.acknowledged
                found = await consumer.committed(FLIGHTS)
                self.seen = found[FLIGHTS].offset if FLIGHTS in found else 0
                assert self.seen >= before, f"{self.seen} is committed, {before} was acknowledged"
                await trio.sleep(0.01)


@pytest.mark.parametrize("failovers", [2, 3])
def test_kafka_6361_fast_failovers_leave_no_divergence(tell: Tell, failovers: int) -> None:
    """KIP-279: each of two logs has epochs that the other does not know; they become the same all the same."""
    story = tell({"min.insync.replicas": "1"}, brokers=2)
    story.start()
    story.create(TOPIC, [1, 2])
    story.produce(TOPIC, *values(0, 3), acks="all")
    story.isolate(1, from_=[2])
    written = [[f"epoch {epoch}, {number}" for number in range(count)] for epoch, count in enumerate((2, 5, 5, 3))]
    kept = {1: values(0, 3), 2: values(0, 3)}
    for epoch, records in enumerate(written[: failovers + 1]):
        leader = 1 + epoch % 2
        if epoch:
            story.prefer(TOPIC, leader, 3 - leader)
        story.produce(TOPIC, *records, acks=1, enable_idempotence=False)
        kept[leader] += records
    assert sorted(story.state(TOPIC).isr) == [1, 2], "no replica has left the in-sync replicas meanwhile"
    story.isolate(1, from_=[2], cut=False)
    end = len(kept[leader])
    story.until(lambda: story.replica(1, TOPIC).high_watermark == story.replica(2, TOPIC).high_watermark == end)
    logs = [story.replica(node_id, TOPIC).log for node_id in (1, 2)]
    contents = [log.read(0, max_bytes=1 << 20) for log in logs]
    assert len({one.read() for one in contents if one is not None}) == 1
    assert logs[0].epochs.entries == logs[1].epochs.entries
    assert story.read(TOPIC) == kept[leader]


def test_kafka_14617_a_replica_reboots_between_its_fetch_and_the_change_of_the_isr(tell: Tell) -> None:
    """KIP-903: the proposal to add it names its earlier broker epoch; the replica has lost the records since."""
    story = tell({"min.insync.replicas": "1"}, brokers=2)
    story.make_forgetful(2)
    story.start()
    story.create(TOPIC, [1, 2])
    story.cluster.kill(story.hosts[2])
    story.until_in_sync(TOPIC, 1)
    story.produce(TOPIC, *values(0, 10), acks="all")
    slow = story.cluster.network.link("node-1", f"node-{CONTROLLER}")
    slow.latency_s = 1.2
    story.cluster.start(story.hosts[2])
    leader = story.replica(1, TOPIC)
    story.until(lambda: leader.leader_state is not None and leader.leader_state.pending is not None)
    epoch = story.image.brokers[2].epoch
    story.crash(2)
    story.isolate(2, from_=[1])
    story.cluster.start(story.hosts[2])
    story.until(lambda: story.image.brokers[2].epoch > epoch and story.image.may_lead(2), within_s=1)
    assert story.replica(2, TOPIC).log.end_offset < 10, "the power failure has lost records"
    story.wait(5)
    assert 2 not in story.state(TOPIC).isr
    story.cluster.kill(story.hosts[1])
    story.isolate(2, from_=[1], cut=False)
    story.wait(15)
    story.cluster.start(story.hosts[1])
    slow.latency_s = 0.0002
    story.until_in_sync(TOPIC, 1, 2)
    assert story.read(TOPIC) == values(0, 10)


def test_kafka_15019_a_controller_that_was_stalled_fences_nobody(tell: Tell) -> None:
    """Heartbeats that waited for it count when they arrived, or are read before anyone is fenced."""
    story = tell(brokers=3)
    story.start()
    story.create(TOPIC, [1, 2, 3])
    before = story.state(TOPIC)
    machine = story.hosts[CONTROLLER].machine
    assert machine is not None
    for _ in range(3):
        story.world.pause(machine, 15)
        story.wait(20)
    assert story.state(TOPIC) == before
    assert not [line for line in story.lines if "broker fenced" in line]
    assert story.produce(TOPIC, "value") == [0]


def test_kafka_13091_a_smaller_isr_completes_the_produce_that_waits_for_it(tell: Tell) -> None:
    """The last follower stops to fetch; once the shrunk ISR is committed, nothing else is needed."""
    story = tell({"replica.lag.time.max.ms": "3000", "min.insync.replicas": "1"}, brokers=2)
    story.start()
    story.create(TOPIC, [1, 2])
    story.produce(TOPIC, "first", acks="all")
    story.isolate(1, from_=[2])
    began = story.world.now
    story.produce(TOPIC, "second", acks="all", retries=0, request_timeout_ms=60_000, delivery_timeout_ms=90_000)
    assert 1 < story.world.now - began < 10
    assert story.state(TOPIC).isr == (1,)


def test_kafka_2334_the_latest_offset_does_not_go_back_after_an_election(tell: Tell) -> None:
    """KIP-207: the high watermark of a new leader lags behind what consumers were told."""
    story = tell({"replica.lag.time.max.ms": "5000", "min.insync.replicas": "1"}, brokers=3)
    story.start()
    story.create(TOPIC, [1, 2, 3])
    told: list[int] = []

    async def look(seams: Seams) -> None:
        async with Consumer(bootstrap_servers=story.cluster.bootstrap_servers, seams=seams) as consumer:
            consumer.assign([FLIGHTS])
            while True:
                told.append((await consumer.end_offsets([FLIGHTS]))[FLIGHTS])
                await trio.sleep(0.005)

    story.begin(look)
    story.produce(TOPIC, *values(0, 10), acks="all")
    story.isolate(2, from_=[3])
    story.until(lambda: told[-1:] == [10], within_s=0.1)
    assert story.replica(2, TOPIC).high_watermark < 10
    story.cluster.kill(story.hosts[1])
    story.until(lambda: story.state(TOPIC).leader == 2)
    answers = len(told)
    story.until(lambda: len(told) > answers + 5)
    assert told == sorted(told)
    assert told[-1] == 10


def test_kafka_15489_a_controller_that_reaches_no_majority_gives_up(tell: Tell) -> None:
    """It accepts no more changes, and never reports as done what it had accepted alone."""
    story = tell(nodes=3)
    story.start()
    story.create(TOPIC, [1, 2, 3])
    story.create("doomed", [1, 2, 3])
    old = story.active
    others = [node_id for node_id in story.hosts if node_id != old]
    assert old
    story.isolate(old)

    async def delete(seams: Seams) -> bool:
        try:
            async with Admin(f"node-{old}:9092", seams=seams, request_timeout_ms=20_000) as admin:
                await admin.delete_topic("doomed")
        except KafkaError:
            return False
        return True

    async def create(seams: Seams) -> None:
        async with Admin([f"node-{node_id}:9092" for node_id in others], seams=seams) as admin:
            await admin.create_topic("new", assignments={0: others})

    for node_id in others:
        story.cluster.network.cut("client of the old controller", f"node-{node_id}")
    deleting = story.begin(delete, host="client of the old controller")
    story.wait(6)
    assert story.active in others
    story.do(create)
    assert not deleting.done
    story.isolate(old, cut=False)
    story.until(lambda: deleting.done)
    story.wait(5)
    assert len({tuple(one.image.topics) for one in story.controllers.values()}) == 1
    assert "new" in story.image.topics
    assert "doomed" not in story.image.topics or not deleting.result
    assert story.produce("new", "value") == [0]


def test_kafka_14238_a_node_gets_a_snapshot_in_place_of_records_that_are_gone(tell: Tell) -> None:
    """Topics that were deleted before the snapshot are gone on the node as well, and those made anew are served."""
    story = tell({"metadata.log.max.record.bytes.between.snapshots": "1000"}, nodes=3)
    story.start()
    away = next(node_id for node_id in story.hosts if node_id != story.active)
    replicas = [away, *(node_id for node_id in story.hosts if node_id != away)]
    story.create(TOPIC, replicas)
    story.produce(TOPIC, *values(0, 5))
    story.isolate(away)
    story.until(lambda: away not in story.state(TOPIC).isr)
    servers = ",".join(f"node-{node_id}:9092" for node_id in replicas[1:])

    async def change(seams: Seams) -> None:
        async with Admin(servers, seams=seams) as admin:
            await admin.delete_topic(TOPIC)
            for number in range(10):
                await admin.create_topic(f"other-{number}", partitions=1, replication_factor=1)
                await admin.delete_topic(f"other-{number}")
            await admin.create_topic(TOPIC, assignments={0: replicas})

    async def produce(seams: Seams) -> int:
        async with Producer(servers, seams=seams) as producer:
            return (await producer.send_and_wait(TOPIC, b"new", partition=0)).offset

    story.do(change)
    assert story.do(produce) == 0
    story.isolate(away, cut=False)
    story.until_in_sync(TOPIC, *replicas)
    assert [line for line in story.lines if f"node-{away}" in line and "metadata snapshot installed" in line]
    story.prefer(TOPIC, *replicas)
    assert story.read(TOPIC) == ["new"]
