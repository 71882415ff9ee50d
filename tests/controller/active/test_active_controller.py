"""The active controller: broker sessions, fencing, waiting for brokers to apply a new topic, the end of tokens."""

from itertools import pairwise

import trio
from support.quorum import Controllers, create, heartbeat, register, run

from minikafka.controller.metadata.image import Image
from minikafka.controller.security.access import Access, Principal
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest


def alive(image: Image) -> list[int]:
    return image.live_brokers()


async def three_brokers(cluster: Controllers) -> int:
    """Start three nodes with registered brokers in contact; returns the active controller's id."""
    await cluster.start(1, 2, 3)
    leader = await cluster.leader()
    for node_id in (1, 2, 3):
        await register(cluster[node_id], node_id)
        cluster.stay_alive(node_id)
    await cluster.agree()
    return leader.node_id


def test_a_killed_broker_is_fenced_at_once() -> None:
    async def scenario(cluster: Controllers) -> None:
        leader = await three_brokers(cluster)
        other = next(node_id for node_id in (1, 2, 3) if node_id != leader)
        began = trio.current_time()
        await cluster.kill(other)
        while other in alive(cluster[leader].image):
            await trio.sleep(0.01)
        assert 0.2 < trio.current_time() - began < 0.5

    run(scenario)


def test_a_partitioned_broker_is_fenced_after_the_session_timeout() -> None:
    async def scenario(cluster: Controllers) -> None:
        leader = await three_brokers(cluster)
        other = next(node_id for node_id in (1, 2, 3) if node_id != leader)
        began = trio.current_time()
        cluster.network.isolate(other)
        while other in alive(cluster[leader].image):
            await trio.sleep(0.01)
        assert 0.7 < trio.current_time() - began < 1.5
        cluster.network.heal()
        await cluster.agree()
        assert other not in alive(cluster[other].image)
        await heartbeat(cluster[other], other, cluster[other].broker_epoch)
        assert other in alive(cluster[other].image)

    run(scenario)


def test_a_new_active_controller_starts_full_sessions_except_for_lost_connections() -> None:
    async def scenario(cluster: Controllers) -> None:
        old = await three_brokers(cluster)
        began = trio.current_time()
        await cluster.kill(old)
        new = await cluster.leader()
        while old in alive(new.controller.image):
            await trio.sleep(0.01)
        assert trio.current_time() - began < 1.0
        await trio.sleep(5)
        assert alive(new.controller.image) == sorted({1, 2, 3} - {old})

    run(scenario)


def test_create_topics_waits_until_all_live_brokers_have_applied_it() -> None:
    async def scenario(cluster: Controllers) -> None:
        leader = await three_brokers(cluster)
        for number in range(5):
            assert await create(cluster[leader], f"topic-{number}") == [0]
            assert all(f"topic-{number}" in cluster[node_id].image.topics for node_id in (1, 2, 3))
        other = next(node_id for node_id in (1, 2, 3) if node_id != leader)
        cluster.network.isolate(other)
        began = trio.current_time()
        assert await create(cluster[leader], "without-one") == [0]
        assert 0.5 < trio.current_time() - began < 1.5  # until it was fenced
        assert other not in alive(cluster[leader].image)

    run(scenario)


def test_waiting_for_brokers_is_bounded_by_the_request_timeout() -> None:
    async def scenario(cluster: Controllers) -> None:
        leader = await three_brokers(cluster)
        cluster.network.isolate(next(node_id for node_id in (1, 2, 3) if node_id != leader))
        began = trio.current_time()
        assert await create(cluster[leader], "soon", timeout_ms=200) == [0]
        assert trio.current_time() - began < 0.3

    run(scenario)


def test_heartbeats_count_before_they_are_decided() -> None:
    """KAFKA-15019: the queue is slower than many sessions, and no broker is fenced."""

    async def scenario(cluster: Controllers) -> None:
        leader = await three_brokers(cluster)
        others = [node_id for node_id in (1, 2, 3) if node_id != leader]
        for disk in cluster.disks.values():
            disk.pause = lambda: trio.sleep(0.3)
        for number in range(10):
            await create(cluster[others[0]], f"topic-{number}")
        assert alive(cluster[leader].image) == [1, 2, 3]
        assert cluster[leader].is_active

    run(scenario)


def test_an_unregistered_broker_gets_stale_broker_epoch() -> None:
    async def scenario(cluster: Controllers) -> None:
        leader = await three_brokers(cluster)
        other = next(node_id for node_id in (1, 2, 3) if node_id != leader)
        epoch = cluster[other].broker_epoch
        response = await cluster[leader].handle(UnregisterBrokerRequest(broker_id=other), 0)
        assert response.error_code == ErrorCode.NONE
        answer = await heartbeat(cluster[other], other, epoch)
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
        assert await register(cluster[other], other) > epoch

    run(scenario)


def test_producer_ids_are_never_allocated_twice_by_any_node() -> None:
    async def scenario(cluster: Controllers) -> None:
        leader = await three_brokers(cluster)
        blocks = [await cluster[node_id].allocate_producer_ids() for node_id in (1, 2, 3, 1)]
        await cluster.kill(leader)
        other = next(iter(cluster.running))
        blocks.append(await cluster[other].allocate_producer_ids())
        assert len({block.first for block in blocks}) == 5
        assert all(second.first >= first.first + first.size for first, second in pairwise(blocks))

    run(scenario)


def test_tokens_that_have_ended_are_removed_also_by_the_next_active_controller() -> None:
    alice = Access(None, Principal("User", "alice"), "10.0.0.1", "app")

    async def scenario(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3)
        leader = await cluster.leader()
        other = next(node_id for node_id in (1, 2, 3) if node_id != leader.node_id)
        tokens = []
        for lifetime_s in (8, 18, 1000):
            request = CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=lifetime_s * 1000)
            made = await cluster[other].handle(request, 3, alice)
            assert (made.principal_name, made.token_requester_principal_name) == ("alice", "alice")
            tokens.append(made.token_id)
        assert list(cluster[other].image.tokens) == tokens
        await trio.sleep(7)
        assert list(cluster[other].image.tokens) == tokens
        await trio.sleep(5)
        assert list(cluster[other].image.tokens) == tokens[1:]
        await cluster.kill(leader.node_id)
        await trio.sleep(14)
        assert list((await cluster.leader()).controller.image.tokens) == tokens[2:]

    settings = {"delegation.token.secret.key": "secret", "delegation.token.expiry.check.interval.ms": "5000"}
    run(scenario, given=settings)
