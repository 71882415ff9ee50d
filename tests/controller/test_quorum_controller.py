"""Clusters of controllers with memory disks and network: elections, decisions, failed nodes and networks."""

from collections.abc import Sequence
from typing import Any

import pytest
import structlog.testing
import trio
from support.controllers import make_slow
from support.quorum import Controllers, create, register, run

from minikafka.controller.metadata.acl import Acl
from minikafka.controller.metadata.records import Record, RemoveTopic, TopicRecord
from minikafka.controller.metadata.snapshot_encoding import records_of
from minikafka.controller.quorum_controller import QuorumController
from minikafka.controller.security.access import Access, Principal
from minikafka.controller.security.standard_authorizer import CLASS_NAME
from minikafka.protocol.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType
from minikafka.protocol.errors import NotControllerError, RequestTimedOutError
from minikafka.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from minikafka.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.storage.disks.checkpoint_files import META_PROPERTIES, write_properties

READ, TOPIC = AclOperation.READ, AclResourceType.TOPIC


def topics(cluster: Controllers, node_id: int) -> list[str]:
    return list(cluster[node_id].image.topics)


async def with_broker(cluster: Controllers, *node_ids: int) -> int:
    """Start nodes, register the active controller's node as a broker; returns its id."""
    await cluster.start(*node_ids)
    leader = await cluster.leader()
    await register(leader.controller, leader.node_id)
    cluster.stay_alive(leader.node_id)
    return leader.node_id


def test_three_nodes_create_a_cluster_with_the_same_image() -> None:
    async def scenario(cluster: Controllers) -> None:
        leader = await with_broker(cluster, 1, 2, 3)
        assert len({one.controller.image.cluster_id for one in cluster.running.values()} - {""}) == 1
        assert await create(cluster[leader], "flights") == [0]
        await cluster.agree()
        assert all(topics(cluster, node_id) == ["flights"] for node_id in (1, 2, 3))
        assert len({tuple(records_of(cluster[node_id].image)) for node_id in (1, 2, 3)}) == 1

    run(scenario)


def test_any_node_accepts_requests_and_has_applied_what_it_acknowledged() -> None:
    async def scenario(cluster: Controllers) -> None:
        await with_broker(cluster, 1, 2, 3)
        for node_id in (1, 2, 3):
            assert await create(cluster[node_id], f"topic-{node_id}") == [0]
            assert f"topic-{node_id}" in topics(cluster, node_id)

    run(scenario)


def test_one_controller_is_a_quorum_that_brokers_follow() -> None:
    async def scenario(cluster: Controllers) -> None:
        await with_broker(cluster, 1, 2, 3)
        assert await create(cluster[3], "flights") == [0]
        await cluster.agree()
        assert topics(cluster, 2) == ["flights"]
        described = await cluster[2].describe_quorum()
        assert [(one.node_id, one.is_voter) for one in described.replicas] == [(1, True), (2, False), (3, False)]

    run(scenario, voters=1)


def test_a_killed_active_controller_is_replaced_in_time() -> None:
    async def scenario(cluster: Controllers) -> None:
        leader = await with_broker(cluster, 1, 2, 3)
        await create(cluster[leader], "before")
        await cluster.kill(leader)
        other = next(iter(cluster.running))
        began = trio.current_time()
        await register(cluster[other], other)
        assert await create(cluster[other], "after") == [0]
        assert trio.current_time() - began < 1.5
        assert topics(cluster, other) == ["before", "after"]
        await cluster.start(leader)
        await cluster.agree()
        assert topics(cluster, leader) == ["before", "after"]

    run(scenario)


def test_acknowledged_changes_survive_a_power_cut_of_all_nodes() -> None:
    async def scenario(cluster: Controllers) -> None:
        leader = await with_broker(cluster, 1, 2, 3)
        await create(cluster[leader], "a", "b")
        before = cluster[leader].image.cluster_id
        for _ in range(3):
            await cluster.kill(1, 2, 3)
            await cluster.start(1, 2, 3)
            await cluster.leader()
            await cluster.agree()
            assert [topics(cluster, node_id) for node_id in (1, 2, 3)] == [["a", "b"]] * 3
            assert cluster[1].image.cluster_id == before

    run(scenario)


def test_a_partitioned_leader_commits_nothing_and_drops_its_decisions() -> None:
    async def scenario(cluster: Controllers) -> None:
        old = await with_broker(cluster, 1, 2, 3)
        others = tuple(node_id for node_id in (1, 2, 3) if node_id != old)
        cluster.network.isolate(old)
        with pytest.raises(NotControllerError):  # the outcome is unknown
            await create(cluster[old], "lost")
        new = await cluster.leader(others)
        await register(new.controller, new.node_id)
        assert await create(new.controller, "kept") == [0]
        assert topics(cluster, old) == []
        cluster.network.heal()
        await cluster.agree()
        assert topics(cluster, old) == ["kept"]

    run(scenario)


def test_a_request_without_a_majority_times_out() -> None:
    async def scenario(cluster: Controllers) -> None:
        leader = await with_broker(cluster, 1, 2, 3)
        await cluster.kill(*(node_id for node_id in (1, 2, 3) if node_id != leader))
        await trio.sleep(5)
        with pytest.raises(RequestTimedOutError):
            await create(cluster[leader], "never", timeout_ms=3000)

    run(scenario)


def test_many_requests_without_a_majority_are_tried_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request of a client that gives up is followed by another one: a hundred of them wait after a while."""
    attempt, attempts = QuorumController._attempt, list[object]()

    async def counted(controller: QuorumController, request: object, *more: Any) -> tuple[object, int]:
        attempts.append(request)
        return await attempt(controller, request, *more)

    async def scenario(cluster: Controllers) -> None:
        await cluster.start(1)
        monkeypatch.setattr(QuorumController, "_attempt", counted)
        with pytest.raises(RequestTimedOutError):
            await create(cluster[1], "flights", timeout_ms=60_000)
        assert 60 < len(attempts) < 180

    run(scenario)


def test_a_slow_disk_of_one_node_does_not_delay_the_others() -> None:
    async def scenario(cluster: Controllers) -> None:
        leader = await with_broker(cluster, 1, 2, 3)
        slow = next(node_id for node_id in (1, 2, 3) if node_id != leader)
        make_slow(cluster.disks[slow], 0.5)
        began = trio.current_time()
        for number in range(10):
            assert await create(cluster[leader], f"topic-{number}") == [0]
        assert trio.current_time() - began < 0.5
        assert cluster[leader].is_active
        await cluster.agree()
        assert len(topics(cluster, slow)) == 10

    run(scenario)


def test_a_node_far_behind_gets_a_snapshot_and_its_subscribers_the_difference() -> None:
    async def scenario(cluster: Controllers) -> None:
        leader = await with_broker(cluster, 1, 2, 3)
        await create(cluster[leader], "gone", "stays")
        await cluster.agree()
        away = next(node_id for node_id in (1, 2, 3) if node_id != leader)
        cluster.network.isolate(away)
        received: list[Record] = []

        async def receive(records: Sequence[Record]) -> None:
            received.extend(records)

        cluster[away].subscribe(receive)
        await cluster[leader].handle(DeleteTopicsRequest(topic_names=["gone"], timeout_ms=1000), 5)
        for number in range(40):
            await create(cluster[leader], f"topic-{number}")
        cluster.network.heal()
        await cluster.agree()
        assert cluster[away].stored.latest_snapshot() is not None
        assert tuple(records_of(cluster[away].image)) == tuple(records_of(cluster[leader].image))
        assert any(isinstance(record, RemoveTopic) for record in received)
        assert {record.name for record in received if isinstance(record, TopicRecord)} >= {"stays", "topic-39"}
        await cluster.kill(away)
        await cluster.start(away)
        await cluster.agree()
        assert tuple(records_of(cluster[away].image)) == tuple(records_of(cluster[leader].image))

    run(scenario, given={"metadata.log.max.record.bytes.between.snapshots": "2000"})


def creation_of(acl: Acl) -> AclCreation:
    return AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def only(acl: Acl) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=acl.resource_type,
        resource_name_filter=acl.resource_name,
        pattern_type_filter=acl.pattern_type,
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def test_a_node_that_restarts_alone_does_not_go_by_the_acls_of_its_snapshot() -> None:
    removed, kept = (
        Acl(TOPIC, name, PatternType.LITERAL, "User:alice", "*", READ, AclPermission.ALLOW)
        for name in ("removed", "kept")
    )

    def may_read(controller: QuorumController) -> list[str]:
        access = Access(controller.authorizer, Principal("User", "alice"), "10.0.0.1")
        return [acl.resource_name for acl in (removed, kept) if access.allows(READ, TOPIC, acl.resource_name)]

    async def scenario(cluster: Controllers) -> None:
        leader = await with_broker(cluster, 1, 2, 3)
        await cluster[leader].handle(CreateAclsRequest(creations=[creation_of(removed), creation_of(kept)]), 3)
        for number in range(20):
            await create(cluster[leader], f"topic-{number}")
        await cluster.agree()
        away = next(node_id for node_id in (1, 2, 3) if node_id != leader)
        assert may_read(cluster[away]) == ["removed", "kept"]
        await cluster.kill(away)
        await cluster[leader].handle(DeleteAclsRequest(filters=[only(removed)]), 3)
        cluster.network.isolate(away)
        await cluster.start(away)
        await trio.sleep(10)
        assert removed in cluster[away].image.acls, "of the snapshot"
        assert may_read(cluster[away]) == []
        cluster.network.heal()
        await cluster.agree()
        assert may_read(cluster[away]) == ["kept"]

    given = {"metadata.log.max.record.bytes.between.snapshots": "1000", "authorizer.class.name": CLASS_NAME}
    run(scenario, given=given)


def test_a_record_that_cannot_be_applied_stops_the_node() -> None:
    async def scenario(cluster: Controllers) -> None:
        leader = await with_broker(cluster, 1, 2, 3)
        other = next(node_id for node_id in (1, 2, 3) if node_id != leader)

        cluster[other].image.apply(TopicRecord(bytes(16), "flights"))
        await create(cluster[leader], "flights")
        await cluster.running[other].ended.wait()
        assert "topic flights exists" in cluster.running[other].failure

    run(scenario)


def test_a_node_of_another_cluster_is_refused() -> None:
    async def scenario(cluster: Controllers) -> None:
        await with_broker(cluster, 1, 2)
        disk = cluster.disk(3)
        disk.make_directory("/data")
        properties = {"node.id": "3", "version": "1", "cluster.id": "AAAAAAAAAAAAAAAAAAAAAQ"}
        write_properties(disk, f"/data/{META_PROPERTIES}", properties)
        await cluster.start(3)
        await cluster.running[3].ended.wait()
        assert "belongs to cluster" in cluster.running[3].failure
        assert cluster[1].leader_id > 0

    run(scenario)


def test_a_node_at_another_nodes_address_is_refused() -> None:
    async def scenario(cluster: Controllers) -> None:
        crossed = "1@node-2:9093,2@node-1:9093,3@node-3:9093"
        await cluster.start(1, 2)
        await cluster.leader()
        await cluster.start(3, controller_quorum_voters=crossed)
        await cluster.running[3].ended.wait()
        assert "was expected at this address, but node" in cluster.running[3].failure

    run(scenario)


def test_controllers_with_bootstrap_addresses_only_discover_each_other() -> None:
    async def scenario(cluster: Controllers) -> None:
        given = {
            "controller_quorum_voters": "",
            "controller_quorum_bootstrap_servers": "node-1:9093,node-2:9093",
        }
        await cluster.start(3, 2, 1, **given)
        leader = await cluster.leader()
        await cluster.agree()
        assert sorted(cluster[3].voters) == [1, 2]
        assert leader.node_id in (1, 2)

    run(scenario, voters=2)


@pytest.mark.parametrize("is_up", [True, False], ids=["the voter is up", "the voter is down"])
def test_a_broker_with_the_id_of_a_voter_does_not_become_the_voter(*, is_up: bool) -> None:
    """It would lead the quorum, or one of its own with the same cluster id, with an empty log."""

    async def scenario(cluster: Controllers) -> None:
        await with_broker(cluster, 1, 2, 3)
        if not is_up:
            await cluster.kill(2)
        del cluster.disks[2]
        cluster.brokers = {2}
        servers = "node-2:9093,node-1:9093,node-3:9093"
        await cluster.start(2, controller_quorum_voters="", controller_quorum_bootstrap_servers=servers)
        with trio.fail_after(10):
            await cluster.running[2].ended.wait()
        assert "a different node.id" in cluster.running[2].failure

    run(scenario)


@pytest.mark.parametrize("ids", [(1, 2), (1, 2, 3)], ids=["two servers", "three servers"])
def test_two_new_nodes_of_one_id_say_so(ids: tuple[int, ...]) -> None:
    """Of a copied configuration. Nothing but the processes tells them apart: neither has a cluster or directory id."""

    async def scenario(cluster: Controllers) -> None:
        cluster.mistaken_ids = {2: 1}
        servers = ",".join(f"node-{node_id}:9093" for node_id in ids)
        with structlog.testing.capture_logs() as logs:
            await cluster.start(*ids, controller_quorum_voters="", controller_quorum_bootstrap_servers=servers)
            await trio.sleep(10)
        said = [one["reason"] for one in logs if one["event"] == "peer handshake refused"]
        assert set(said) == {"two nodes have node.id=1: each needs a different node.id"}
        ended = [one for one in cluster.running.values() if one.ended.is_set()]
        assert bool(ended) == (len(ids) == 2)
        assert all("two nodes have node.id=1" in one.failure for one in ended)

    run(scenario)


def test_a_request_without_a_leader_waits_for_the_next_leader() -> None:
    async def scenario(cluster: Controllers) -> None:
        leader = await with_broker(cluster, 1, 2, 3)
        other = next(node_id for node_id in (1, 2, 3) if node_id != leader)
        third = 6 - leader - other
        await cluster.kill(leader, third)
        await trio.sleep(3)
        assert cluster[other].leader_id == -1
        async with trio.open_nursery() as nursery:
            nursery.start_soon(register, cluster[other], other)
            await trio.sleep(1)
            await cluster.start(third)
        assert other in cluster[other].image.live_brokers()

    run(scenario)
