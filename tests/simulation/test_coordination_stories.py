"""Stories about controllers and group coordinators: failover, snapshots, producer ids, members that vanish.

Each is a situation that is rare in seeded runs; planted bugs in `mutations/coordination.py` need them.
"""

from __future__ import annotations

import pytest

from minikafka.client.admin.admin import Admin
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.consumer import Consumer
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from simulation.story import CONTROLLER, Program, Story, Tell

TOPIC = "flights"
GROUP = "delays"
OFFSETS = "__consumer_offsets"


# -- controllers ------------------------------------------------------------------------------------------------------


def test_a_new_controller_fences_a_broker_that_is_gone(tell: Tell) -> None:
    """The broker ended together with the former controller, so that no connection loss is reported to the new one."""
    story = tell(nodes=3)
    story.start()
    gone = story.active
    others = [node_id for node_id in story.hosts if node_id != gone]
    story.create(TOPIC, [gone, *others])
    story.produce(TOPIC, "before")
    story.cluster.lose_power(story.hosts[gone])
    story.until(lambda: story.state(TOPIC).leader in others, within_s=40)
    story.produce(TOPIC, "after")
    assert story.read(TOPIC) == ["before", "after"]


def create_at(story: Story, topic: str, node_id: int) -> Program[bool]:
    """Create a topic by way of one node; returns whether it was created."""
    assert story.hosts[node_id].is_running

    async def program(seams: Seams) -> bool:
        try:
            async with Admin(f"node-{node_id}:9092", seams=seams, retry_backoff_ms=1) as admin:
                await admin.create_topic(topic, partitions=1, replication_factor=1)
        except KafkaError:
            return False
        return True

    return program


def test_a_new_controller_knows_what_its_predecessor_committed_last(tell: Tell) -> None:
    """The record of a topic is committed, and the followers do not know it yet. The topic is created again at once."""
    story = tell(nodes=3)
    story.start()
    old = story.active
    others = [node_id for node_id in story.hosts if node_id != old]
    story.begin(create_at(story, "one", old), host="client of the first")
    story.until(lambda: "one" in story.node(old).parts.controller.image.topics)
    for node_id in others:
        story.cluster.network.cut(f"node-{old}", f"node-{node_id}")
        assert "one" not in story.node(node_id).parts.controller.image.topics
    story.cluster.lose_power(story.hosts[old])
    again = [story.begin(create_at(story, "one", node_id)) for node_id in others]
    story.until(lambda: all(one.done for one in again))
    assert not any(one.result for one in again), "it exists"
    assert all("one" in story.node(node_id).parts.controller.image.topics for node_id in others)


def test_a_node_that_answers_a_change_knows_it(tell: Tell) -> None:
    """The active controller is far away from the node that the client asks, and has its majority without it."""
    story = tell(nodes=3)
    story.start()
    story.create(TOPIC, [1, 2, 3])
    asked = next(node_id for node_id in story.hosts if node_id != story.active)
    story.cluster.network.link(f"node-{story.active}", f"node-{asked}").latency_s = 0.4

    async def delete(seams: Seams) -> list[str]:
        async with Admin(f"node-{asked}:9092", seams=seams) as admin:
            await admin.delete_topic(TOPIC)
            return await admin.list_topics()

    for node_id in story.hosts:
        if node_id != asked:
            story.cluster.network.cut("client", f"node-{node_id}")
    assert story.do(delete) == []


def test_producers_of_different_brokers_have_different_ids(tell: Tell) -> None:
    """Else the leader takes the first batch of one for a repetition of the other's."""
    story = tell(brokers=3)
    story.start()
    story.create(TOPIC, [1, 2, 3])
    sent = [f"value {number}" for number in range(12)]
    for number, value in enumerate(sent):
        story.produce(TOPIC, value, bootstrap_servers=f"node-{1 + number % 3}:9092")
    assert story.read(TOPIC) == sent


@pytest.mark.parametrize("end", ["clean", "crash"])
def test_a_cluster_starts_again_from_snapshots(tell: Tell, end: str) -> None:
    """Leader epochs and producer ids are those from before, so that logs and producers go on."""
    story = tell({"metadata.log.max.record.bytes.between.snapshots": "500"}, brokers=2)
    story.start()
    story.create(TOPIC, [1, 2])
    for number in range(6):
        story.prefer(TOPIC, 2 - number % 2, 1 + number % 2)
        story.produce(TOPIC, f"value {number}")
    story.wait(10)
    epoch = story.state(TOPIC).leader_epoch
    assert all(one.stored.latest_snapshot() is not None for one in story.controllers.values())
    if end == "clean":
        story.restart(1, 2, CONTROLLER)
    else:
        for host in story.hosts.values():
            story.cluster.kill(host)
        story.start()
    story.until_in_sync(TOPIC, 1, 2)
    assert story.state(TOPIC).leader_epoch >= epoch
    story.produce(TOPIC, "value 6", acks="all")
    assert story.read(TOPIC) == [f"value {number}" for number in range(7)]


# -- group coordinators -----------------------------------------------------------------------------------------------


class Members:
    """Consumers of one group, each in a process of its own, and what they are assigned."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.assigned: dict[str, set[TopicPartition]] = {}

    def join(self, name: str) -> None:
        async def program(seams: Seams) -> None:
            async with Consumer(
                TOPIC,
                bootstrap_servers=self._story.cluster.bootstrap_servers,
                seams=seams,
                group_id=GROUP,
                session_timeout_ms=6000,
                heartbeat_interval_ms=500,
            ) as consumer:
                while True:
                    await consumer.poll(100)
                    self.assigned[name] = set(consumer.assignment())

        self._story.cluster.start_client(name, name, program)

    def kill(self, name: str) -> None:
        self._story.world.kill(self._story.cluster.clients[name])
        del self.assigned[name]

    def have_all(self) -> bool:
        found = [partition for partitions in self.assigned.values() for partition in partitions]
        return sorted(found) == [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]


def group_story(tell: Tell) -> Story:
    story = tell(
        {
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "2",
            "group.initial.rebalance.delay.ms": "1000",
        },
        brokers=2,
    )
    story.start()

    async def create(seams: Seams) -> None:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            await admin.create_topic(TOPIC, assignments={0: [1, 2], 1: [2, 1]})

    story.do(create)
    return story


def test_a_lone_member_gets_its_partitions(tell: Tell) -> None:
    """Nothing but the timer ends the wait for other members."""
    story = group_story(tell)
    members = Members(story)
    members.join("a")
    story.until(members.have_all, within_s=15)


def test_a_member_that_vanishes_with_its_coordinator_is_missed(tell: Tell) -> None:
    """The next coordinator has its session from the log only."""
    story = group_story(tell)
    members = Members(story)
    members.join("a")
    members.join("b")
    story.until(lambda: len(members.assigned) == 2 and all(members.assigned.values()) and members.have_all())
    coordinator = story.state(OFFSETS).leader
    members.kill("b")
    story.prefer(OFFSETS, 3 - coordinator, coordinator)
    story.until(members.have_all, within_s=30)


def test_a_commit_that_was_acknowledged_survives_the_coordinator(tell: Tell) -> None:
    """The coordinator reaches its follower no more when the commit arrives, and then it is gone."""
    story = tell(
        {
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "2",
            "min.insync.replicas": "1",
        },
        brokers=2,
    )
    story.start()
    story.create(TOPIC, [1, 2])
    partition = TopicPartition(TOPIC, 0)
    acknowledged: list[int] = []

    async def commit(seams: Seams) -> None:
        async with Consumer(
            bootstrap_servers=story.cluster.bootstrap_servers, seams=seams, group_id=GROUP, enable_auto_commit=False
        ) as consumer:
            consumer.assign([partition])
            for offset in range(1, 1000):
                await consumer.commit({partition: offset})
                acknowledged.append(offset)

    async def committed(seams: Seams) -> int:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            return (await admin.list_group_offsets(GROUP, [partition]))[partition].offset

    story.begin(commit)
    story.until(lambda: len(acknowledged) > 20)
    coordinator = story.state(OFFSETS).leader
    story.isolate(coordinator)
    story.wait(2)
    before = acknowledged[-1]
    story.cluster.lose_power(story.hosts[coordinator])
    story.until(lambda: story.state(OFFSETS).leader == 3 - coordinator)
    assert story.do(committed) >= before


def test_the_last_commit_is_known_to_the_next_coordinator(tell: Tell) -> None:
    """It is committed, but the high watermark of the next coordinator is from before."""
    story = tell({"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "3"}, brokers=3)
    story.start()
    story.create(TOPIC, [1, 2, 3])
    partition = TopicPartition(TOPIC, 0)

    async def commit(seams: Seams) -> None:
        async with Consumer(
            bootstrap_servers=story.cluster.bootstrap_servers, seams=seams, group_id=GROUP, enable_auto_commit=False
        ) as consumer:
            consumer.assign([partition])
            for offset in range(1, 6):
                await consumer.commit({partition: offset})

    async def committed(seams: Seams) -> int:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            return (await admin.list_group_offsets(GROUP, [partition]))[partition].offset

    story.do(commit)
    story.cluster.kill(story.hosts[story.state(OFFSETS).leader])
    assert story.do(committed) == 5
