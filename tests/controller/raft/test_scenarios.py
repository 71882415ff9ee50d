"""Scenarios of whole quorums, most of them named after those of Kafka's `RaftEventSimulationTest`.

Each runs with several seeds, and the invariants of `simulation/raft_checks.py` are checked throughout.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import pytest
from simulation.raft import describe
from simulation.raft_node import Node
from simulation.raft_world import World

if TYPE_CHECKING:
    from collections.abc import Callable

seeds = pytest.mark.parametrize("seed", range(20))


def wait_for(world: World, what: Callable[[], bool], seconds: float) -> float:
    """Run until a condition holds; returns how long it took."""
    began = world.now
    while not what():
        assert world.now < began + seconds, f"not within {seconds} s: {describe(world)}"
        world.run_until(world.now + 0.01)
    return world.now - began


def a_leader(world: World) -> Node:
    """The leader, once all nodes follow it and have applied a record of its."""
    wait_for(world, lambda: world.leader is not None, 5)
    leader = world.leader
    assert leader is not None
    world.append(leader)
    wait_for(world, lambda: settled(world), 5)
    assert world.leader is leader
    return leader


def settled(world: World) -> bool:
    """Whether all running nodes follow one leader and have applied its whole log."""
    leader = world.leader
    return leader is not None and all(
        node.raft is not None and node.raft.leader_id == leader.id and node.applied == leader.log.end_offset
        for node in world.running
    )


def wait_for_another(world: World, old: Node) -> float:
    """Wait for another leader than the old one; returns how long it took."""
    return wait_for(world, lambda: world.leader not in (None, old), 5)


def epoch_of(node: Node) -> int:
    assert node.raft is not None
    return node.raft.epoch


def partition(world: World, *nodes: Node) -> None:
    inside = {node.id for node in nodes}
    world.network.cut |= {(a, b) for a in world.nodes for b in world.nodes if (a in inside) != (b in inside)}


def others(world: World, *nodes: Node) -> list[Node]:
    return [node for node in world.nodes.values() if node not in nodes]


def commits(world: World, nodes: list[Node]) -> bool:
    """Append through the leader among the nodes; whether all of them apply it."""
    leaders = [node for node in nodes if node.raft is not None and node.raft.is_leader]
    if not leaders:
        return False
    leader = max(leaders, key=epoch_of)
    world.append(leader)
    end = leader.log.end_offset
    world.run_until(world.now + 0.3)
    return all(node.applied >= end for node in nodes)


@seeds
def test_a_first_leader_is_elected(seed: int) -> None:
    world = World(seed, voters=3, observers=1)
    wait_for(world, lambda: world.leader is not None, 1.5)
    a_leader(world)


@seeds
def test_a_healthy_quorum_keeps_its_leader(seed: int) -> None:
    world = World(seed, voters=3, observers=1, sync_delay=0.005)
    leader = a_leader(world)
    epoch = epoch_of(leader)
    world.run_until(world.now + 60)
    assert [epoch_of(node) for node in world.nodes.values()] == [epoch] * 4


@seeds
def test_an_idle_quorum_sends_few_messages(seed: int) -> None:
    world = World(seed, voters=3)
    a_leader(world)
    before = world.events_count
    world.run_until(world.now + 10)
    assert world.events_count - before < 10 * 50


@seeds
def test_a_new_leader_is_elected_after_the_old_one_is_killed_and_comes_back(seed: int) -> None:
    world = World(seed, voters=3, sync_delay=0.01)
    old = a_leader(world)
    world.append(old, 3)
    world.crash(old)
    wait_for(world, lambda: commits(world, others(world, old)), 5)
    world.start(old)
    wait_for(world, lambda: settled(world), 5)


@seeds
def test_all_are_killed_and_only_a_majority_comes_back(seed: int) -> None:
    world = World(seed, voters=3, sync_delay=0.01)
    leader = a_leader(world)
    world.append(leader, 5)
    world.run_until(world.now + 0.02)
    for node in world.running:
        world.crash(node)
    back = others(world, leader)
    for node in back:
        world.start(node)
    wait_for(world, lambda: commits(world, back), 5)


@seeds
def test_a_partitioned_leader_commits_nothing_and_resigns(seed: int) -> None:
    world = World(seed, voters=3)
    old = a_leader(world)
    before = old.high_watermark
    partition(world, old)
    world.append(old, 3)
    wait_for(world, lambda: old.raft is not None and not old.raft.is_leader, world.settings.fetch_timeout + 0.02)
    wait_for(world, lambda: commits(world, others(world, old)), 5)
    assert old.high_watermark == before
    world.network.cut.clear()
    wait_for(world, lambda: settled(world), 5)


@seeds
def test_a_node_partitioned_for_an_hour_returns_without_an_election(seed: int) -> None:
    """KIP-996."""
    world = World(seed, voters=3)
    leader = a_leader(world)
    epoch = epoch_of(leader)
    away = others(world, leader)[0]
    partition(world, away)
    world.run_until(world.now + 60)
    world.jump(away, 3600)
    world.run_until(world.now + 60)
    world.network.cut.clear()
    wait_for(world, lambda: settled(world), 5)
    assert (world.leader, epoch_of(leader), epoch_of(away)) == (leader, epoch, epoch)


@seeds
def test_a_follower_partitioned_from_its_leader_alone_does_not_depose_it(seed: int) -> None:
    world = World(seed, voters=3)
    leader = a_leader(world)
    epoch = epoch_of(leader)
    deaf = others(world, leader)[0]
    world.network.cut.add((leader.id, deaf.id))
    world.run_until(world.now + 20)
    assert (world.leader, epoch_of(leader)) == (leader, epoch)
    assert commits(world, others(world, deaf))
    world.network.cut.clear()
    wait_for(world, lambda: settled(world), 5)


@seeds
def test_the_reachable_majority_goes_on(seed: int) -> None:
    world = World(seed, voters=5)
    leader = a_leader(world)
    minority = [leader, others(world, leader)[0]]
    majority = others(world, *minority)
    partition(world, *minority)
    wait_for(world, lambda: commits(world, majority), 5)
    assert max(node.high_watermark for node in minority) < min(node.high_watermark for node in majority)
    world.network.cut.clear()
    wait_for(world, lambda: settled(world), 5)


@seeds
def test_successive_leaders_are_partitioned(seed: int) -> None:
    world = World(seed, voters=5)
    for _ in range(4):
        leader = a_leader(world)
        world.network.cut.clear()
        partition(world, leader)
        wait_for(world, lambda gone=leader: commits(world, others(world, gone)), 8)
        world.network.cut.clear()
        wait_for(world, lambda: settled(world), 8)


@seeds
def test_a_leader_that_resigns_is_replaced_at_once(seed: int) -> None:
    world = World(seed, voters=3)
    old = a_leader(world)
    world.resign(old)
    wait_for(world, lambda: world.leader not in (None, old), 0.5)


@seeds
def test_a_node_behind_the_log_start_gets_the_snapshot(seed: int) -> None:
    world = World(seed, voters=3, observers=1)
    leader = a_leader(world)
    away = [world.nodes[4], others(world, leader)[0]]
    for node in away:
        world.crash(node)
    world.append(leader, 30)
    wait_for(world, lambda: settled(world), 5)
    for node in world.running:
        world.snapshot(node)
    for node in away:
        world.start(node)
    wait_for(world, lambda: settled(world), 5)
    assert all(node.log.start_offset > 0 for node in away)
    assert world.checker.sometimes["snapshot installed"] >= 2


@seeds
def test_two_voters_elect_and_recover(seed: int) -> None:
    world = World(seed, voters=2)
    leader = a_leader(world)
    follower = others(world, leader)[0]
    world.crash(follower)
    wait_for(world, lambda: world.leader is None, 2)
    world.start(follower)
    wait_for(world, lambda: settled(world), 5)


def test_a_killed_leader_is_replaced_at_once() -> None:
    """The connections of a killed process break, which every other node notices."""
    took: list[float] = []
    for seed in range(100):
        world = World(seed, voters=3, sync_delay=0.002)
        leader = a_leader(world)
        world.crash(leader)
        world.break_connections(leader, noticed=1.0)
        took.append(wait_for_another(world, leader))
    assert median(took) < 0.1
    assert max(took) < 0.5


def test_a_paused_leader_is_replaced_within_two_fetch_timeouts() -> None:
    """SIGSTOP: connections stay open, and no message arrives."""
    took: list[float] = []
    for seed in range(100):
        world = World(seed, voters=3, sync_delay=0.002)
        leader = a_leader(world)
        world.run_until(world.now + world.random.random())
        world.pause(leader, 60)
        took.append(wait_for_another(world, leader))
    assert median(took) < 1.0
    assert max(took) < 1.6
