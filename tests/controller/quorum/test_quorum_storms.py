"""A quorum with its real driver under random power cuts, network partitions and slow disks: no acknowledged loss."""

from random import Random

import pytest
import trio
from support.controllers import make_slow
from support.quorum import Controllers, run

from minikafka.controller.metadata.snapshot_encoding import records_of
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)

STEPS = 25
VOTERS = (1, 2, 3)


async def run_with_faults(cluster: Controllers, random: Random) -> None:
    """Inject random faults, then check that all nodes recover and agree."""
    await cluster.start(*VOTERS)
    acknowledged: list[str] = []
    async with trio.open_nursery() as nursery:
        for step in range(STEPS):
            await _inject_fault(cluster, random)
            node_id = random.choice(sorted(cluster.running))
            nursery.start_soon(_set_quota, cluster, node_id, f"user-{step}", acknowledged)
            await trio.sleep(random.choice((0.01, 0.3, 2.0)))
    cluster.network.heal()
    for disk in cluster.disks.values():
        make_slow(disk, 0)
    await cluster.start(*(node_id for node_id in VOTERS if node_id not in cluster.running))
    with trio.fail_after(30):
        await cluster.leader()
        await cluster.agree()
    assert len(acknowledged) >= STEPS // 6, "most of the time there is a majority"
    assert {(("user", name),) for name in acknowledged} <= set(cluster[1].image.quotas)
    assert len({tuple(records_of(cluster[node_id].image)) for node_id in VOTERS}) == 1
    assert not [one.failure for one in cluster.running.values() if one.failure]


async def _inject_fault(cluster: Controllers, random: Random) -> None:
    victim = random.choice(VOTERS)
    match random.randrange(7):
        case 0 if len(cluster.running) > 1 and victim in cluster.running:
            await cluster.kill(victim)
        case 1:
            cluster.network.isolate(victim)
        case 2:
            make_slow(cluster.disks[victim], random.choice((0, 0, 0.05, 0.2)))
        case 3 | 4:
            cluster.network.heal()
        case _:
            await cluster.start(*(node_id for node_id in VOTERS if node_id not in cluster.running))


async def _set_quota(cluster: Controllers, node_id: int, name: str, acknowledged: list[str]) -> None:
    """Set a quota through a node, unless the node stops meanwhile."""
    entry = RequestEntryData(
        entity=[EntityData(entity_type="user", entity_name=name)], ops=[OpData(key="producer_byte_rate", value=1.0)]
    )
    member = cluster.running[node_id]

    async def until_it_ends() -> None:
        await member.ended.wait()
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(until_it_ends)
        try:
            response = await member.controller.handle(AlterClientQuotasRequest(entries=[entry]), 1)
            assert response.entries[0].error_code == 0
            acknowledged.append(name)
        except KafkaError:
            pass
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("seed", range(12))
def test_acknowledged_changes_survive_and_all_nodes_agree(seed: int) -> None:
    async def scenario(cluster: Controllers) -> None:
        await run_with_faults(cluster, Random(seed))

    settings = {"metadata.log.max.record.bytes.between.snapshots": "1000"} if seed % 2 else {}
    run(scenario, seed=seed * 1000, given={"request.timeout.ms": "2000", **settings})
