"""Stories about single nodes in a cluster: starts, stops, crashes, what is left on their disks, how they follow.

Each is a situation that needs a whole node and is rare in seeded runs; planted bugs in `mutations/nodes.py` need them.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from minikafka.client.admin.admin import Admin
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.consumer import Consumer
from minikafka.protocol.names import TopicPartition
from simulation.story import CONTROLLER, Story, Tell, values

TOPIC = "flights"
FLIGHTS = TopicPartition(TOPIC, 0)


async def commit_7(seams: Seams) -> None:
    """Commit offset 7 for a group."""
    async with Consumer(bootstrap_servers="node-1:9092", seams=seams, group_id="delays") as consumer:
        consumer.assign([FLIGHTS])
        await consumer.commit({FLIGHTS: 7})


async def committed(seams: Seams) -> int:
    """The offset that the group has committed."""
    async with Admin("node-1:9092", seams=seams) as admin:
        return (await admin.list_group_offsets("delays", [FLIGHTS]))[FLIGHTS].offset


# -- starts -----------------------------------------------------------------------------------------------------------


def test_a_lone_node_that_coordinates_groups_starts_again(tell: Tell) -> None:
    story = tell(nodes=1)
    story.start()
    story.create(TOPIC, [1])
    story.do(commit_7)
    story.restart(1)
    assert story.do(committed) == 7


def test_a_lone_replica_serves_all_that_it_has_after_a_crash(tell: Tell) -> None:
    """Its high watermark of the checkpoint is old, and there is no follower whose fetch would move it."""
    story = tell(nodes=1)
    story.start()
    story.create(TOPIC, [1])
    story.produce(TOPIC, *values(0, 5))
    story.cluster.kill(story.hosts[1])
    story.start()
    assert story.read(TOPIC) == values(0, 5)


@pytest.mark.slow
def test_a_node_that_stops_before_it_is_registered_is_still_clean(tell: Tell) -> None:
    """Its logs are those of the last clean shutdown; as an unclean one it would be no eligible leader."""
    story = tell(nodes=3)
    story.start()
    node = story.hosts[3]
    epoch = story.node(3).parts.controller.broker_epoch
    story.cluster.stop(node)
    story.until(lambda: not node.is_running)
    for other in (1, 2):
        story.cluster.kill(story.hosts[other])
    story.cluster.start(node)
    story.wait(5)
    assert not node.ready
    story.cluster.stop(node)
    story.until(lambda: not node.is_running)
    story.start()
    assert epoch >= 0
    assert story.node(3).parts.logs.failures.previous_broker_epoch == epoch


def test_a_log_that_lost_its_end_begins_to_commit_there(tell: Tell) -> None:
    """The checkpoint of the high watermarks was synced, the records were not."""
    story = tell({"replica.high.watermark.checkpoint.interval.ms": "1000"}, nodes=1)
    story.make_forgetful(1)
    story.start()
    story.create(TOPIC, [1])
    story.produce(TOPIC, *values(0, 5))
    story.wait(3)
    story.crash(1)
    story.start()
    kept = story.read(TOPIC)
    assert kept == values(0, 5)[: len(kept)]
    story.produce(TOPIC, "new")
    assert story.read(TOPIC) == [*kept, "new"]


@pytest.mark.parametrize("acks", ["all", 1])
def test_records_of_a_topic_that_flushes_each_survive_a_power_failure(tell: Tell, acks: str | int) -> None:
    story = tell(nodes=1)
    story.make_forgetful(1)
    story.start()
    story.create(TOPIC, [1], {"flush.messages": "1"})
    story.produce(TOPIC, *values(0, 5), acks=acks, enable_idempotence=acks == "all")
    story.crash(1)
    story.start()
    assert story.read(TOPIC) == values(0, 5)


def test_a_record_that_is_not_flushed_yet_cannot_be_read(tell: Tell) -> None:
    """Also when its producer has gone meanwhile: then it can be read once it is flushed."""
    story = tell({"log.flush.interval.messages": "1"}, nodes=1)
    story.make_forgetful(1)
    story.start()
    story.create(TOPIC, [1])
    story.produce(TOPIC, "first")
    story.hosts[1].disk.slow("/data", lambda _: 20.0)
    story.begin(story.producing(TOPIC, "second"), host="client of a producer")
    story.until(lambda: story.replica(1, TOPIC).log.end_offset == 2)
    for pair in (("node-1", "client of a producer"), ("client of a producer", "node-1")):
        story.cluster.network.cut(*pair)
        story.cluster.network.reset_connections(*pair)
    assert story.read(TOPIC) == ["first"]
    story.until(lambda: story.replica(1, TOPIC).high_watermark == 2)
    assert story.read(TOPIC) == ["first", "second"]
    story.crash(1)
    story.hosts[1].disk.fast("/data")
    story.start()
    assert story.read(TOPIC) == ["first", "second"]


def test_committed_offsets_survive_a_power_failure_where_each_record_is_flushed(tell: Tell) -> None:
    story = tell({"log.flush.interval.messages": "1"}, nodes=1)
    story.make_forgetful(1)
    story.start()
    story.create(TOPIC, [1])
    story.do(commit_7)
    story.crash(1)
    story.start()
    assert story.do(committed) == 7


def test_metadata_survives_a_power_failure_of_the_only_controller(tell: Tell) -> None:
    story = tell(brokers=1)
    story.make_forgetful(CONTROLLER)
    story.start()
    story.create(TOPIC, [1])
    story.produce(TOPIC, *values(0, 5))
    story.crash(CONTROLLER)
    story.start()
    story.restart(1)
    assert story.read(TOPIC) == values(0, 5)


# -- producers across restarts and elections --------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["clean", "crash"])
def test_a_batch_that_is_sent_again_after_a_restart_is_known(tell: Tell, end: str) -> None:
    story = tell(brokers=1)
    story.start()
    story.create(TOPIC, [1])
    running = story.begin(
        story.producing(TOPIC, *values(0, 2), acks="all", request_timeout_ms=3000), host="client of a producer"
    )
    story.until(lambda: story.replica(1, TOPIC).log.end_offset == 2)
    story.cluster.network.cut("node-1", "client of a producer")
    assert not running.done, "the response to the second record is under way"
    if end == "clean":
        story.cluster.stop(story.hosts[1])
        story.until(lambda: not story.hosts[1].is_running)
    else:
        story.cluster.kill(story.hosts[1])
    story.cluster.network.reset_connections("node-1", "client of a producer")
    story.cluster.network.reset_connections("client of a producer", "node-1")
    story.cluster.network.heal_all()
    story.start()
    story.until(lambda: running.done)
    assert running.result == [0, 1]
    assert story.read(TOPIC) == values(0, 2)


def test_a_batch_that_is_sent_again_to_the_next_leader_is_known(tell: Tell) -> None:
    story = tell(brokers=2)
    story.start()
    story.create(TOPIC, [1, 2])
    running = story.begin(
        story.producing(TOPIC, *values(0, 2), acks="all", request_timeout_ms=3000), host="client of a producer"
    )
    story.until(lambda: story.replica(1, TOPIC).log.end_offset == 2)
    story.cluster.network.cut("node-1", "client of a producer")
    story.until(lambda: story.replica(2, TOPIC).log.end_offset == 2)
    assert not running.done, "the response to the second record is under way"
    story.cluster.kill(story.hosts[1])
    story.until(lambda: running.done)
    assert running.result == [0, 1]
    assert story.read(TOPIC) == values(0, 2)


def test_a_batch_that_is_sent_again_waits_until_it_is_committed(tell: Tell) -> None:
    """The leader is alone without knowing it. The first request times out; the second one finds the batch there."""
    story = tell({"min.insync.replicas": "2"}, brokers=3)
    story.start()
    story.create(TOPIC, [1, 2, 3])
    story.isolate(1)
    running = story.begin(story.producing(TOPIC, "value", acks="all", request_timeout_ms=1000))
    story.until(lambda: running.done)
    story.isolate(1, cut=False)
    story.until_in_sync(TOPIC, 1, 2, 3)
    assert story.read_with_offsets(TOPIC) == [(running.result[0], "value")]


@pytest.mark.slow
def test_a_batch_that_was_truncated_is_not_known_any_more(tell: Tell) -> None:
    """A former leader, which has truncated the batch, leads again; the producer has reached no other leader."""
    story = tell({"min.insync.replicas": "2"}, brokers=3)
    story.start()
    story.create(TOPIC, [1, 2, 3])
    for node_id in (2, 3):
        story.cluster.network.cut("client of a producer", f"node-{node_id}")
    running = story.begin(
        story.producing(TOPIC, *values(0, 2), acks="all", request_timeout_ms=1000, bootstrap_servers="node-1:9092"),
        host="client of a producer",
    )
    story.until(lambda: story.replica(1, TOPIC).high_watermark == 1)
    story.isolate(1)
    story.until(lambda: story.replica(1, TOPIC).log.end_offset == 2)
    assert story.replica(2, TOPIC).log.end_offset == 1
    story.until(lambda: story.state(TOPIC).leader != 1)
    story.isolate(1, cut=False)
    story.until_in_sync(TOPIC, 1, 2, 3)
    assert story.replica(1, TOPIC).log.end_offset == 1
    story.prefer(TOPIC, 1, 2, 3)
    story.until(lambda: running.done)
    assert running.result == [0, 1]
    assert story.read(TOPIC) == values(0, 2)


# -- in-sync replicas -------------------------------------------------------------------------------------------------


def test_a_follower_leaves_the_isr_and_returns_more_than_once(tell: Tell) -> None:
    story = tell({"replica.lag.time.max.ms": "2000"}, brokers=2)
    story.start()
    story.create(TOPIC, [1, 2])
    for _ in range(2):
        story.isolate(1, from_=[2])
        story.produce(TOPIC, "value")
        story.until_in_sync(TOPIC, 1)
        story.isolate(1, from_=[2], cut=False)
        story.until_in_sync(TOPIC, 1, 2)
    assert story.state(TOPIC).leader_epoch == 0, "all by the proposals of one leader"


@pytest.mark.slow
def test_a_proposed_isr_is_sent_again_when_the_controller_is_back(tell: Tell) -> None:
    story = tell({"replica.lag.time.max.ms": "2000"}, brokers=2)
    story.start()
    story.create(TOPIC, [1, 2])
    story.cluster.kill(story.hosts[CONTROLLER])
    story.isolate(1, from_=[2])
    running = story.begin(story.producing(TOPIC, "value", acks="all", enable_idempotence=False))
    story.wait(60)
    assert not running.done
    story.cluster.start(story.hosts[CONTROLLER])
    story.until_in_sync(TOPIC, 1, within_s=30)
    story.until(lambda: running.done)
    assert running.error is None


def test_a_follower_notices_a_new_epoch_of_the_same_leader(tell: Tell) -> None:
    """A reassignment that removes a replica raises the epoch; the leader stays."""
    story = tell({"min.insync.replicas": "2"}, brokers=3)
    story.start()
    story.create(TOPIC, [1, 2, 3])

    async def shrink(seams: Seams) -> None:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            await admin.alter_partition_reassignments({FLIGHTS: [1, 2]})

    story.do(shrink)
    story.until(lambda: story.state(TOPIC).replicas == (1, 2))
    assert (story.state(TOPIC).leader, story.state(TOPIC).leader_epoch) == (1, 1)
    assert story.produce(TOPIC, *values(0, 3), acks="all") == [0, 1, 2]
    assert sorted(story.state(TOPIC).isr) == [1, 2]


def test_a_leader_without_records_of_its_own_follows_the_next_one(tell: Tell) -> None:
    """Its epoch starts at the end of its log; the next leader does not know this epoch."""
    story = tell(brokers=2)
    story.start()
    story.create(TOPIC, [1, 2])
    story.produce(TOPIC, *values(0, 3), acks="all")
    story.isolate(1, from_=[2])
    story.prefer(TOPIC, 2, 1)
    story.prefer(TOPIC, 1, 2)
    story.isolate(1, from_=[2], cut=False)
    running = story.begin(story.producing(TOPIC, "value", acks="all"))
    story.until(lambda: running.done, within_s=15)
    assert running.result == [3]


def test_a_new_partition_does_not_wait_for_brokers_that_are_down(tell: Tell) -> None:
    story = tell({"min.insync.replicas": "2"}, brokers=3)
    story.start()
    story.create(TOPIC, [1, 2, 3])
    story.cluster.kill(story.hosts[3])
    story.until_in_sync(TOPIC, 1, 2)

    async def grow(seams: Seams) -> None:
        async with Admin("node-1:9092,node-2:9092", seams=seams) as admin:
            await admin.create_partitions(TOPIC, 2, assignments=[[3, 1, 2]])

    story.do(grow)
    began = story.world.now
    story.do(story.producing(TOPIC, "value", partition=1, acks="all"))
    assert story.world.now - began < 10


# -- log start offsets ------------------------------------------------------------------------------------------------


def first_offset(story: Story) -> int:
    async def program(seams: Seams) -> int:
        async with Consumer(bootstrap_servers=story.cluster.bootstrap_servers, seams=seams) as consumer:
            return (await consumer.beginning_offsets([FLIGHTS]))[FLIGHTS]

    return story.do(program)


def test_deleted_records_stay_deleted_after_a_restart(tell: Tell) -> None:
    story = tell(nodes=1)
    story.start()
    story.create(TOPIC, [1])
    story.produce(TOPIC, *values(0, 10))
    story.delete_records(TOPIC, 5)
    story.restart(1)
    assert first_offset(story) == 5


def test_deleted_records_stay_deleted_after_an_election(tell: Tell) -> None:
    story = tell(brokers=2)
    story.start()
    story.create(TOPIC, [1, 2])
    story.produce(TOPIC, *values(0, 10))
    story.delete_records(TOPIC, 5)
    story.prefer(TOPIC, 2, 1)
    assert first_offset(story) == 5


def test_a_follower_returns_whose_log_ends_before_that_of_the_leader_starts(tell: Tell) -> None:
    story = tell({"min.insync.replicas": "1"}, brokers=2)
    story.start()
    story.create(TOPIC, [1, 2])
    story.produce(TOPIC, *values(0, 3))
    story.cluster.kill(story.hosts[2])
    story.until_in_sync(TOPIC, 1)
    story.produce(TOPIC, *values(3, 10))
    story.delete_records(TOPIC, 8)
    story.cluster.start(story.hosts[2])
    story.until_in_sync(TOPIC, 1, 2)
    story.prefer(TOPIC, 2, 1)
    assert story.read_with_offsets(TOPIC) == [(8, "value 8"), (9, "value 9")]


def test_a_batch_with_a_hole_is_found_when_a_node_starts_after_a_crash(tell: Tell) -> None:
    """Header and end of the batch are on the disk, what lies between is not."""
    story = tell(nodes=1)
    host = story.hosts[1]
    host.disk = host.empty_disk(Tearing())
    story.start()
    story.create(TOPIC, [1])
    story.produce(TOPIC, f"{'lost':2000}")
    story.crash(1)
    assert host.disk.file_size(f"/data/{TOPIC}-0/{0:020}.log") > 2000
    story.start()
    assert story.read(TOPIC) == []
    story.produce(TOPIC, "new")
    assert story.read(TOPIC) == ["new"]


class Tearing(Random):
    """The randomness of a disk that keeps every other sector of an unsynced write, beginning with the first."""

    _draws = 0

    def randrange(self, *_: Any, **__: Any) -> int:
        self._draws = 0
        return 3

    def randint(self, a: int, b: int) -> int:
        return b

    def random(self) -> float:
        self._draws += 1
        return 0.9 * (self._draws % 2 == 0)
