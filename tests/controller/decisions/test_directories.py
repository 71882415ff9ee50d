"""Data directories in decisions (KIP-858): registration, failures, and where the replicas are."""

from support.decided_cluster import DecidedCluster
from support.images import name_of, topic_id

from minikafka.controller.metadata.image import moved_directories
from minikafka.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.storage.directories.directory_ids import LOST, MIGRATING, UNASSIGNED, is_online

A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))


class Cluster(DecidedCluster):
    """Three brokers, each with two directories."""

    def __init__(self) -> None:
        super().__init__(())
        for node_id in (1, 2, 3):
            self.register(node_id, log_dirs=[A, B])
            self.heartbeat(node_id)

    def fail(self, node_id: int, *directories: bytes) -> int:
        """A heartbeat with failed directories; the number of records."""
        request = BrokerHeartbeatRequest(
            broker_id=node_id, broker_epoch=self.epoch(node_id), offline_log_dirs=list(directories)
        )
        before = self.offset
        assert not self.ask(request).error_code
        return self.offset - before

    def assign(self, node_id: int, directory: bytes, *, index: int = 0, epoch: int | None = None) -> str:
        """AssignReplicasToDirs of one replica; the name of the error."""
        topics = [RequestTopicData(topic_id=topic_id("t"), partitions=[RequestPartitionData(partition_index=index)])]
        request = AssignReplicasToDirsRequest(
            broker_id=node_id,
            broker_epoch=self.epoch(node_id) if epoch is None else epoch,
            directories=[RequestDirectoryData(id=directory, topics=topics)],
        )
        reply = self.ask(request)
        if reply.error_code:
            return name_of(reply.error_code)
        return name_of(reply.directories[0].topics[0].partitions[0].error_code)


def test_a_failed_directory_moves_the_leaders_in_it_and_no_others() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3), (1, 2, 3))
    assert [cluster.assign(1, directory, index=index) for index, directory in enumerate((A, B))] == ["NONE", "NONE"]
    assert cluster.fail(1, A) == 2
    assert cluster.image.brokers[1].log_dirs == (B,)
    assert (cluster.state().leader, cluster.state().isr) == (2, (2, 3))
    assert (cluster.state(index=1).leader, cluster.state(index=1).isr) == (1, (1, 2, 3))
    assert cluster.fail(1, A) == 0, "it is not registered any more"


def test_a_partition_without_another_replica_has_no_leader_until_its_directory_is_back() -> None:
    cluster = Cluster()
    cluster.topic((1,))
    cluster.assign(1, A)
    cluster.fail(1, A, B)
    assert cluster.state().leader == -1
    cluster.fence(1)
    cluster.register(1, log_dirs=[B])
    cluster.heartbeat(1)
    assert cluster.state().leader == -1, "the broker is back, its directory is not"
    cluster.fence(1)
    cluster.register(1, log_dirs=[A, B])
    cluster.heartbeat(1)
    assert cluster.state().leader == 1


def test_a_replica_in_a_failed_directory_enters_no_isr_and_leads_nothing() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3))
    cluster.assign(1, A)
    cluster.fail(1, A)
    assert name_of(cluster.alter([2, 3, 1]).error_code) == "INELIGIBLE_REPLICA"
    assert cluster.elect() == "PREFERRED_LEADER_NOT_AVAILABLE"
    assert cluster.assign(1, B) == "NONE"
    assert name_of(cluster.alter([2, 3, 1]).error_code) == "NONE"
    assert cluster.elect() == "NONE"


def test_a_lost_replica_leaves_the_isr() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3))
    assert cluster.assign(1, LOST) == "NONE"
    assert (cluster.state().leader, cluster.state().isr) == (2, (2, 3))
    assert cluster.state().directories == (LOST, MIGRATING, MIGRATING)


def test_assignments_are_refused_for_what_does_not_exist() -> None:
    cluster = Cluster()
    cluster.topic((1, 2))
    assert cluster.assign(1, A, index=1) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert cluster.assign(3, A) == "NOT_LEADER_OR_FOLLOWER"
    assert cluster.assign(1, A, epoch=0) == "STALE_BROKER_EPOCH"


def test_invalid_directories_are_not_registered() -> None:
    cluster = Cluster()
    for log_dirs in ([A, A], [LOST], [UNASSIGNED, A]):
        assert name_of(cluster.register(4, log_dirs=log_dirs).error_code) == "INVALID_REGISTRATION"


def test_the_last_directory_of_a_broker_may_fail_too() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3))
    cluster.assign(1, A)
    cluster.fail(1, A, B)
    assert not cluster.image.has_online(1, A)
    assert cluster.state().isr == (2, 3)


def test_reassigned_replicas_keep_their_directories_and_new_ones_get_the_only_one_of_their_broker() -> None:
    cluster = Cluster()
    cluster.register(4, log_dirs=[C])
    cluster.heartbeat(4)
    cluster.topic((1, 2))
    cluster.assign(1, B)
    assert cluster.reassign([4, 1]) == "NONE"
    state = cluster.state()
    assert {node: state.directory(node) for node in state.replicas}[4] == C
    assert state.directory(1) == B
    assert len(state.directories) == len(state.replicas)


def test_directories_follow_their_replicas() -> None:
    cluster = Cluster()
    cluster.topic((1, 2, 3))
    for node_id, directory in ((1, A), (2, B), (3, A)):
        cluster.assign(node_id, directory)
    assert moved_directories(cluster.state(), (3, 4, 2), (C, C, C)) == (A, C, B)


def test_which_directories_are_online() -> None:
    assert [is_online(one, (A,)) for one in (A, B, LOST, UNASSIGNED, MIGRATING)] == [True, False, False, True, True]
    assert [is_online(one, ()) for one in (A, LOST)] == [True, False], "the broker has reported none"
