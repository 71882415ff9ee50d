"""Which elections count as unclean: not those at the end of a reassignment, as in Kafka."""

from __future__ import annotations

from itertools import combinations

import pytest
import trio
from support.decided_cluster import DecidedCluster

from minikafka.broker.metrics.elections import ElectionCounter
from minikafka.controller.metadata.partition_changes import elects_cleanly
from minikafka.controller.metadata.records import PartitionChange

NODES = (1, 2, 3)
SETS = [found for size in (1, 2, 3) for found in combinations(NODES, size)]


def moving_to(target: tuple[int, ...], replicas: tuple[int, ...], isr: tuple[int, ...]) -> DecidedCluster:
    cluster = DecidedCluster(NODES)
    cluster.topic(replicas, isr=isr, unclean_leader_election_enable="true")
    assert cluster.reassign(target) == "NONE"
    return cluster


@pytest.mark.parametrize("target", SETS)
@pytest.mark.parametrize("replicas", SETS)
def test_a_leader_that_joins_the_isr_as_its_reassignment_completes_is_elected_cleanly(
    replicas: tuple[int, ...], target: tuple[int, ...]
) -> None:
    """Whatever replicas were in sync before."""
    for isr in (replicas[:size] for size in range(1, len(replicas) + 1)):
        cluster = moving_to(target, replicas, isr)
        before = cluster.state()
        if before.adding_replicas or before.removing_replicas:
            cluster.alter(before.replicas)
        after = cluster.state()
        assert (after.replicas, after.adding_replicas, after.removing_replicas) == (target, (), ())
        assert elects_cleanly(before, after)


@pytest.mark.parametrize("target", [(2,), (3,), (2, 3), (1, 2, 3)])
def test_an_unclean_election_in_the_middle_of_a_reassignment_is_unclean(target: tuple[int, ...]) -> None:
    cluster = moving_to(target, (1, 2), (1,))
    before = cluster.state()
    cluster.fence(1)
    after = cluster.state()
    assert after.leader in (2, 3)
    assert not elects_cleanly(before, after)


@pytest.mark.parametrize("is_done", [True, False])
def test_the_metric_counts_the_end_of_a_reassignment_as_clean(is_done: bool) -> None:
    cluster = moving_to((2,), (1,), (1,))
    counter = ElectionCounter(cluster.image, lambda: True)
    done = {"replicas": (2,), "adding_replicas": (), "removing_replicas": ()} if is_done else {}
    change = PartitionChange(cluster.image.topics["t"].id, 0, isr=(2,), leader=2, **done)
    trio.run(counter.applied, [change])
    counts = [value for family in counter.collector()() if family is not None for _, value in family.samples]
    assert counts == [1, 0, 0 if is_done else 1], "all, of eligible replicas, unclean"
