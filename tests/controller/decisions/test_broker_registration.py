"""BrokerRegistration: accepted processes, broker epochs, unclean shutdowns."""

import pytest
from support.decided_cluster import SESSION_MS, DecidedCluster
from support.images import applied, name_of, topic_id

from minikafka.controller.decisions import broker_registration
from minikafka.controller.decisions.decision import RECORDS_MAX
from minikafka.controller.metadata.records import PartitionChange
from minikafka.protocol.messages.broker_registration import Feature, Listener


def test_a_registered_broker_is_fenced_and_has_a_new_epoch() -> None:
    cluster = DecidedCluster(())
    replies = [cluster.register(node_id) for node_id in (1, 2)]
    assert [reply.broker_epoch for reply in replies] == [1, 2]
    assert all(cluster.image.brokers[node_id].fenced for node_id in (1, 2))
    assert cluster.image.brokers[1].endpoints == (("PLAINTEXT", "h", 9092, "PLAINTEXT"),)


def test_rack_and_endpoints_are_stored() -> None:
    cluster = DecidedCluster(())
    secure = [Listener(name="X", host="far", port=1, security_protocol=3)]
    cluster.register(7, rack="r", listeners=secure)
    assert cluster.image.brokers[7].rack == "r"
    assert cluster.image.brokers[7].endpoints == (("X", "far", 1, "SASL_SSL"),)


def test_a_second_process_with_the_id_of_a_live_broker_is_rejected() -> None:
    cluster = DecidedCluster()
    epoch = cluster.epoch(2)
    assert name_of(cluster.register(2).error_code) == "DUPLICATE_BROKER_REGISTRATION"
    assert cluster.epoch(2) == epoch


def test_the_next_process_of_the_controllers_own_node_is_registered_at_once() -> None:
    """Its last process was that of the controller before, which is gone; the session is that process's."""
    cluster = DecidedCluster()
    assert cluster.context().static.node_id == 1
    assert cluster.sessions.is_live(1, cluster.epoch(1), cluster.now_ms)
    assert not cluster.register(1).error_code


@pytest.mark.parametrize("controllers", [(1,), (1, 2, 3)], ids=["alone", "one of three"])
@pytest.mark.parametrize("node_id", [1, 2])
def test_nobody_takes_the_registration_of_a_live_broker_over(node_id: int, controllers: tuple[int, ...]) -> None:
    """Neither that of another node nor that of the controller's own, which needs no heartbeats."""
    cluster = DecidedCluster(controllers=controllers)
    cluster.own_epoch = epoch = cluster.epoch(1)
    if node_id == 1:
        cluster.now_ms = 10 * SESSION_MS
        assert not cluster.sessions.is_live(1, epoch, cluster.now_ms)
    before = cluster.offset
    assert name_of(cluster.register(node_id).error_code) == "DUPLICATE_BROKER_REGISTRATION"
    assert cluster.offset == before
    if node_id == 1:
        cluster.heartbeat(1, want_shut_down=True)


def test_a_second_process_is_registered_once_the_session_of_the_first_expired() -> None:
    cluster = DecidedCluster()
    cluster.now_ms = SESSION_MS
    assert not cluster.register(1).error_code
    assert cluster.epoch(1) == 4


def test_a_second_process_is_registered_soon_after_the_first_one_disconnected() -> None:
    cluster = DecidedCluster()
    cluster.sessions.lost_connection(2, cluster.now_ms)
    assert cluster.register(2).error_code
    cluster.now_ms += 300
    assert not cluster.register(2).error_code


def test_a_second_process_is_registered_while_the_first_one_shuts_down() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2))
    cluster.heartbeat(1, want_shut_down=True)
    assert not cluster.register(1).error_code


def test_a_repeated_registration_keeps_epoch_and_state() -> None:
    cluster = DecidedCluster(())
    request = cluster.registration(1)
    first = cluster.ask(request)
    before = cluster.offset
    assert cluster.ask(request) == first
    assert cluster.offset == before
    cluster.heartbeat(1)
    request.rack = "moved"
    assert cluster.ask(request).broker_epoch == first.broker_epoch
    assert cluster.image.brokers[1].rack == "moved"
    assert not cluster.image.brokers[1].fenced


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"cluster_id": "another"}, "INCONSISTENT_CLUSTER_ID"),
        ({"listeners": []}, "INVALID_REGISTRATION"),
        ({"listeners": [Listener(name="X", host="h", port=1, security_protocol=9)]}, "INVALID_REGISTRATION"),
        ({"features": [Feature(name="metadata.version", max_supported_version=7)]}, "UNSUPPORTED_VERSION"),
        ({"features": [Feature(name="unheard.of", max_supported_version=7)]}, "NONE"),
        (
            {"features": [Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)]},
            "NONE",
        ),
    ],
)
def test_an_invalid_registration_is_rejected(said: dict[str, object], error: str) -> None:
    cluster = DecidedCluster(())
    assert name_of(cluster.register(1, **said).error_code) == error
    assert (1 in cluster.image.brokers) is (error == "NONE")


def test_the_epoch_of_an_unregistered_broker_is_not_assigned_again() -> None:
    cluster = DecidedCluster()
    del cluster.image.brokers[3]
    cluster.join(4)
    assert cluster.epoch(4) == 4


def test_after_an_unclean_shutdown_a_broker_is_in_no_isr() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), (2, 1, 3))
    cluster.now_ms = SESSION_MS
    cluster.register(1)
    assert (cluster.state().leader, cluster.state().isr) == (2, (2, 3))
    assert (cluster.state(index=1).leader, cluster.state(index=1).isr) == (2, (2, 3))


def test_the_only_replica_leads_again_after_an_unclean_shutdown() -> None:
    """No other replica has the records that it lost."""
    cluster = DecidedCluster()
    cluster.topic((1,))
    cluster.fence(1)
    assert (cluster.state().leader, cluster.state().isr, cluster.state().elr) == (-1, (), (1,))
    cluster.register(1)
    assert (cluster.state().elr, cluster.state().last_known_elr) == ((), (1,))
    cluster.heartbeat(1)
    assert (cluster.state().leader, cluster.state().isr, cluster.state().last_known_elr) == (1, (1,), ())


def test_the_last_isr_member_is_not_elected_after_an_unclean_shutdown() -> None:
    """KIP-966: 1 and 2 left the ISR, then 3 lost records that it had not synced; 2 has all committed records."""
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), min_insync_replicas="2")
    for node_id in (1, 2, 3):
        cluster.fence(node_id)
    assert cluster.state().elr == (2, 3)
    cluster.join(3)
    assert (cluster.state().leader, cluster.state().elr) == (-1, (2,))
    cluster.join(1)
    assert cluster.state().leader == -1
    cluster.join(2, previous=cluster.epoch(2))
    assert (cluster.state().leader, cluster.state().isr) == (2, (2,))


def test_the_last_isr_member_is_elected_after_a_clean_shutdown() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), min_insync_replicas="2")
    for node_id in (1, 2, 3):
        cluster.fence(node_id)
    cluster.join(3, previous=cluster.epoch(3))
    assert (cluster.state().leader, cluster.state().isr, cluster.state().elr) == (3, (3,), (2,))


def test_a_process_that_stops_before_it_learns_its_epoch_keeps_the_clean_shutdown_before_it() -> None:
    """Its registration is committed, but not answered, and its markers have the epoch of the process before."""
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), min_insync_replicas="2")
    served = cluster.epoch(3)
    for node_id in (1, 2, 3):
        cluster.fence(node_id)
    for _ in range(2):
        cluster.register(3, previous=served)
        cluster.now_ms += SESSION_MS
    learned = cluster.epoch(3)
    cluster.register(3, previous=served)
    cluster.now_ms += SESSION_MS
    assert cluster.state().elr == (2, 3)
    cluster.join(3, previous=learned)
    assert (cluster.state().leader, cluster.state().isr, cluster.state().elr) == (3, (3,), (2,))


def test_the_marker_of_an_earlier_process_does_not_count_once_a_later_one_was_unfenced() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), min_insync_replicas="2")
    old = cluster.epoch(3)
    cluster.fence(3)
    cluster.join(3, previous=old)
    cluster.alter((1, 2, 3))
    for node_id in (1, 2, 3):
        cluster.fence(node_id)
    assert 3 in cluster.state().elr
    cluster.register(3, previous=old)
    assert 3 not in cluster.state().elr


def test_after_unclean_shutdowns_of_all_replicas_the_last_known_leader_is_elected() -> None:
    cluster = DecidedCluster()
    cluster.topic((1, 2, 3), min_insync_replicas="2")
    for node_id in (1, 2, 3):
        cluster.fence(node_id)
    cluster.join(1)
    cluster.join(2)
    assert (cluster.state().leader, cluster.state().elr) == (-1, (3,))
    cluster.join(3)
    assert (cluster.state().leader, cluster.state().isr) == (3, (3,))


def test_a_broker_with_many_partitions_registers_in_several_requests() -> None:
    cluster = DecidedCluster()
    cluster.topic(*[(1, 2)] * 12_000)
    cluster.now_ms = SESSION_MS
    assert name_of(cluster.register(1).error_code) == "REQUEST_TIMED_OUT"
    assert not cluster.register(1).error_code
    assert {state.isr for state in cluster.image.topics["t"].partitions} == {(2,)}


def alone() -> DecidedCluster:
    """A cluster of one node, with a topic of two partitions."""
    only = DecidedCluster((1,), controllers=(1,))
    only.topic((1,), (1,))
    return only


def states(cluster: DecidedCluster) -> list[tuple[int, int, tuple[int, ...]]]:
    return [(one.leader, one.leader_epoch, one.isr) for one in cluster.image.topics["t"].partitions]


def test_the_only_broker_of_a_node_alone_is_unfenced_at_once() -> None:
    cluster = DecidedCluster((), controllers=(1,))
    assert cluster.register(1).broker_epoch == 1
    assert cluster.image.live_brokers() == [1]


@pytest.mark.parametrize("others", ["a broker", "a controller"])
def test_a_broker_that_is_not_alone_is_fenced_at_first(others: str) -> None:
    cluster = DecidedCluster((2,) if others == "a broker" else (), controllers=(1,) if others == "a broker" else (1, 9))
    cluster.register(1)
    assert cluster.image.brokers[1].fenced


def test_the_only_broker_leads_on_after_a_clean_stop_and_in_a_new_epoch_after_an_unclean_one() -> None:
    cluster = alone()
    cluster.register(1, previous=cluster.epoch(1))
    assert states(cluster) == [(1, 0, (1,))] * 2
    cluster.register(1)
    assert states(cluster) == [(1, 1, (1,))] * 2


def test_the_only_broker_is_elected_for_what_it_may_lead() -> None:
    """Also as an eligible leader replica or the last known leader, as a directory of a cluster may have left them."""
    cluster = alone()
    changes = [
        PartitionChange(topic_id("t"), 0, leader=-1, isr=(), elr=(1,)),
        PartitionChange(topic_id("t"), 1, leader=-1, isr=(), elr=(), last_known_elr=(1,)),
    ]
    applied(changes, cluster.image)
    cluster.register(1, previous=cluster.epoch(1))
    assert states(cluster) == [(1, 2, (1,))] * 2


def test_the_only_broker_does_not_lead_what_is_in_a_directory_that_it_cannot_use() -> None:
    cluster, usable, lost = alone(), bytes([1] * 16), bytes([2] * 16)
    named = [PartitionChange(topic_id("t"), index, directories=(one,)) for index, one in enumerate((usable, lost))]
    applied(named, cluster.image)
    cluster.register(1, log_dirs=[usable])
    assert states(cluster) == [(1, 1, (1,)), (-1, 1, ())]
    cluster.register(1, log_dirs=[usable, lost])
    assert [one[0] for one in states(cluster)] == [1, 1]
    assert cluster.state(index=1).isr == (1,)


def test_the_only_broker_is_registered_in_one_decision_however_much_it_leads() -> None:
    cluster = DecidedCluster((1,), controllers=(1,))
    cluster.topic(*[(1,)] * (RECORDS_MAX + 1))
    made = broker_registration.decide(cluster.image, cluster.registration(1), cluster.context())
    assert len(made.records) == RECORDS_MAX + 2
