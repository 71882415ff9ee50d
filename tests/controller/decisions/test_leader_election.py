"""ElectLeaders, and the elections that the active controller starts on a timer."""

import pytest
from support.decided_cluster import DecidedCluster
from support.images import name_of

from minikafka.controller.decisions import leader_balancing
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions


def test_the_preferred_leader_is_elected_on_request() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2))
    cluster.fence(1)
    assert cluster.elect() == "PREFERRED_LEADER_NOT_AVAILABLE"
    cluster.join(1, previous=cluster.epoch(1))
    assert cluster.elect() == "PREFERRED_LEADER_NOT_AVAILABLE", "it is not in sync yet"
    cluster.alter([2, 1])
    assert cluster.elect() == "NONE"
    assert (cluster.state().leader, cluster.state().leader_epoch, cluster.state().isr) == (1, 2, (2, 1))
    assert cluster.elect() == "ELECTION_NOT_NEEDED"


def test_an_isr_member_is_elected_before_an_eligible_preferred_replica() -> None:
    """The elected eligible replica would be the only ISR member, and the other would have to catch up."""
    cluster = DecidedCluster()
    cluster.topic((1, 2), min_insync_replicas="2")
    cluster.fence(1)
    cluster.join(1, previous=cluster.epoch(1))
    assert cluster.state().elr == (1,)
    assert cluster.elect() == "PREFERRED_LEADER_NOT_AVAILABLE"
    assert (cluster.state().leader, cluster.state().isr) == (2, (2,))


def test_an_unclean_election_elects_an_isr_member_if_possible() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), isr=(3,))
    cluster.fence(3)
    cluster.join(3, previous=cluster.epoch(3))
    assert cluster.elect(unclean=True) == "ELECTION_NOT_NEEDED"
    assert cluster.state().leader == 3


def test_an_unclean_election_sets_the_isr_to_the_first_unfenced_replica() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), isr=(3,))
    cluster.fence(3)
    cluster.fence(1)
    assert cluster.elect(unclean=True) == "NONE"
    state = cluster.state()
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (2, (2,), (), ())


def test_no_leader_is_elected_if_all_replicas_are_fenced() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2))
    cluster.fence(1)
    cluster.fence(2)
    assert cluster.elect(unclean=True) == "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    assert cluster.elect() == "PREFERRED_LEADER_NOT_AVAILABLE"


def test_a_request_for_all_partitions_returns_those_that_needed_an_election() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2), (2, 1), (3, 1))
    cluster.fence(1)
    cluster.join(1, previous=cluster.epoch(1))
    cluster.alter([2, 1])
    cluster.fence(3)
    reply = cluster.ask(ElectLeadersRequest(topic_partitions=None))
    told = {one.partition_id: name_of(one.error_code) for one in reply.replica_election_results[0].partition_result}
    assert told == {0: "NONE", 2: "PREFERRED_LEADER_NOT_AVAILABLE"}


def test_a_timeout_of_zero_times_out_unless_no_partition_is_listed() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2))
    asked = [TopicPartitions(topic="t", partitions=[0, 7])]
    reply = cluster.ask(ElectLeadersRequest(topic_partitions=asked, timeout_ms=0, election_type=9))
    told = [name_of(one.error_code) for one in reply.replica_election_results[0].partition_result]
    assert (name_of(reply.error_code), told) == ("REQUEST_TIMED_OUT", ["REQUEST_TIMED_OUT"] * 2)
    assert cluster.ask(ElectLeadersRequest(topic_partitions=[], timeout_ms=0)).error_code == 0


@pytest.mark.slow
def test_an_election_with_too_many_records_is_rejected_as_a_whole() -> None:
    cluster = DecidedCluster()
    cluster.topic(*[(1, 2)] * 10_001)
    cluster.fence(1)
    cluster.join(1, previous=cluster.epoch(1))
    for index in range(10_001):
        cluster.alter([2, 1], index=index)
    before = cluster.offset
    reply = cluster.ask(ElectLeadersRequest(topic_partitions=None))
    assert (name_of(reply.error_code), cluster.offset) == ("POLICY_VIOLATION", before)


def test_the_timer_elects_preferred_leaders() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2), (1, 3), (2, 1), (1,))
    cluster.fence(1)
    cluster.join(1, previous=cluster.epoch(1))
    cluster.alter([2, 1])
    assert not cluster.carry_out(leader_balancing.preferred(cluster.image, cluster.context()))
    assert [state.leader for state in cluster.image.topics["t"].partitions] == [1, 3, 2, 1]
    assert not leader_balancing.preferred(cluster.image, cluster.context()).records


def test_the_timer_elects_at_most_a_thousand_leaders_at_a_time() -> None:
    cluster = DecidedCluster()
    cluster.topic(*[(1, 2)] * 1500)
    cluster.fence(1)
    cluster.join(1, previous=cluster.epoch(1))
    for index in range(1500):
        cluster.alter([2, 1], index=index)
    assert cluster.carry_out(leader_balancing.preferred(cluster.image, cluster.context()))
    assert sum(state.leader == 1 for state in cluster.image.topics["t"].partitions) == leader_balancing.ELECTIONS_MAX
    assert not cluster.carry_out(leader_balancing.preferred(cluster.image, cluster.context()))
    assert all(state.leader == 1 for state in cluster.image.topics["t"].partitions)
