"""Voters that come and go while the quorum runs (KIP-853), with memory disks and network."""

from random import Random
from typing import Any

import pytest
import trio
from support.quorum import Controllers, create, register, run

from minikafka.controller.metadata.cluster_ids import check_alone
from minikafka.controller.raft.voter_set import ReplicaKey, Voter
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from minikafka.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from minikafka.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from minikafka.storage.directories.directory_identity import WrongDirectory
from minikafka.storage.disks.memory_disk import MemoryDisk


def add(voter: Voter, *, ack_when_committed: bool = True) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=5000,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=[Listener(name=one.name, host=one.host, port=one.port) for one in voter.endpoints],
        ack_when_committed=ack_when_committed,
    )


def remove(key: ReplicaKey) -> RemoveRaftVoterRequest:
    return RemoveRaftVoterRequest(cluster_id=None, voter_id=key.id, voter_directory_id=key.directory_id)


async def accepted(cluster: Controllers, node_id: int, request: Any, version: int) -> None:
    """Send it through a node until it is accepted: a new voter must have caught up first."""
    while True:
        response = await cluster[node_id].handle(request, version)
        if not response.error_code:
            return
        assert response.error_code == ErrorCode.REQUEST_TIMED_OUT, response
        await trio.sleep(0.1)


async def until_all_know(cluster: Controllers, *ids: int) -> None:
    """Wait until all nodes have these voters in their logs, and agree."""
    with trio.fail_after(120):  # of simulated time
        while any(one.controller.membership.voter_set.ids != ids for one in cluster.running.values()):
            await trio.sleep(0.05)
        await cluster.agree()


def test_a_node_formatted_alone_becomes_a_quorum_of_three() -> None:
    async def scenario(cluster: Controllers) -> None:
        cluster.format(1, voters=True)
        cluster.format(2, 3)
        await cluster.start(1, 2, 3)
        leader = await cluster.leader()
        assert (leader.node_id, leader.controller.membership.kraft_version) == (1, 1)
        await accepted(cluster, 2, add(cluster.voter(2)), 1)
        await accepted(cluster, 3, add(cluster.voter(3)), 1)
        await until_all_know(cluster, 1, 2, 3)
        await cluster.kill(1)
        leader = await cluster.leader()
        await register(leader.controller, leader.node_id)
        cluster.stay_alive(leader.node_id)
        assert await create(leader.controller, "flights") == [0]
        described = await cluster[2].describe_quorum()
        assert [(one.node_id, one.is_voter, one.directory_id) for one in described.replicas] == [
            (node_id, True, cluster.voter(node_id).key.directory_id) for node_id in (1, 2, 3)
        ]
        assert described.kraft_version == 1
        assert described.voters.keys == tuple(cluster.voter(node_id).key for node_id in (1, 2, 3))

    run(scenario, voters=1, dynamic=True)


def test_a_leader_that_removes_itself_hands_over_and_follows() -> None:
    async def scenario(cluster: Controllers) -> None:
        cluster.format(1, 2, 3, voters=True)
        await cluster.start(1, 2, 3)
        first = (await cluster.leader()).node_id
        response = await cluster[first].handle(remove(cluster.voter(first).key), 0)
        assert response.error_code == 0
        others = tuple(node_id for node_id in (1, 2, 3) if node_id != first)
        assert (await cluster.leader(among=others)).node_id in others
        await until_all_know(cluster, *others)
        assert cluster[first].leader_id in others

    run(scenario, dynamic=True)


def test_a_replaced_disk_is_another_voter() -> None:
    async def scenario(cluster: Controllers) -> None:
        cluster.format(1, 2, 3, voters=True)
        await cluster.start(1, 2, 3)
        leader = (await cluster.leader()).node_id
        lost = leader % 3 + 1
        await cluster.kill(lost)
        cluster.format(lost, number=1)
        await cluster.start(lost)
        new = cluster.voter(lost, 1)
        await cluster.agree()
        response = await cluster[leader].handle(add(new), 1)
        assert response.error_code == ErrorCode.DUPLICATE_VOTER
        response = await cluster[leader].handle(remove(new.key), 0)
        assert response.error_code == ErrorCode.VOTER_NOT_FOUND
        described = await cluster[leader].describe_quorum()
        assert (lost, False, new.key.directory_id) in {
            (one.node_id, one.is_voter, one.directory_id) for one in described.replicas
        }
        await accepted(cluster, leader, remove(cluster.voter(lost).key), 0)
        await accepted(cluster, leader, add(new), 1)
        await until_all_know(cluster, 1, 2, 3)
        assert cluster[leader].membership.voter_set.is_voter(new.key)

    run(scenario, dynamic=True)


def test_controllers_join_by_themselves_where_the_settings_say_so() -> None:
    async def scenario(cluster: Controllers) -> None:
        cluster.format(1, voters=True)
        cluster.format(2, 3)
        await cluster.start(1, 2, 3)
        await until_all_know(cluster, 1, 2, 3)
        await cluster.kill(3)
        cluster.format(3, number=1)
        await cluster.start(3)
        while not cluster[1].membership.voter_set.is_voter(cluster.voter(3, 1).key):
            await trio.sleep(0.1)

    run(scenario, voters=1, dynamic=True, given={"controller.quorum.auto.join.enable": "true"})


def test_voters_that_return_at_other_addresses_are_found() -> None:
    async def scenario(cluster: Controllers) -> None:
        cluster.format(1, 2, 3, voters=True)
        await cluster.start(1, 2, 3)
        leader = (await cluster.leader()).node_id
        moved = leader % 3 + 1
        await cluster.kill(moved)
        cluster.ports[moved] = 9099
        await cluster.start(moved)
        while cluster[leader].membership.voter_set.get(moved) != cluster.voter(moved):
            await trio.sleep(0.1)
        await cluster.agree()
        assert cluster[6 - leader - moved].voters[moved] == (f"node-{moved}", 9099)

    run(scenario, dynamic=True)


def test_the_voters_survive_a_restart_of_all_nodes_and_a_snapshot() -> None:
    async def scenario(cluster: Controllers) -> None:
        cluster.format(1, voters=True)
        cluster.format(2, 3)
        await cluster.start(1, 2)
        await cluster.leader()
        await register(cluster[1], 1)
        cluster.stay_alive(1)
        await accepted(cluster, 1, add(cluster.voter(2)), 1)
        for number in range(30):
            assert await create(cluster[1], f"topic-{number}") == [0]
        await cluster.agree()
        assert cluster[1].stored.latest_snapshot() is not None
        await cluster.start(3)
        await until_all_know(cluster, 1, 2)
        await cluster.kill(1, 2, 3)
        await cluster.start(1, 2, 3)
        await until_all_know(cluster, 1, 2)
        state = cluster.disk(1).read_bytes("/data/__cluster_metadata-0/quorum-state")
        assert b'"data_version":1' in state

    run(scenario, voters=1, dynamic=True, given={"metadata.log.max.record.bytes.between.snapshots": "2000"})


def test_a_static_quorum_is_upgraded_and_stays_what_it_was() -> None:
    def upgrade(level: int, **changes: Any) -> UpdateFeaturesRequest:
        wanted = FeatureUpdateKey(feature="kraft.version", max_version_level=level, upgrade_type=1)
        return UpdateFeaturesRequest(feature_updates=[wanted], **changes)

    async def scenario(cluster: Controllers) -> None:
        cluster.format(1, 2, 3)
        await cluster.start(1, 2, 3)
        leader = (await cluster.leader()).controller
        assert (await leader.handle(add(cluster.voter(4)), 1)).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await leader.handle(upgrade(1, validate_only=True), 1)).error_code == 0
        assert leader.membership.kraft_version == 0
        assert (await leader.handle(upgrade(2), 1)).error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert (await leader.handle(upgrade(1), 1)).error_code == 0
        await until_all_know(cluster, 1, 2, 3)
        assert all(one.controller.membership.kraft_version == 1 for one in cluster.running.values())
        assert leader.membership.voter_set.keys == tuple(cluster.voter(node_id).key for node_id in (1, 2, 3))
        assert (await leader.handle(upgrade(0), 1)).error_code == ErrorCode.INVALID_UPDATE_VERSION
        await cluster.kill(1, 2, 3)
        await cluster.start(1, 2, 3)
        await accepted(cluster, 1, remove(cluster.voter(3).key), 0)
        await until_all_know(cluster, 1, 2)

    run(scenario)


def test_a_quorum_with_a_voter_without_a_directory_id_is_not_upgraded() -> None:
    async def scenario(cluster: Controllers) -> None:
        cluster.format(1, 2)
        cluster.disks[3] = MemoryDisk(Random(3))
        await cluster.start(1, 2, 3)
        leader = (await cluster.leader()).controller
        wanted = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=1)
        response = await leader.handle(UpdateFeaturesRequest(feature_updates=[wanted]), 1)
        assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "node 3" in response.error_message
        assert leader.membership.kraft_version == 0

    run(scenario)


def test_a_voter_that_cannot_be_reached_or_lags_is_not_added() -> None:
    async def scenario(cluster: Controllers) -> None:
        cluster.format(1, voters=True)
        await cluster.start(1)
        await cluster.leader()
        response = await cluster[1].handle(add(cluster.voter(2)), 1)
        assert (response.error_code, response.error_message) == (
            ErrorCode.REQUEST_TIMED_OUT,
            f"New voter {cluster.voter(2).key} is not ready to receive requests",
        )
        cluster.format(2)
        await cluster.start(2)
        await cluster.agree()
        other = Voter(ReplicaKey(2, bytes([0x41] * 16)), cluster.voter(2).endpoints)
        response = await cluster[1].handle(add(other), 1)
        assert (response.error_code, response.error_message) == (
            ErrorCode.REQUEST_TIMED_OUT,
            f"Aborted add voter operation for {other.key} since it is lagging behind",
        )

    run(scenario, voters=1, dynamic=True)


def test_a_node_that_is_the_whole_cluster_refuses_the_directory_of_a_dynamic_quorum() -> None:
    async def scenario(cluster: Controllers) -> None:
        cluster.format(1, voters=True)
        cluster.format(2)
        with pytest.raises(WrongDirectory, match=r"bootstrap\.servers"):
            check_alone(cluster.disk(1), "/data")
        check_alone(cluster.disk(2), "/data")
        await cluster.start(1, 2)
        await accepted(cluster, 1, add(cluster.voter(2)), 1)
        await cluster.kill(1)
        await trio.sleep(10)
        await cluster.start(1)
        await cluster.leader()
        with pytest.raises(WrongDirectory, match=r"kraft\.version 1"):
            check_alone(cluster.disk(2), "/data")

    run(scenario, voters=1, dynamic=True)


def test_a_node_that_is_the_whole_cluster_refuses_the_directory_of_one_of_several() -> None:
    """It would acknowledge what the others know nothing of."""

    async def scenario(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3)
        await cluster.leader()
        for node_id in (1, 2, 3):
            with pytest.raises(WrongDirectory, match=r"several nodes \(1, 2, 3\).*server\.properties"):
                check_alone(cluster.disk(node_id), "/data")

    run(scenario)


@pytest.mark.parametrize(
    "state",
    [
        b"{",
        b'{"data_version":7}',
        b'{"leaderId":1,"leaderEpoch":5,"votedId":1,"currentVoters":[{"id":1}],"data_version":0}',
    ],
)
def test_a_node_that_is_the_whole_cluster_refuses_a_damaged_election_state(state: bytes) -> None:
    disk = MemoryDisk()
    disk.make_directory("/data")
    disk.make_directory("/data/__cluster_metadata-0")
    disk.write_atomically("/data/__cluster_metadata-0/quorum-state", state)
    with pytest.raises(WrongDirectory, match=r"-0/quorum-state: .*\. If this node is the only voter, delete the file"):
        check_alone(disk, "/data")
