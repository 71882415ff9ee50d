"""What the active controller logs of its changes: one line for all partitions that changed in the same way."""

from __future__ import annotations

from typing import Any

import pytest
import structlog.testing
from support.images import broker, cluster, three_brokers, topic_id, with_topic

from minikafka.controller.metadata.acl import Acl
from minikafka.controller.metadata.change_log import HIDDEN, NAMES_MAX, MetadataChanges
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import (
    AclRecord,
    BrokerChange,
    ClientQuotaRecord,
    ClusterRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureRecord,
    PartitionChange,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RemoveAcl,
    RemoveBroker,
    RemoveDelegationToken,
    RemoveScram,
    RemoveTopic,
    ScramRecord,
    TopicRecord,
)
from minikafka.storage.steps import at_once

Line = dict[str, Any]


def logged(image: Image, *records: Record) -> list[Line]:
    """The lines of records, which are applied to the image."""
    with structlog.testing.capture_logs() as lines:
        changes = MetadataChanges(image, records)
        for record in records:
            image.apply(record)
        assert lines == [], "nothing is logged before it is applied"
        at_once(changes.logging())
    return [dict(line) for line in lines]


def change(index: int = 0, **fields: Any) -> PartitionChange:
    return PartitionChange(topic_id("t"), index, **fields)


def one_topic(partitions: int = 1, **options: Any) -> Image:
    return with_topic(three_brokers(), "t", *[(1, 2, 3)] * partitions, **options)


def test_a_topic_is_one_line_with_its_settings() -> None:
    image, new = three_brokers(), topic_id("new")
    lines = logged(
        image,
        TopicRecord(new, "new"),
        ConfigRecord(2, "new", "retention.ms", "7"),
        *(PartitionRecord(new, index, (1, 2), (1, 2), 1) for index in range(50)),
    )
    assert lines == [
        {
            "event": "topic created",
            "log_level": "info",
            "topic": "new",
            "partitions": 50,
            "replication_factor": 2,
            "settings": {"retention.ms": "7"},
        }
    ]
    (line,) = logged(image, *(PartitionRecord(new, index, (1, 2), (1, 2), 1) for index in range(50, 53)))
    assert (line["event"], line["added"], line["partitions"]) == ("partitions added", 3, 53)
    (line,) = logged(image, RemoveTopic(new))
    assert (line["event"], line["topic"]) == ("topic deleted", "new")


def test_a_broker_that_is_fenced_is_a_few_lines_for_a_thousand_partitions() -> None:
    image = one_topic(1000)
    fenced = [change(index, isr=(2, 3), leader=2 + index % 2) for index in range(1000)]
    lines = logged(image, BrokerChange(1, 0, fenced=True), *fenced)
    assert [(line["event"], line.get("leader", line.get("broker")), line["partitions"]) for line in lines] == [
        ("leader elected", 2, 500),
        ("leader elected", 3, 500),
        ("isr shrunk", 1, 1000),
    ]
    assert lines[2]["first"] == [f"t-{index}" for index in range(NAMES_MAX)]
    (line,) = logged(image, change(5, isr=(1, 2, 3)))
    assert line == {"event": "isr expanded", "log_level": "info", "broker": 1, "partitions": 1, "first": ["t-5"]}


def test_lost_records_and_missing_leaders_are_warnings() -> None:
    image = with_topic(three_brokers(), "t", (1, 2), isr=(1,))
    (line,) = logged(image, change(leader=-1))
    assert (line["event"], line["log_level"], line["first"]) == ("partitions without leader", "warning", ["t-0"])
    lines = logged(image, change(leader=2, isr=(2,)))
    assert (lines[0]["event"], lines[0]["log_level"]) == ("leader elected uncleanly", "warning")


def test_an_eligible_leader_replica_is_elected_cleanly() -> None:
    image = with_topic(three_brokers(), "t", (1, 2), isr=(1,))
    logged(image, change(leader=-1, isr=(), elr=(1, 2)))
    lines = logged(image, change(leader=2, isr=(2,), elr=(1,)))
    assert lines[0]["event"] == "leader elected"


@pytest.mark.parametrize(
    ("end", "event"),
    [
        (change(replicas=(2, 3), adding_replicas=(), removing_replicas=()), "reassignment completed"),
        (change(replicas=(1, 2), adding_replicas=(), removing_replicas=()), "reassignment cancelled"),
    ],
)
def test_a_reassignment_begins_and_ends(end: PartitionChange, event: str) -> None:
    image = with_topic(three_brokers(), "t", (1, 2))
    begin = change(replicas=(2, 3, 1), adding_replicas=(3,), removing_replicas=(1,))
    assert [line["event"] for line in logged(image, begin)] == ["reassignment begun"]
    assert [line["event"] for line in logged(image, end)] == [event]


def test_the_life_of_a_broker() -> None:
    image = cluster()
    assert [line["event"] for line in logged(image, broker(2, fenced=True, epoch=5))] == ["broker registered"]
    assert [line["event"] for line in logged(image, BrokerChange(2, 5, fenced=False))] == ["broker unfenced"]
    leaving = BrokerChange(2, 5, in_controlled_shutdown=True)
    assert [line["event"] for line in logged(image, leaving)] == ["broker shutting down"]
    assert [line["event"] for line in logged(image, BrokerChange(2, 5, fenced=True))] == ["broker shut down"]
    assert [line["event"] for line in logged(image, RemoveBroker(2, 5))] == ["broker unregistered"]
    assert logged(image, BrokerChange(1, 0, fenced=True)) == [], "the session that timed out was logged"


ACL = Acl(2, "team-", 4, "User:alice", "*", 3, 3)
TOKEN = DelegationTokenRecord("an-id", ("User", "alice"), ("User", "bob"), (), 1, 3, 2)


def test_changed_settings_and_quotas_are_logged_without_secrets() -> None:
    lines = logged(
        cluster(),
        ConfigRecord(4, "1", "ssl.keystore.password", "open sesame"),
        ConfigRecord(4, "1", "listener.name.external.ssl.key.password", "open sesame"),
        ConfigRecord(4, "1", "log.retention.ms", "1000"),
        ConfigRecord(4, "1", "my.plugin.password", None),
        ClientQuotaRecord((("user", None),), "producer_byte_rate", 10.0),
        FeatureRecord("transaction.version", 1),
        ScramRecord("alice", 1, b"salt", b"open sesame", b"", 4096),
        RemoveScram("alice", 1),
        AclRecord(ACL),
        RemoveAcl(ACL),
        TOKEN,
        RemoveDelegationToken("an-id"),
    )
    assert "sesame" not in repr(lines)
    assert lines[0]["settings"] == {
        "ssl.keystore.password": HIDDEN,
        "listener.name.external.ssl.key.password": HIDDEN,
        "log.retention.ms": "1000",
        "my.plugin.password": None,
    }
    events = ["settings changed", "quotas changed", "feature level changed", "credential changed", "credential deleted"]
    events += ["acl created", "acl deleted", "delegation token changed", "delegation token removed"]
    assert [line["event"] for line in lines] == events
    assert (lines[-2]["token"], lines[-2]["owner"]) == ("an-id", "User:alice")
    assert lines[-3]["acl"] == "ALLOW READ on PREFIXED TOPIC team- to User:alice from *"


def test_what_nobody_asks_for_is_not_logged() -> None:
    assert logged(Image(), ClusterRecord("c"), FeatureRecord("metadata.version", 30)) == []
    assert logged(one_topic(), ProducerIdsRecord(1, 0, 1000), change(directories=(bytes(16),) * 3)) == []
    assert logged(one_topic(), change(leader=1)) == [], "the epoch grew, the leader is the same"
