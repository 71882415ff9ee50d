"""BrokerHeartbeat: unfencing, fencing and controlled shutdown."""

from random import Random

import pytest
from support.decided_cluster import DecidedCluster
from support.images import applied, name_of

from minikafka.controller.decisions.decision import Decision
from minikafka.controller.decisions.replica_placement import placing_partitions
from minikafka.controller.metadata.records import BrokerChange, FeatureRecord
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.storage.steps import at_once


def test_a_broker_is_unfenced_once_it_has_applied_its_registration() -> None:
    cluster = DecidedCluster(())
    cluster.register(1)
    reply = cluster.heartbeat(1, applied_to=cluster.offset - 1)
    assert (reply.is_caught_up, reply.is_fenced, cluster.image.is_alive(1)) == (False, True, False)
    reply = cluster.heartbeat(1)
    assert (reply.is_caught_up, reply.is_fenced, cluster.image.is_alive(1)) == (True, False, True)


def test_a_broker_that_requests_fencing_stays_fenced() -> None:
    cluster = DecidedCluster(())
    cluster.register(1)
    assert cluster.heartbeat(1, want_fence=True).is_fenced
    assert not cluster.heartbeat(1).is_fenced
    assert cluster.heartbeat(1, want_fence=True).is_fenced
    assert not cluster.image.is_alive(1)


def test_a_heartbeat_of_an_unfenced_broker_changes_nothing() -> None:
    cluster = DecidedCluster()
    before = cluster.offset
    reply = cluster.heartbeat(1)
    assert (reply.error_code, reply.is_fenced, reply.should_shut_down, cluster.offset) == (0, False, False, before)


def test_an_old_or_unknown_broker_epoch_is_stale() -> None:
    cluster = DecidedCluster()
    assert name_of(cluster.heartbeat(1, epoch=0).error_code) == "STALE_BROKER_EPOCH"
    assert name_of(cluster.heartbeat(9, epoch=0).error_code) == "STALE_BROKER_EPOCH"


def test_an_unfenced_broker_is_elected_for_its_leaderless_partitions() -> None:
    cluster = DecidedCluster()
    cluster.topic((1,), (1, 2))
    cluster.fence(1)
    cluster.join(1, previous=cluster.epoch(1))
    assert (cluster.state().leader, cluster.state().isr, cluster.state().elr) == (1, (1,), ())
    assert (cluster.state(index=1).leader, cluster.state(index=1).isr) == (2, (2,))


def test_leaderships_move_before_a_broker_shuts_down() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), (2, 1), (1,))
    reply = cluster.heartbeat(1, want_shut_down=True)
    assert not reply.should_shut_down
    assert not reply.is_fenced
    assert (cluster.state().leader, cluster.state().leader_epoch, cluster.state().isr) == (2, 1, (2, 3))
    assert cluster.state(index=1).isr == (2,)
    assert (cluster.state(index=2).leader, cluster.state(index=2).elr) == (-1, (1,))


def test_a_broker_shuts_down_once_all_others_have_applied_the_new_leaders() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3))
    cluster.heartbeat(1, want_shut_down=True)
    cluster.heartbeat(2)
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    cluster.heartbeat(3)
    reply = cluster.heartbeat(1, want_shut_down=True)
    assert reply.should_shut_down
    assert cluster.image.brokers[1].fenced


def test_a_shutdown_does_not_wait_for_brokers_that_shut_down_or_are_fenced() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3))
    cluster.fence(3)
    cluster.heartbeat(2, want_shut_down=True)
    cluster.heartbeat(1, want_shut_down=True)
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_broker_without_leaderships_shuts_down_at_once() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2))
    assert cluster.heartbeat(2, want_shut_down=True).should_shut_down
    assert (cluster.image.brokers[2].fenced, cluster.state().isr) == (True, (1,))
    assert not cluster.register(2, previous=cluster.epoch(2)).error_code, "and come back at once"


def test_a_fenced_broker_shuts_down_at_once() -> None:
    cluster = DecidedCluster(())
    cluster.register(1)
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down
    assert cluster.heartbeat(1, want_shut_down=True, want_fence=True).should_shut_down


def test_a_broker_that_requests_fencing_and_shutdown_is_fenced_at_once() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2))
    assert cluster.heartbeat(1, want_fence=True, want_shut_down=True).should_shut_down
    assert (cluster.state().leader, cluster.image.brokers[1].fenced) == (2, True)


def test_no_replica_is_placed_on_a_broker_in_controlled_shutdown() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2))
    cluster.heartbeat(1, want_shut_down=True)
    assert not cluster.image.may_lead(1)
    assert cluster.elect() == "PREFERRED_LEADER_NOT_AVAILABLE"
    assert name_of(cluster.alter([2, 1]).error_code) == "INELIGIBLE_REPLICA"


def test_all_brokers_can_shut_down_and_return_without_loss() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), min_insync_replicas="2")
    for node_id in (1, 2, 3):
        while not cluster.heartbeat(node_id, want_shut_down=True).should_shut_down:
            for other in cluster.image.live_brokers():
                cluster.heartbeat(other)
    assert (cluster.state().leader, cluster.state().isr, cluster.state().elr) == (-1, (), (2, 3))
    for node_id in (1, 2, 3):
        cluster.join(node_id, previous=cluster.epoch(node_id))
    assert (cluster.state().leader, cluster.state().isr) == (2, (2,))


def test_a_shutdown_with_many_partitions_takes_several_heartbeats() -> None:
    cluster = DecidedCluster()
    cluster.topic(*[(1, 2)] * 12_000)
    for node_id in (2, 3):
        cluster.heartbeat(node_id)
    beats = 0
    while not cluster.heartbeat(1, want_shut_down=True).should_shut_down:
        cluster.heartbeat(2)
        cluster.heartbeat(3)
        beats += 1
    assert beats == 2
    assert {state.leader for state in cluster.image.topics["t"].partitions} == {2}


@pytest.mark.parametrize("wants", [{"want_fence": True}, {"want_shut_down": True}])
def test_a_broker_in_many_isrs_leaves_all_of_them_before_it_is_fenced(wants: dict[str, bool]) -> None:
    cluster = DecidedCluster()
    cluster.topic(*[(2, 1)] * 12_000)
    for node_id in (2, 3):
        cluster.heartbeat(node_id)
    beats = 0
    while not (reply := cluster.heartbeat(1, **wants)).is_fenced:
        assert not reply.should_shut_down
        beats += 1
    assert beats == 1
    assert cluster.image.brokers[1].fenced
    assert {state.isr for state in cluster.image.topics["t"].partitions} == {(2,)}


def test_heartbeats_of_unknown_brokers_are_answered() -> None:
    assert DecidedCluster(()).ask(BrokerHeartbeatRequest()).error_code == 77


def test_a_broker_whose_directories_are_all_cordoned_gets_no_new_replicas() -> None:
    cluster = DecidedCluster()
    one, two = bytes([1] * 16), bytes([2] * 16)
    broker = cluster.image.brokers[1]
    cluster.carry_out(Decision([BrokerChange(1, broker.epoch, log_dirs=(one, two))], None))
    cluster.heartbeat(1, cordoned_log_dirs=[two])
    assert cluster.image.brokers[1].takes_replicas
    cluster.heartbeat(1, cordoned_log_dirs=[two, one])
    assert cluster.image.brokers[1].cordoned == (one, two)
    assert not cluster.image.brokers[1].takes_replicas
    placed = at_once(placing_partitions(cluster.image, partitions=6, replication_factor=1, random=Random(1)))
    assert all(1 not in replicas for replicas in placed)
    cluster.heartbeat(1)  # without a list, nothing changes
    assert not cluster.image.brokers[1].takes_replicas
    cluster.heartbeat(1, cordoned_log_dirs=[])
    assert cluster.image.brokers[1].cordoned == ()


@pytest.mark.parametrize(("level", "cordoned"), [(29, ()), (30, (bytes([1] * 16),))])
def test_directories_are_cordoned_from_the_metadata_version_on_that_has_it(
    level: int, cordoned: tuple[bytes, ...]
) -> None:
    """Recorded from Kafka: before, a broker whose file names cordoned directories is registered without them."""
    cluster = DecidedCluster()
    broker = cluster.image.brokers[1]
    directory = bytes([1] * 16)
    applied([FeatureRecord("metadata.version", level)], cluster.image)
    cluster.carry_out(Decision([BrokerChange(1, broker.epoch, log_dirs=(directory,))], None))
    cluster.heartbeat(1, cordoned_log_dirs=[directory])
    assert cluster.image.brokers[1].cordoned == cordoned
