"""Broker fencing: elections and ISR changes after a session timeout."""

from support.decided_cluster import DecidedCluster
from support.images import applied

from minikafka.controller.decisions import broker_fencing, leader_balancing
from minikafka.controller.decisions.broker_fencing import RECORDS_AT_ONCE
from minikafka.controller.decisions.decision import Decision
from minikafka.controller.metadata.records import BrokerChange, ConfigRecord


def test_the_first_unfenced_member_of_the_isr_is_elected() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), (1, 3, 2), (2, 1, 3))
    cluster.fence(1)
    states = cluster.image.topics["t"].partitions
    assert [(state.leader, state.leader_epoch, state.isr) for state in states] == [
        (2, 1, (2, 3)),
        (3, 1, (3, 2)),
        (2, 0, (2, 3)),
    ]
    assert [state.replicas for state in states] == [(1, 2, 3), (1, 3, 2), (2, 1, 3)]


def test_a_replica_outside_the_isr_is_not_elected() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), isr=(1, 3))
    cluster.fence(1)
    assert (cluster.state().leader, cluster.state().isr) == (3, (3,))
    cluster.fence(3)
    assert (cluster.state().leader, cluster.state().isr, cluster.state().elr) == (-1, (), (3,))


def test_a_partition_waits_for_the_last_members_of_its_isr() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), isr=(1,))
    cluster.fence(1)
    assert cluster.state().last_known_elr == (1,)
    assert not cluster.carry_out(leader_balancing.leaderless(cluster.image, cluster.context()))
    assert cluster.state().leader == -1
    cluster.join(1, previous=cluster.epoch(1))
    assert (cluster.state().leader, cluster.state().leader_epoch) == (1, 2)
    assert (cluster.state().elr, cluster.state().last_known_elr) == ((), ())


def test_with_unclean_election_enabled_a_replica_outside_the_isr_is_elected_at_once() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), isr=(1,), unclean_leader_election_enable="true")
    cluster.topic((1, 2, 3), isr=(1,), name="u")
    cluster.fence(1)
    assert (cluster.state().leader, cluster.state().isr, cluster.state().elr) == (2, (2,), ())
    assert cluster.state("u").leader == -1


def test_the_cluster_wide_config_applies_to_topics_without_their_own() -> None:
    cluster = DecidedCluster()
    applied([ConfigRecord(4, "", "unclean.leader.election.enable", "true")], cluster.image)
    cluster.topic((1, 2, 3), isr=(1,))
    cluster.topic((1, 2, 3), isr=(1,), name="u", unclean_leader_election_enable="false")
    cluster.fence(1)
    assert (cluster.state().leader, cluster.state("u").leader) == (2, -1)


def test_enabling_unclean_election_later_elects_a_leader_later() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), isr=(1,))
    cluster.fence(1)
    applied([ConfigRecord(2, "t", "unclean.leader.election.enable", "true")], cluster.image)
    assert not cluster.carry_out(leader_balancing.leaderless(cluster.image, cluster.context()))
    assert (cluster.state().leader, cluster.state().isr, cluster.state().last_known_elr) == (2, (2,), ())


def test_replicas_that_leave_an_isr_below_the_minimum_become_eligible() -> None:
    """KIP-966: no record is committed without them."""
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), min_insync_replicas="2")
    cluster.fence(1)
    assert cluster.state().elr == ()
    cluster.fence(2)
    assert (cluster.state().leader, cluster.state().isr, cluster.state().elr) == (3, (3,), (2,))
    cluster.fence(3)
    assert (cluster.state().leader, cluster.state().isr, cluster.state().elr) == (-1, (), (2, 3))
    cluster.join(2, previous=cluster.epoch(2))
    assert (cluster.state().leader, cluster.state().isr, cluster.state().elr) == (2, (2,), (3,))


def test_a_minimum_above_the_replication_factor_means_all_replicas() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2), min_insync_replicas="5")
    cluster.fence(2)
    assert cluster.state().elr == (2,)


def test_the_elr_is_cleared_once_the_isr_reaches_the_minimum() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), min_insync_replicas="2")
    cluster.fence(2)
    cluster.fence(3)
    assert cluster.state().elr == (3,)
    cluster.join(2, previous=cluster.epoch(2))
    cluster.alter([1, 2])
    assert (cluster.state().isr, cluster.state().elr) == ((1, 2), ())


def test_partitions_without_the_broker_keep_their_epochs() -> None:
    cluster = DecidedCluster()
    cluster.topic((2, 3))
    cluster.fence(1)
    assert (cluster.state().leader_epoch, cluster.state().partition_epoch) == (0, 0)


def test_fencing_a_fenced_or_unknown_broker_changes_nothing() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2))
    cluster.fence(1)
    before = cluster.offset
    cluster.fence(1)
    cluster.fence(99)
    assert cluster.offset == before


def test_a_broker_with_many_partitions_is_fenced_in_several_decisions() -> None:
    cluster = DecidedCluster()
    cluster.topic(*[(1, 2)] * 3 * RECORDS_AT_ONCE)
    cluster.sessions.forget(1)
    decision = broker_fencing.decide(cluster.image, 1, cluster.context())
    assert (len(decision.records), decision.reply) == (RECORDS_AT_ONCE, True)
    assert decision.records[0] == BrokerChange(1, cluster.epoch(1), fenced=True)
    cluster.fence(1)
    assert {state.isr for state in cluster.image.topics["t"].partitions} == {(2,)}


def test_a_broker_that_is_in_contact_again_leaves_its_remaining_isrs_unless_it_is_unfenced() -> None:
    cluster = DecidedCluster()
    cluster.topic(*[(1, 2)] * 2 * RECORDS_AT_ONCE)
    cluster.sessions.forget(1)
    more = cluster.carry_out(broker_fencing.decide(cluster.image, 1, cluster.context()))
    cluster.sessions.contact(1, cluster.epoch(1), cluster.now_ms)
    while more:
        more = cluster.carry_out(broker_fencing.decide(cluster.image, 1, cluster.context()))
    assert {state.isr for state in cluster.image.topics["t"].partitions} == {(2,)}
    cluster.carry_out(Decision([BrokerChange(1, cluster.epoch(1), fenced=False)], None))
    assert broker_fencing.decide(cluster.image, 1, cluster.context()) == Decision([], False)
