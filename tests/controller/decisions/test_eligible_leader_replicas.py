"""Eligible leader replicas when min.insync.replicas changes."""

import pytest
from support.decided_cluster import DecidedCluster
from support.images import applied, name_of, static

from minikafka.controller.metadata.records import ConfigRecord
from minikafka.controller.settings.effective_settings import EffectiveSettings
from minikafka.protocol.messages import alter_configs as replacing
from minikafka.protocol.messages import incremental_alter_configs as altering

TOPIC, BROKER = 2, 4
MIN_ISR = "min.insync.replicas"


def one_left(**settings: str) -> DecidedCluster:
    """Replica 1 is the only ISR member; 2 is eligible as long as min.insync.replicas is 2."""
    cluster = DecidedCluster((1, 2))
    applied([ConfigRecord(BROKER, "", MIN_ISR, "2")], cluster.image)
    cluster.topic((1, 2), **settings)
    cluster.fence(2)
    assert cluster.state().elr == (2,)
    return cluster


def alter(cluster: DecidedCluster, *changes: tuple[int, str, str | None], validate: bool = False) -> list[str]:
    resources = [
        altering.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[altering.AlterableConfig(name=MIN_ISR, config_operation=int(value is None), value=value)],
        )
        for kind, name, value in changes
    ]
    request = altering.IncrementalAlterConfigsRequest(resources=resources, validate_only=validate)
    return [name_of(one.error_code) for one in cluster.ask(request).responses]


def test_lowering_the_minimum_to_one_clears_the_elr() -> None:
    """Otherwise 2 could be elected without the records that 1 committed alone."""
    cluster = one_left()
    assert alter(cluster, (TOPIC, "t", "1")) == ["NONE"]
    assert (cluster.state().elr, cluster.state().leader_epoch) == ((), 0)
    cluster.fence(1)
    cluster.join(2, previous=cluster.epoch(2))
    assert cluster.state().leader == -1


@pytest.mark.parametrize(
    ("settings", "changes", "elr"),
    [
        ({}, [(BROKER, "", "1")], ()),
        ({}, [(TOPIC, "t", "2")], (2,)),
        ({}, [(TOPIC, "t", "9")], (2,)),
        ({}, [(BROKER, "", "9")], (2,)),
        ({"min_insync_replicas": "2"}, [(BROKER, "", "1")], (2,)),
        ({"min_insync_replicas": "2"}, [(BROKER, "", "1"), (TOPIC, "t", None)], ()),
        ({"min_insync_replicas": "2"}, [(TOPIC, "t", None), (BROKER, "", "1")], ()),
        ({"min_insync_replicas": "2"}, [(TOPIC, "t", None)], (2,)),
    ],
)
def test_the_topic_config_takes_precedence_over_the_cluster_wide_config(
    settings: dict[str, str], changes: list[tuple[int, str, str | None]], elr: tuple[int, ...]
) -> None:
    cluster = one_left(**settings)
    assert set(alter(cluster, *changes)) == {"NONE"}
    assert cluster.state().elr == elr


def test_alter_configs_clears_the_elr_as_well() -> None:
    cluster = one_left(min_insync_replicas="2")
    applied([ConfigRecord(BROKER, "", MIN_ISR, "1")], cluster.image)
    resource = replacing.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[])
    cluster.ask(replacing.AlterConfigsRequest(resources=[resource]))
    assert cluster.state().elr == ()


def test_validate_only_keeps_the_elr() -> None:
    cluster = one_left()
    assert alter(cluster, (TOPIC, "t", "1"), validate=True) == ["NONE"]
    assert cluster.state().elr == (2,)


def test_a_config_change_with_too_many_records_is_rejected() -> None:
    cluster = one_left()
    cluster.topic(*[(1, 2)] * 10_001, name="big")
    cluster.fence(2)
    assert alter(cluster, (BROKER, "", "1")) == ["POLICY_VIOLATION"]
    assert cluster.state().elr == (2,)
    assert cluster.image.config(BROKER, "")[MIN_ISR] == "2"


def test_the_static_broker_config_has_the_lowest_precedence() -> None:
    image = DecidedCluster().image
    of_node = EffectiveSettings(static(unclean_leader_election_enable="true", min_insync_replicas="3"), image)
    assert of_node.unclean_leader_election("t")
    assert of_node.min_insync_replicas("t") == 1, "the cluster has it from the start"
    applied([ConfigRecord(BROKER, "", "unclean.leader.election.enable", "false")], image)
    assert not of_node.unclean_leader_election("t")
    applied([ConfigRecord(TOPIC, "t", "unclean.leader.election.enable", "true")], image)
    assert of_node.unclean_leader_election("t")
