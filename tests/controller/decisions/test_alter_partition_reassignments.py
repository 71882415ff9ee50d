"""AlterPartitionReassignments in progress; placement of new replicas on fenced brokers; UnregisterBroker."""

from typing import Any

import pytest
from support.decided_cluster import DecidedCluster
from support.images import name_of

from minikafka.protocol.messages import create_partitions as growing
from minikafka.protocol.messages import create_topics as creating
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest


def four_brokers(*replicas: tuple[int, ...]) -> DecidedCluster:
    cluster = DecidedCluster((1, 2, 3, 4))
    cluster.topic(*(replicas or ((1, 2),)))
    return cluster


def moving(cluster: DecidedCluster) -> tuple[tuple[int, ...], ...]:
    state = cluster.state()
    return state.replicas, state.adding_replicas, state.removing_replicas


def test_a_reassignment_in_progress_can_be_replaced() -> None:
    """As in Kafka, replicas that will be removed come last, in order of their ids."""
    cluster = four_brokers()
    assert cluster.reassign([1, 3]) == "NONE"
    assert moving(cluster) == ((1, 3, 2), (3,), (2,))
    assert cluster.reassign([2, 3]) == "NONE"
    assert moving(cluster) == ((2, 3, 1), (3,), (1,))
    assert cluster.reassign([3]) == "NONE"
    assert moving(cluster) == ((3, 1, 2), (3,), (1, 2))
    assert cluster.state().leader_epoch == 0


def test_reassigning_to_the_original_replicas_ends_the_reassignment() -> None:
    cluster = four_brokers()
    cluster.reassign([3, 4])
    assert cluster.reassign([1, 2]) == "NONE"
    assert moving(cluster) == ((1, 2), (), ())
    assert cluster.state().leader_epoch == 1, "3 and 4 are fenced"


def test_an_added_replica_that_is_no_longer_wanted_is_removed_at_once() -> None:
    cluster = four_brokers()
    cluster.reassign([3, 4])
    cluster.alter([1, 2, 3])
    assert cluster.reassign([4, 1]) == "NONE"
    assert moving(cluster) == ((4, 1, 2), (4,), (2,))
    assert cluster.state().isr == (1, 2)
    assert cluster.state().leader_epoch == 1


def test_a_cancelled_reassignment_restores_the_original_replicas() -> None:
    cluster = four_brokers()
    assert cluster.reassign(None) == "NO_REASSIGNMENT_IN_PROGRESS"
    cluster.reassign([3, 1])
    cluster.alter([1, 2])
    assert cluster.reassign(None) == "NONE"
    assert moving(cluster) == ((1, 2), (), ())


def test_a_reassignment_is_not_cancelled_if_only_added_replicas_are_in_sync() -> None:
    cluster = four_brokers()
    cluster.reassign([3, 4])
    cluster.alter([1, 3])
    cluster.fence(1)
    assert cluster.state().isr == (3,)
    assert cluster.reassign(None) == "INVALID_REPLICA_ASSIGNMENT"
    assert cluster.reassign([4, 2]) == "INVALID_REPLICA_ASSIGNMENT"
    assert cluster.state().leader == 3


def test_a_reassignment_to_a_fenced_broker_waits_for_it() -> None:
    cluster = four_brokers()
    cluster.fence(3)
    assert cluster.reassign([1, 3]) == "NONE"
    assert moving(cluster) == ((1, 3, 2), (3,), (2,))
    cluster.join(3)
    cluster.alter([1, 2, 3])
    assert moving(cluster) == ((1, 3), (), ())


def test_a_leaderless_partition_can_be_reassigned_but_stays_leaderless() -> None:
    cluster = four_brokers((1,))
    cluster.fence(1)
    assert cluster.reassign([2]) == "NONE"
    assert moving(cluster) == ((2, 1), (2,), (1,))
    assert (cluster.state().leader, cluster.state().elr) == (-1, (1,))
    cluster.join(1, previous=cluster.epoch(1))
    cluster.alter([1, 2])
    assert (cluster.state().leader, cluster.state().replicas) == (2, (2,))


def test_fencing_a_broker_can_complete_a_reassignment() -> None:
    """A removed replica stays while it is the only one with all committed records."""
    cluster = four_brokers()
    cluster.reassign([3])
    cluster.fence(2)
    assert moving(cluster) == ((3, 1, 2), (3,), (1, 2))
    cluster.alter([1, 3])
    assert (cluster.state().replicas, cluster.state().leader, cluster.state().leader_epoch) == ((3,), 3, 1)


def test_a_reassignment_with_a_timeout_of_zero_times_out() -> None:
    cluster = four_brokers()
    topics = [ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[2, 1])])]
    request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=0)
    reply = cluster.ask(request)
    assert name_of(reply.error_code) == name_of(reply.responses[0].partitions[0].error_code) == "REQUEST_TIMED_OUT"
    assert cluster.ask(AlterPartitionReassignmentsRequest(timeout_ms=0)).error_code == 0


@pytest.mark.slow
def test_a_request_with_too_many_records_is_rejected_as_a_whole() -> None:
    cluster = four_brokers(*[(1, 2)] * 10_001)
    parts = [ReassignablePartition(partition_index=index, replicas=[2, 1]) for index in range(10_001)]
    topics = [ReassignableTopic(name="t", partitions=parts)]
    reply = cluster.ask(AlterPartitionReassignmentsRequest(topics=topics))
    assert (name_of(reply.error_code), cluster.state().replicas) == ("POLICY_VIOLATION", (1, 2))


def created(cluster: DecidedCluster, assigned: list[int] | None = None, **counts: int) -> Any:
    assignments = [] if assigned is None else [creating.CreatableReplicaAssignment(broker_ids=assigned)]
    topic = creating.CreatableTopic(
        name="new",
        num_partitions=counts.get("partitions", -1),
        replication_factor=counts.get("factor", -1),
        assignments=assignments,
    )
    return cluster.ask(creating.CreateTopicsRequest(topics=[topic]), 7).topics[0]


def test_the_isr_of_a_new_topic_has_no_broker_in_controlled_shutdown() -> None:
    cluster = four_brokers()
    cluster.fence(3)
    cluster.heartbeat(1, want_shut_down=True)
    assert name_of(created(cluster, [3, 1]).error_code) == "INVALID_REPLICA_ASSIGNMENT"
    assert not created(cluster, [3, 1, 2]).error_code
    state = cluster.state("new")
    assert (state.leader, state.isr, state.replicas) == (2, (2,), (3, 1, 2))


def test_replicas_are_placed_on_fenced_brokers_last_and_not_on_those_in_shutdown() -> None:
    cluster = four_brokers()
    cluster.fence(3)
    cluster.heartbeat(1, want_shut_down=True)
    assert name_of(created(cluster, partitions=1, factor=4).error_code) == "INVALID_REPLICATION_FACTOR"
    assert not created(cluster, partitions=4, factor=3).error_code
    for state in cluster.image.topics["new"].partitions:
        assert set(state.replicas) == {2, 3, 4}
        assert state.replicas[2] == 3
        assert set(state.isr) == {2, 4}


def test_new_partitions_need_an_unfenced_broker() -> None:
    cluster = four_brokers()
    cluster.fence(3)
    cluster.fence(4)
    errors: list[str] = []
    for broker_ids in ([3, 4], [3, 1]):
        assignment = growing.CreatePartitionsAssignment(broker_ids=broker_ids)
        topic = growing.CreatePartitionsTopic(name="t", count=2, assignments=[assignment])
        errors.append(
            name_of(cluster.ask(growing.CreatePartitionsRequest(topics=[topic], timeout_ms=1)).results[0].error_code)
        )
    assert errors == ["INVALID_REPLICA_ASSIGNMENT", "NONE"]
    assert (cluster.state(index=1).leader, cluster.state(index=1).isr) == (1, (1,))


def test_a_live_broker_that_is_unregistered_loses_its_leaderships() -> None:
    cluster = four_brokers((1, 2), (3, 1))
    assert cluster.ask(UnregisterBrokerRequest(broker_id=1)).error_code == 0
    assert (cluster.state().leader, cluster.state().isr, cluster.state().replicas) == (2, (2,), (1, 2))
    assert cluster.state(index=1).isr == (3,)
    assert name_of(cluster.heartbeat(1, epoch=1).error_code) == "STALE_BROKER_EPOCH"
    assert name_of(cluster.ask(UnregisterBrokerRequest(broker_id=1)).error_code) == "BROKER_ID_NOT_REGISTERED"


def test_the_last_unfenced_broker_is_not_unregistered() -> None:
    cluster = DecidedCluster((1, 2))
    cluster.fence(2)
    assert name_of(cluster.ask(UnregisterBrokerRequest(broker_id=1)).error_code) == "INVALID_REQUEST"
    assert cluster.ask(UnregisterBrokerRequest(broker_id=2)).error_code == 0


@pytest.mark.slow
def test_a_broker_with_many_partitions_is_unregistered_in_several_requests() -> None:
    cluster = four_brokers(*[(1, 2)] * 12_000)
    assert name_of(cluster.ask(UnregisterBrokerRequest(broker_id=1)).error_code) == "REQUEST_TIMED_OUT"
    assert cluster.ask(UnregisterBrokerRequest(broker_id=1)).error_code == 0
    assert {state.isr for state in cluster.image.topics["t"].partitions} == {(2,)}
