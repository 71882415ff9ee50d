"""Stories about decisions of the controller: requests of brokers that arrive late, and reassignments.

A late request is one that a process has sent, and that the network has kept until something else has happened.
"""

from __future__ import annotations

from typing import Any

import trio

from minikafka.client.admin.admin import Admin
from minikafka.client.connections.connection import open_connection
from minikafka.client.connections.seams import Seams
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.protocol.names import TopicPartition
from simulation.story import CONTROLLER, Story, Tell, values
from simulation.world.cluster import CONTROLLER_PORT

TOPIC = "flights"
FLIGHTS = TopicPartition(TOPIC, 0)
LAG = {"replica.lag.time.max.ms": "2000"}


def begin_story(tell: Tell) -> Story:
    story = tell(LAG, brokers=3)
    story.start()
    story.create(TOPIC, [1, 2, 3])
    return story


def arrives(story: Story, request: Any) -> Any:
    """A request arrives at the controller; returns the response."""

    async def program(seams: Seams) -> Any:
        async with trio.open_nursery() as nursery:
            options = {"client_id": "late", "seams": seams, "task_group": nursery, "timeout_ms": 5000}
            connection = await open_connection(f"node-{CONTROLLER}", CONTROLLER_PORT, **options)  # type: ignore[arg-type]
            response = await connection.request(request, timeout_ms=5000)
            connection.close()
            nursery.cancel_scope.cancel()
        return response

    return story.do(program)


def proposal(story: Story, isr: tuple[int, ...]) -> AlterPartitionRequest:
    """What leader 1 would send now to propose an ISR."""
    state, brokers = story.state(TOPIC), story.image.brokers
    partition = RequestPartitionData(
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=one, broker_epoch=brokers[one].epoch) for one in isr],
    )
    topic = RequestTopicData(topic_id=story.image.topics[TOPIC].id, partitions=[partition])
    return AlterPartitionRequest(broker_id=1, broker_epoch=brokers[1].epoch, topics=[topic])


def error_of(response: Any) -> ErrorCode:
    return ErrorCode(response.topics[0].partitions[0].error_code)


def test_a_late_proposal_does_not_undo_what_has_changed_since(tell: Tell) -> None:
    """The ISR has shrunk and grown since; the leader counts on all of it."""
    story = begin_story(tell)
    late = proposal(story, (1, 2))
    for cut in (True, False):
        story.isolate(3, from_=[1], cut=cut)
        story.produce(TOPIC, "value")
        story.until_in_sync(TOPIC, *((1, 2) if cut else (1, 2, 3)))
    assert error_of(arrives(story, late)) == ErrorCode.INVALID_UPDATE_VERSION
    assert sorted(story.state(TOPIC).isr) == [1, 2, 3]


def test_a_follower_that_has_vanished_since_it_caught_up_is_not_in_sync(tell: Tell) -> None:
    """It was caught up when its leader proposed it, and is fenced when the proposal arrives."""
    story = begin_story(tell)
    story.isolate(3, from_=[1])
    story.produce(TOPIC, *values(0, 3))
    story.until_in_sync(TOPIC, 1, 2)
    late = proposal(story, (1, 2, 3))
    story.cluster.kill(story.hosts[3])
    story.until(lambda: story.image.brokers[3].fenced)
    assert error_of(arrives(story, late)) == ErrorCode.INELIGIBLE_REPLICA
    assert sorted(story.state(TOPIC).isr) == [1, 2]


def test_a_late_heartbeat_of_an_earlier_process_stops_nothing(tell: Tell) -> None:
    """That process was about to shut down; the one that has the node id now leads."""
    story = begin_story(tell)
    late = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=story.image.brokers[1].epoch,
        current_metadata_offset=story.controllers[CONTROLLER].offset,
        want_shut_down=True,
    )
    story.restart(1)
    story.until_in_sync(TOPIC, 1, 2, 3)
    story.prefer(TOPIC, 1, 2, 3)
    assert ErrorCode(arrives(story, late).error_code) == ErrorCode.STALE_BROKER_EPOCH
    story.wait(2)
    assert not story.image.brokers[1].in_controlled_shutdown
    assert story.state(TOPIC).leader == 1


def test_a_reassignment_waits_for_the_replica_that_it_adds(tell: Tell) -> None:
    """Until the new replica has everything, the replica that it replaces stays, and may lead."""
    story = tell(LAG, brokers=3)
    story.start()
    story.create(TOPIC, [1, 2])
    story.produce(TOPIC, *values(0, 5), acks="all")
    story.isolate(3, from_=[1, 2])

    async def reassign(seams: Seams) -> None:
        async with Admin(story.cluster.bootstrap_servers, seams=seams) as admin:
            await admin.alter_partition_reassignments({FLIGHTS: [1, 3]})

    story.do(reassign)
    story.isolate(2, from_=[1])
    story.produce(TOPIC, "value 5")
    story.until_in_sync(TOPIC, 1)
    assert 2 in story.state(TOPIC).replicas, "the reassignment is completed without the new replica"
    story.isolate(2, from_=[1], cut=False)
    story.until_in_sync(TOPIC, 1, 2)
    story.crash(1)
    story.until(lambda: story.state(TOPIC).leader == 2)
    assert story.read(TOPIC) == values(0, 6)
    story.isolate(3, from_=[1, 2], cut=False)
    story.start()
    story.until(lambda: story.state(TOPIC).replicas == (1, 3))
    story.until_in_sync(TOPIC, 1, 3)
    assert story.read(TOPIC) == values(0, 6)
