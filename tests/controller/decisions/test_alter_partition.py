"""AlterPartition: which ISR changes of a leader are accepted."""

import pytest
from support.decided_cluster import DecidedCluster
from support.images import applied, name_of

from minikafka.controller.metadata.records import PartitionChange
from minikafka.protocol.messages import alter_partition as altering
from minikafka.protocol.messages.alter_partition import AlterPartitionRequest


@pytest.fixture
def cluster() -> DecidedCluster:
    made = DecidedCluster()
    made.topic((1, 2, 3))
    return made


def test_a_follower_leaves_the_isr_and_rejoins_it(cluster: DecidedCluster) -> None:
    told = cluster.alter([1, 2])
    assert (told.error_code, told.isr, told.leader_id, told.leader_epoch, told.partition_epoch) == (0, [1, 2], 1, 0, 1)
    assert cluster.state().isr == (1, 2)
    told = cluster.alter([1, 2, 3])
    assert (told.isr, told.partition_epoch) == ([1, 2, 3], 2)
    assert cluster.state().leader_epoch == 0


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"leader_epoch": 1}, "NOT_CONTROLLER"),
        ({"partition_epoch": 1}, "NOT_CONTROLLER"),
        ({"leader_epoch": -1}, "FENCED_LEADER_EPOCH"),
        ({"partition_epoch": -1}, "INVALID_UPDATE_VERSION"),
        ({"sender": 2}, "INVALID_REQUEST"),
        ({"leader_recovery_state": 1}, "INVALID_REQUEST"),
        ({"index": 1}, "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_only_the_current_leader_with_the_current_epochs_may_change_the_isr(said: dict[str, int], error: str) -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), (1, 2, 3))
    del cluster.image.topics["t"].partitions[1:]
    before = cluster.state()
    index = said.pop("index", 0)
    if index:
        data = altering.RequestPartitionData(partition_index=index)
        topics = [altering.RequestTopicData(topic_id=cluster.image.topics["t"].id, partitions=[data])]
        reply = cluster.ask(AlterPartitionRequest(broker_id=1, broker_epoch=cluster.epoch(1), topics=topics), 3)
        told = reply.topics[0].partitions[0]
    else:
        told = cluster.alter([1, 2], **said)
    assert name_of(told.error_code) == error
    assert cluster.state() == before


@pytest.mark.parametrize("isr", [[2, 3], [], [1, 2, 2], [1, 4]])
def test_the_isr_contains_the_leader_and_distinct_replicas_only(cluster: DecidedCluster, isr: list[int]) -> None:
    assert name_of(cluster.alter(isr).error_code) == "INVALID_REQUEST"
    assert cluster.state().isr == (1, 2, 3)


def test_a_fenced_broker_does_not_join_the_isr(cluster: DecidedCluster) -> None:
    cluster.fence(3)
    assert name_of(cluster.alter([1, 2, 3]).error_code) == "INELIGIBLE_REPLICA"


def test_a_broker_that_restarted_since_it_caught_up_does_not_join_the_isr(cluster: DecidedCluster) -> None:
    """KIP-903: the follower caught up, restarted, and lost records that it had not synced."""
    old = cluster.epoch(3)
    cluster.fence(3)
    cluster.join(3)
    assert name_of(cluster.alter([1, 2, 3], epochs={3: old}).error_code) == "INELIGIBLE_REPLICA"
    assert not cluster.alter([1, 2, 3]).error_code


def test_an_unregistered_broker_does_not_join_the_isr(cluster: DecidedCluster) -> None:
    cluster.alter([1, 2])
    epoch = cluster.epoch(3)
    del cluster.image.brokers[3]
    assert name_of(cluster.alter([1, 2, 3], epochs={3: epoch}).error_code) == "INELIGIBLE_REPLICA"


def test_a_repeated_request_succeeds_and_changes_nothing(cluster: DecidedCluster) -> None:
    first = cluster.alter([1, 2], partition_epoch=0)
    before = cluster.offset
    assert cluster.alter([2, 1], partition_epoch=0) == first
    assert cluster.offset == before


def test_an_older_request_is_rejected(cluster: DecidedCluster) -> None:
    cluster.alter([1, 2])
    cluster.alter([1, 2, 3])
    assert name_of(cluster.alter([1, 2, 3], partition_epoch=0).error_code) == "INVALID_UPDATE_VERSION"
    assert name_of(cluster.alter([1, 3], partition_epoch=1).error_code) == "INVALID_UPDATE_VERSION"


def test_an_unchanged_isr_writes_no_record(cluster: DecidedCluster) -> None:
    before = cluster.offset
    assert cluster.alter([1, 2, 3]).partition_epoch == 0
    assert cluster.offset == before


def test_a_stale_broker_epoch_rejects_the_whole_request(cluster: DecidedCluster) -> None:
    request = AlterPartitionRequest(broker_id=1, broker_epoch=0)
    assert name_of(cluster.ask(request, 3).error_code) == "STALE_BROKER_EPOCH"
    assert name_of(cluster.ask(AlterPartitionRequest(broker_id=9), 3).error_code) == "STALE_BROKER_EPOCH"


def test_unknown_topics_are_reported(cluster: DecidedCluster) -> None:
    data = altering.RequestPartitionData(new_isr=[1])
    topics = [altering.RequestTopicData(topic_id=bytes(16), partitions=[data, data])]
    reply = cluster.ask(AlterPartitionRequest(broker_id=1, broker_epoch=cluster.epoch(1), topics=topics), 2)
    assert [name_of(one.error_code) for one in reply.topics[0].partitions] == ["UNKNOWN_TOPIC_ID"] * 2


def test_before_version_3_there_are_no_broker_epochs(cluster: DecidedCluster) -> None:
    data = altering.RequestPartitionData(new_isr=[1, 3])
    topics = [altering.RequestTopicData(topic_id=cluster.image.topics["t"].id, partitions=[data])]
    reply = cluster.ask(AlterPartitionRequest(broker_id=1, broker_epoch=cluster.epoch(1), topics=topics), 2)
    assert reply.topics[0].partitions[0].isr == [1, 3]


def test_a_reassignment_is_completed_once_all_added_replicas_are_in_sync() -> None:
    cluster = DecidedCluster((1, 2, 3, 4))
    cluster.topic((1, 2))
    assert cluster.reassign([1, 3, 4]) == "NONE"
    assert cluster.state().replicas == (1, 3, 4, 2)
    assert cluster.alter([1, 2, 3]).isr == [1, 2, 3]
    assert cluster.state().adding_replicas == (3, 4)
    told = cluster.alter([1, 2, 3, 4])
    assert (told.error_code, told.isr, told.leader_epoch) == (0, [1, 3, 4], 1)
    assert cluster.state().replicas == (1, 3, 4)
    assert (cluster.state().adding_replicas, cluster.state().removing_replicas) == ((), ())


def test_a_leader_that_a_reassignment_removes_gets_new_leader_elected() -> None:
    cluster = DecidedCluster()
    cluster.topic((1,))
    cluster.reassign([2, 3])
    assert not cluster.alter([1, 3]).error_code
    assert name_of(cluster.alter([1, 3, 2]).error_code) == "NEW_LEADER_ELECTED"
    assert (cluster.state().leader, cluster.state().isr, cluster.state().replicas) == (2, (3, 2), (2, 3))


def test_an_invalid_partition_does_not_affect_the_others() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2), (2, 1), (1, 3))
    applied([PartitionChange(cluster.image.topics["t"].id, 2, isr=(1,))], cluster.image)
    parts = [
        altering.RequestPartitionData(partition_index=index, new_isr=[1], partition_epoch=epoch)
        for index, epoch in ((0, 0), (1, 0), (2, 0))
    ]
    topics = [altering.RequestTopicData(topic_id=cluster.image.topics["t"].id, partitions=parts)]
    reply = cluster.ask(AlterPartitionRequest(broker_id=1, broker_epoch=cluster.epoch(1), topics=topics), 2)
    errors = [name_of(one.error_code) for one in reply.topics[0].partitions]
    assert errors == ["NONE", "INVALID_REQUEST", "NONE"], "the last one is what the last change brought about"
