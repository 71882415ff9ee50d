"""Stories about what dies between the outcome of a transaction and its completion, at each step.

    outcome committed ─► a marker in a leader's log ─► committed ─► its answer ─► final state in the log ─► committed

`test_transaction_stories.py` has those in which no marker has arrived. Partitions and coordinators are on brokers of
their own, so that each step can be held up alone: node 3 coordinates, node 2 leads the partition whose marker is late.
"""

from __future__ import annotations

from typing import Any

import pytest
from chaos.workload.features import set_transaction_version

from minikafka.broker.partitions.partition import Partition
from minikafka.client.admin.admin import Admin
from minikafka.client.connections.seams import Seams
from minikafka.client.consumer.consumer import Consumer
from minikafka.protocol.names import TopicPartition
from simulation.stepwise import StepwiseProducer
from simulation.story import CONTROLLER, Story, Tell
from simulation.test_transaction_stories import COMPLETE, ID, PREPARED, SETTINGS, STATE, TOPIC, committed, coordinator

OFFSETS, GROUP = "__consumer_offsets", "readers"
LEADER, COORDINATOR, FOLLOWERS = 2, 3, (4, 5)
OUTCOMES = pytest.mark.parametrize("outcome", ["commit", "abort"])


def begin(tell: Tell, version: int = 2) -> tuple[Story, StepwiseProducer]:
    """A first transaction is complete, and a second one has its records in both partitions."""
    story = tell(SETTINGS, brokers=5)
    story.start()

    async def create(seams: Seams) -> None:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            await admin.create_topic(TOPIC, assignments={0: [1, *FOLLOWERS], 1: [LEADER, *FOLLOWERS]})
            await set_transaction_version(admin, version)

    story.do(create)
    producer = StepwiseProducer(story, TOPIC, ID)
    producer.do("begin")
    move(story, STATE, COORDINATOR, *FOLLOWERS)
    send(producer, "first")
    producer.do("commit")
    story.until(lambda: COMPLETE(story))
    producer.do("begin")
    send(producer, "second")
    return story, producer


def move(story: Story, topic: str, *replicas: int) -> None:
    """Give partition 0 of a topic these replicas; the first leads."""

    async def reassign(seams: Seams) -> None:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            await admin.alter_partition_reassignments({TopicPartition(topic, 0): replicas})

    story.do(reassign)
    story.until_in_sync(topic, *replicas)
    story.prefer(topic, *replicas)


def send(producer: StepwiseProducer, value: str) -> None:
    for partition in (0, 1):
        producer.do("send", value=value.encode(), partition=partition)


def cut(story: Story, *pairs: tuple[int, int]) -> None:
    """Let nothing arrive from the first node of each pair at the second."""
    for source, target in pairs:
        story.cluster.network.cut(f"node-{source}", f"node-{target}")


def heal(story: Story, *pairs: tuple[int, int]) -> None:
    for source, target in pairs:
        story.cluster.network.heal(f"node-{source}", f"node-{target}")


def late(story: Story) -> Partition:
    """The partition whose marker is held up, at its leader."""
    return story.replica(LEADER, TOPIC, 1)


def until_committed(story: Story, replica: Partition, end: int) -> None:
    story.until(lambda: replica.high_watermark == replica.log.end_offset == end)


def finish(story: Story, producer: StepwiseProducer, outcome: str, *, ended: bool = True) -> None:
    """The transaction is completed, the producer goes on, and everybody reads the same."""
    story.until(lambda: coordinator(story) > 0 and COMPLETE(story))
    if ended:
        story.until(lambda: producer.done)
    producer.do("begin")
    send(producer, "third")
    producer.do("commit")
    story.cluster.network.heal_all()
    story.start()
    story.until_in_sync(TOPIC, LEADER, *FOLLOWERS, index=1)
    assert committed(story) == [["first", "second", "third"] if outcome == "commit" else ["first", "third"]] * 2


@pytest.mark.slow
@OUTCOMES
def test_a_leader_dies_with_a_marker_that_its_followers_do_not_have(tell: Tell, outcome: str) -> None:
    """The marker is lost with it: the next leader is sent another one."""
    story, producer = begin(tell)
    cut(story, *((follower, LEADER) for follower in FOLLOWERS))
    story.wait(1)  # Fetches that had arrived are answered.
    producer.start(outcome)
    story.until(lambda: late(story).log.end_offset == 4)
    story.wait(1)
    assert PREPARED(story), "a marker counts that can be lost"
    assert late(story).high_watermark == 3
    story.crash(LEADER)
    story.until(lambda: story.state(TOPIC, 1).leader in FOLLOWERS)
    assert story.replica(story.state(TOPIC, 1).leader, TOPIC, 1).log.end_offset == 3
    finish(story, producer, outcome)


@OUTCOMES
@pytest.mark.parametrize("victim", [0, LEADER, COORDINATOR])
def test_the_answer_to_a_marker_is_lost(tell: Tell, victim: int, outcome: str) -> None:
    """Alone, or with the leader, or with the coordinator before it has the final state: the marker is sent again."""
    story, producer = begin(tell)
    cut(story, (LEADER, COORDINATOR))
    producer.start(outcome)
    until_committed(story, late(story), 4)
    until_committed(story, story.replica(1, TOPIC, 0), 4)
    assert PREPARED(story), "the coordinator should know of one marker only"
    if victim:
        story.crash(victim)
        story.until(lambda: {victim}.isdisjoint({coordinator(story), story.state(TOPIC, 1).leader}))
    else:
        heal(story, (LEADER, COORDINATOR))
    finish(story, producer, outcome)
    if victim:
        ends = [story.replica(story.state(TOPIC, 1).leader, TOPIC, 1).log.end_offset]
        assert ends > [6], "the marker should be there twice"


@pytest.mark.slow
@OUTCOMES
def test_a_coordinator_dies_with_a_final_state_that_its_followers_do_not_have(tell: Tell, outcome: str) -> None:
    """The next coordinator finds the outcome, and completes the transaction again."""
    story, producer = begin(tell)
    cut(story, (COORDINATOR, LEADER))
    producer.start(outcome)
    story.until(lambda: producer.done)
    replica = story.replica(COORDINATOR, STATE)
    story.until(lambda: replica.high_watermark == replica.log.end_offset)
    assert PREPARED(story)
    cut(story, *((follower, COORDINATOR) for follower in FOLLOWERS))
    story.wait(1)
    heal(story, (COORDINATOR, LEADER))
    story.until(lambda: COMPLETE(story))
    assert replica.high_watermark < replica.log.end_offset, "the final state should not be committed"
    story.crash(COORDINATOR)
    story.until(lambda: coordinator(story) in FOLLOWERS)
    finish(story, producer, outcome)


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_a_coordinator_of_before_does_not_end_the_next_transaction(tell: Tell, version: int) -> None:
    """It is cut off with a marker that it could not send; when it can, the producer's next transaction is open.

    In version 1 that has the same producer epoch: the epoch of the coordinator tells.
    """
    story, producer = begin(tell, version)
    cut(story, (COORDINATOR, LEADER))
    producer.do("commit")
    assert PREPARED(story)
    for other in (f"client with {ID}", *(f"node-{one}" for one in (CONTROLLER, 1, *FOLLOWERS))):
        story.cluster.network.cut(f"node-{COORDINATOR}", other)
        story.cluster.network.cut(other, f"node-{COORDINATOR}")
    story.until(lambda: coordinator(story) in FOLLOWERS and COMPLETE(story))
    producer.do("begin")
    send(producer, "third")
    end = late(story).log.end_offset
    completions = story.node(COORDINATOR).parts.coordinators.transactions.coordinator._completions
    assert completions.unfinished(ID) is not None, "it has nothing to send"
    heal(story, (COORDINATOR, LEADER))
    story.until(lambda: completions.unfinished(ID) is None)
    refusal = "TRANSACTION_COORDINATOR_FENCED" if version == 1 else "INVALID_PRODUCER_EPOCH"
    assert any(f"refused the marker: {refusal}" in line for line in story.lines)
    assert late(story).log.end_offset == end, "a marker of before is in the log"
    producer.do("abort")
    story.cluster.network.heal_all()
    assert committed(story) == [["first", "second"]] * 2


@pytest.mark.slow
@pytest.mark.parametrize("has_marker", [False, True])
@OUTCOMES
def test_a_group_coordinator_dies_with_offsets_that_are_pending(tell: Tell, outcome: str, has_marker: bool) -> None:
    """The next one has the offsets pending, from the log, until the marker is there."""
    story, producer = begin(tell)
    input_0 = TopicPartition(TOPIC, 0)
    producer.do("send_offsets_to_transaction", offsets={input_0: 7}, group=GROUP)
    producer.do("abort")
    producer.do("begin")
    move(story, OFFSETS, LEADER, *FOLLOWERS)
    producer.do("send_offsets_to_transaction", offsets={input_0: 9}, group=GROUP)
    end = story.replica(LEADER, OFFSETS).log.end_offset
    pairs = [(one, LEADER) for one in FOLLOWERS] if has_marker else [(COORDINATOR, LEADER)]
    cut(story, *pairs)
    story.wait(1)
    producer.start(outcome)
    story.until(lambda: PREPARED(story))
    story.wait(1)
    assert story.replica(LEADER, OFFSETS).log.end_offset == end + has_marker
    story.crash(LEADER)
    story.until(lambda: COMPLETE(story))
    assert offset_of(story, input_0) == (9 if outcome == "commit" else None)
    finish(story, producer, "abort")


def offset_of(story: Story, tp: TopicPartition) -> int | None:
    """What the group has committed, once that is stable."""

    async def program(seams: Seams) -> Any:
        servers = story.cluster.bootstrap_servers
        async with Consumer(bootstrap_servers=servers, seams=seams, group_id=GROUP) as consumer:
            return (await consumer.committed(tp)).get(tp)

    found = story.do(program)
    return None if found is None else found.offset


@pytest.mark.slow
@pytest.mark.parametrize("moves", ["leader", "coordinator"])
def test_what_is_asked_about_a_partition_moves_meanwhile(tell: Tell, moves: str) -> None:
    """The first record waits for its verification; then its leader is another one, or its coordinator is."""
    story, producer = begin(tell)
    producer.do("commit")
    producer.do("begin")
    leader = story.state(TOPIC, 0).leader
    cut(story, (leader, COORDINATOR))
    end = story.replica(leader, TOPIC, 0).log.end_offset
    producer.start("send", value=b"third", partition=0)
    story.wait(2)
    assert not producer.done, "the record is appended unverified"
    assert story.replica(leader, TOPIC, 0).log.end_offset == end
    if moves == "leader":
        story.prefer(TOPIC, 4, leader, 5)
    else:
        story.crash(COORDINATOR)
        story.until(lambda: coordinator(story) in FOLLOWERS)
    heal(story, (leader, COORDINATOR))
    story.until(lambda: producer.done)
    producer.do("send", value=b"third", partition=1)
    producer.do("commit")
    story.until(lambda: COMPLETE(story))
    story.start()
    assert committed(story) == [["first", "second", "third"]] * 2
