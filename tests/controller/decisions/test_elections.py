"""ElectLeaders, and what the active controller elects by itself."""

from support.decided_cluster import DecidedCluster
from support.images import name_of

from minikafka.controller.decisions import leader_balancing
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions


def test_the_preferred_leader_comes_back_when_asked_for() -> None:
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


def test_an_eligible_replica_is_not_preferred_to_one_in_sync() -> None:
    """Elected it would be the only one in sync, and the other would have to catch up."""
    cluster = DecidedCluster()
    cluster.topic((1, 2), min_insync_replicas="2")
    cluster.fence(1)
    cluster.join(1, previous=cluster.epoch(1))
    assert cluster.state().elr == (1,)
    assert cluster.elect() == "PREFERRED_LEADER_NOT_AVAILABLE"
    assert (cluster.state().leader, cluster.state().isr) == (2, (2,))


def test_an_unclean_election_is_a_clean_one_where_that_is_possible() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), isr=(3,))
    cluster.fence(3)
    cluster.join(3, previous=cluster.epoch(3))
    assert cluster.elect(unclean=True) == "ELECTION_NOT_NEEDED"
    assert cluster.state().leader == 3


def test_an_unclean_election_takes_the_first_that_lives_and_forgets_the_others() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), isr=(3,))
    cluster.fence(3)
    cluster.fence(1)
    assert cluster.elect(unclean=True) == "NONE"
    state = cluster.state()
    assert (state.leader, state.isr, state.elr, state.last_known_elr) == (2, (2,), (), ())


def test_without_anybody_alive_there_is_nobody_to_elect() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2))
    cluster.fence(1)
    cluster.fence(2)
    assert cluster.elect(unclean=True) == "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    assert cluster.elect() == "PREFERRED_LEADER_NOT_AVAILABLE"


def test_asked_for_all_only_those_that_needed_it_are_told() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2), (2, 1), (3, 1))
    cluster.fence(1)
    cluster.join(1, previous=cluster.epoch(1))
    cluster.alter([2, 1])
    cluster.fence(3)
    reply = cluster.ask(ElectLeadersRequest(topic_partitions=None))
    told = {one.partition_id: name_of(one.error_code) for one in reply.replica_election_results[0].partition_result}
    assert told == {0: "NONE", 2: "PREFERRED_LEADER_NOT_AVAILABLE"}


def test_no_time_is_too_little_time_unless_there_is_nothing_to_do() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2))
    asked = [TopicPartitions(topic="t", partitions=[0, 7])]
    reply = cluster.ask(ElectLeadersRequest(topic_partitions=asked, timeout_ms=0, election_type=9))
    told = [name_of(one.error_code) for one in reply.replica_election_results[0].partition_result]
    assert (name_of(reply.error_code), told) == ("REQUEST_TIMED_OUT", ["REQUEST_TIMED_OUT"] * 2)
    assert cluster.ask(ElectLeadersRequest(topic_partitions=[], timeout_ms=0)).error_code == 0


def test_an_election_of_more_than_one_decision_can_hold_is_refused_whole() -> None:
    cluster = DecidedCluster()
    cluster.topic(*[(1, 2)] * 10_001)
    cluster.fence(1)
    cluster.join(1, previous=cluster.epoch(1))
    for index in range(10_001):
        cluster.alter([2, 1], index=index)
    before = cluster.offset
    reply = cluster.ask(ElectLeadersRequest(topic_partitions=None))
    assert (name_of(reply.error_code), cluster.offset) == ("POLICY_VIOLATION", before)


def test_leaders_go_back_to_the_preferred_ones_by_themselves() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2), (1, 3), (2, 1), (1,))
    cluster.fence(1)
    cluster.join(1, previous=cluster.epoch(1))
    cluster.alter([2, 1])
    assert not cluster.carry_out(leader_balancing.preferred(cluster.image, cluster.context()))
    assert [state.leader for state in cluster.image.topics["t"].partitions] == [1, 3, 2, 1]
    assert not leader_balancing.preferred(cluster.image, cluster.context()).records


def test_no_more_than_a_thousand_at_a_time() -> None:
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
