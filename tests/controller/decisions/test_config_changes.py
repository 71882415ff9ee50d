"""AlterConfigs and IncrementalAlterConfigs: accepted and rejected changes, and their records."""

from collections.abc import Sequence
from typing import Any

import pytest
from support.images import cluster, context, decided, name_of, static, with_topic

from minikafka.controller.decisions import alter_configs, incremental_alter_configs
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ConfigRecord
from minikafka.protocol.messages import alter_configs as legacy
from minikafka.protocol.messages import incremental_alter_configs as incremental

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
Change = tuple[str, int, str | None]


def a_cluster() -> Image:
    return with_topic(with_topic(cluster(), "t", (1,)), "u", (1,))


def request(*resources: tuple[int, str, Sequence[Change]], validate_only: bool = False) -> Any:
    return incremental.IncrementalAlterConfigsRequest(
        resources=[
            incremental.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )


def alter(image: Image, kind: int, name: str, *changes: Change, validate_only: bool = False, **known: Any) -> str:
    asked = request((kind, name, changes), validate_only=validate_only)
    (answer,) = decided(incremental_alter_configs.decide, image, asked, **known).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return name_of(answer.error_code)


def replace(image: Image, kind: int, name: str, **settings: str | None) -> str:
    configs = [legacy.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()]
    resource = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    asked: Any = legacy.AlterConfigsRequest(resources=[resource], validate_only=False)
    (answer,) = decided(alter_configs.decide, image, asked).responses
    return name_of(answer.error_code)


def test_single_configs_are_set_and_deleted() -> None:
    image = a_cluster()
    assert alter(image, TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "7")) == "NONE"
    assert alter(image, TOPIC, "t", ("retention.ms", DELETE, None), ("flush.ms", DELETE, None)) == "NONE"
    assert image.config(TOPIC, "t") == {"segment.ms": "7"}
    assert image.config(TOPIC, "u") == {}


def test_unchanged_configs_are_written_for_brokers_only() -> None:
    image = a_cluster()
    alter(image, TOPIC, "t", ("retention.ms", SET, "5"))
    same = request((TOPIC, "t", [("retention.ms", SET, "5")]))
    assert incremental_alter_configs.decide(image, same, context()).records == []
    unknown = request((BROKER, "1", [("no.such", DELETE, None)]))
    assert incremental_alter_configs.decide(image, unknown, context()).records == [
        ConfigRecord(BROKER, "1", "no.such", None)
    ]


def test_append_and_subtract_start_from_the_default_of_a_list() -> None:
    image, policy = a_cluster(), "cleanup.policy"
    steps = [
        ((policy, APPEND, "compact"), "delete,compact"),
        ((policy, APPEND, "compact"), "delete,compact"),
        ((policy, SUBTRACT, "delete,delete"), "compact"),
        ((policy, SUBTRACT, "compact"), ""),
        ((policy, APPEND, "compact,delete"), "compact,delete"),
    ]
    for change, value in steps:
        assert alter(image, TOPIC, "t", change) == "NONE"
        assert image.config(TOPIC, "t") == {policy: value}


@pytest.mark.parametrize(("size_bytes", "error"), [(32_767, "NONE"), (32_768, "INVALID_CONFIG")])
def test_what_a_list_is_appended_to_has_the_size_of_a_string_of_the_protocol(size_bytes: int, error: str) -> None:
    image, throttled = a_cluster(), "follower.replication.throttled.replicas"
    long = ",".join(f"{number}:1" for number in range(4_000))
    assert alter(image, TOPIC, "t", (throttled, SET, long)) == "NONE"
    item = "1:" + "2" * (size_bytes - len(long) - len(",1:"))
    assert alter(image, TOPIC, "t", (throttled, APPEND, item)) == error
    assert len(image.config(TOPIC, "t")[throttled]) == (size_bytes if error == "NONE" else len(long))


def test_items_are_subtracted_as_often_as_they_are_named() -> None:
    image, throttled = a_cluster(), "follower.replication.throttled.replicas"
    assert alter(image, TOPIC, "t", (throttled, SET, "7:1,8:1,7:1,7:1")) == "NONE"
    assert alter(image, TOPIC, "t", (throttled, SUBTRACT, "7:1,9:9,7:1")) == "NONE"
    assert image.config(TOPIC, "t") == {throttled: "8:1,7:1"}
    assert alter(image, TOPIC, "t", (throttled, APPEND, "9:1,8:1,9:1")) == "NONE"
    assert image.config(TOPIC, "t") == {throttled: "8:1,7:1,9:1"}


def test_validate_only_changes_nothing() -> None:
    image = a_cluster()
    assert alter(image, TOPIC, "t", ("retention.ms", SET, "5"), validate_only=True) == "NONE"
    assert alter(image, TOPIC, "t", ("retention.ms", SET, "x"), validate_only=True) == "INVALID_CONFIG"
    assert image.config(TOPIC, "t") == {}


def test_alter_configs_replaces_everything() -> None:
    image = a_cluster()
    assert replace(image, TOPIC, "t", retention_ms="5", segment_ms="7") == "NONE"
    assert replace(image, TOPIC, "t", retention_ms="6") == "NONE"
    assert image.config(TOPIC, "t") == {"retention.ms": "6"}
    assert replace(image, TOPIC, "t") == "NONE"
    assert image.config(TOPIC, "t") == {}


REFUSED: dict[str, tuple[int, str, list[Change], str]] = {
    "a value that is no number": (TOPIC, "t", [("retention.ms", SET, "soon")], "INVALID_CONFIG"),
    "a value out of bounds": (TOPIC, "t", [("retention.ms", SET, "-2")], "INVALID_CONFIG"),
    "an unknown setting": (TOPIC, "t", [("no.such", SET, "1")], "INVALID_CONFIG"),
    "a null": (TOPIC, "t", [("retention.ms", SET, None)], "INVALID_REQUEST"),
    "adding a null": (TOPIC, "t", [("cleanup.policy", APPEND, None)], "INVALID_REQUEST"),
    "adding to a number": (TOPIC, "t", [("retention.ms", APPEND, "1")], "INVALID_CONFIG"),
    "adding to the unknown": (TOPIC, "t", [("no.such", APPEND, "1")], "INVALID_CONFIG"),
    "adding what cannot be in it": (TOPIC, "t", [("cleanup.policy", APPEND, "x")], "INVALID_CONFIG"),
    "a setting twice": (TOPIC, "t", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], "INVALID_REQUEST"),
    "an unknown operation": (TOPIC, "t", [("retention.ms", 7, "1")], "INVALID_REQUEST"),
    "an unknown topic": (TOPIC, "x", [("retention.ms", SET, "1")], "UNKNOWN_TOPIC_OR_PARTITION"),
    "an unknown topic without changes": (TOPIC, "x", [], "UNKNOWN_TOPIC_OR_PARTITION"),
    "an unknown topic with a wrong value": (TOPIC, "x", [("retention.ms", SET, "x")], "INVALID_CONFIG"),
    "a name that no topic has": (TOPIC, "a/b", [("retention.ms", SET, "1")], "INVALID_TOPIC_EXCEPTION"),
    "all topics": (TOPIC, "", [("retention.ms", SET, "1")], "INVALID_REQUEST"),
    "no resource type": (0, "", [], "INVALID_REQUEST"),
    "an unknown resource type": (99, "x", [("a", SET, "1")], "INVALID_REQUEST"),
    "another broker": (BROKER, "9", [("log.cleaner.threads", SET, "1")], "INVALID_REQUEST"),
    "a broker that is no number": (BROKER, "x", [], "INVALID_REQUEST"),
    "a setting of the file": (BROKER, "1", [("node.id", SET, "5")], "INVALID_REQUEST"),
    "a setting of the file, for all": (BROKER, "", [("log.retention.hours", SET, "5")], "INVALID_REQUEST"),
    "a wrong value for a broker": (BROKER, "1", [("log.cleaner.threads", SET, "many")], "INVALID_REQUEST"),
    "one broker's setting for all": (BROKER, "", [("sasl.jaas.config", SET, "x")], "INVALID_REQUEST"),
    "a listener's own for all": (BROKER, "", [("listener.name.x.ssl.keystore.location", SET, "/x")], "INVALID_REQUEST"),
    "a key store of all listeners": (BROKER, "1", [("ssl.keystore.location", SET, "/x")], "INVALID_REQUEST"),
    "listeners of a running node": (BROKER, "1", [("listeners", SET, "PLAINTEXT://:1")], "INVALID_REQUEST"),
    "no retention at all": (BROKER, "1", [("log.retention.ms", SET, "0")], "INVALID_REQUEST"),
    "adding to a broker's number": (BROKER, "1", [("log.cleaner.threads", APPEND, "2")], "INVALID_CONFIG"),
    "adding to a broker's unknown": (BROKER, "1", [("no.such", APPEND, "2")], "INVALID_CONFIG"),
    "min.insync.replicas of one broker": (BROKER, "1", [("min.insync.replicas", SET, "1")], "INVALID_CONFIG"),
    "no min.insync.replicas of one": (BROKER, "1", [("min.insync.replicas", DELETE, None)], "INVALID_CONFIG"),
    "no min.insync.replicas": (BROKER, "", [("min.insync.replicas", DELETE, None)], "INVALID_CONFIG"),
    "min.insync.replicas of 0": (BROKER, "", [("min.insync.replicas", SET, "0")], "INVALID_REQUEST"),
    "a group's unknown setting": (GROUP, "g", [("no.such", SET, "1")], "INVALID_CONFIG"),
    "a session below the node's bound": (GROUP, "g", [("consumer.session.timeout.ms", SET, "1")], "INVALID_CONFIG"),
    "a session above it": (GROUP, "g", [("consumer.session.timeout.ms", SET, "60001")], "INVALID_CONFIG"),
    "a session that is no number": (GROUP, "g", [("consumer.session.timeout.ms", SET, "x")], "INVALID_CONFIG"),
    "more standby replicas than allowed": (GROUP, "g", [("streams.num.standby.replicas", SET, "9")], "INVALID_CONFIG"),
    "all groups": (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")], "INVALID_REQUEST"),
    "no subscription": (METRICS, "", [("interval.ms", SET, "1000")], "INVALID_REQUEST"),
    "an interval too short": (METRICS, "m", [("interval.ms", SET, "1")], "INVALID_REQUEST"),
    "an interval that is none": (METRICS, "m", [("interval.ms", SET, "x")], "INVALID_CONFIG"),
    "a pattern of nothing": (METRICS, "m", [("match", SET, "a=b")], "INVALID_CONFIG"),
    "a pattern that is none": (METRICS, "m", [("match", SET, "client_id=[")], "INVALID_CONFIG"),
    "an unknown setting of metrics": (METRICS, "m", [("x", SET, "1")], "INVALID_REQUEST"),
    "adding metrics": (METRICS, "m", [("metrics", APPEND, "a")], "INVALID_CONFIG"),
    "a level that is none": (LOGGER, "1", [("root", SET, "LOUD")], "INVALID_CONFIG"),
    "a level in small letters": (LOGGER, "1", [("root", SET, "debug")], "INVALID_CONFIG"),
    "an unknown logger": (LOGGER, "1", [("no.such", SET, "INFO")], "INVALID_CONFIG"),
    "adding to a logger": (LOGGER, "1", [("root", APPEND, "INFO")], "INVALID_REQUEST"),
    "no level for the root": (LOGGER, "1", [("root", DELETE, None)], "INVALID_REQUEST"),
    "another node's logger": (LOGGER, "7", [("root", SET, "INFO")], "INVALID_REQUEST"),
    "nobody's logger": (LOGGER, "", [("root", SET, "INFO")], "INVALID_REQUEST"),
}


@pytest.mark.parametrize(("kind", "name", "changes", "error"), REFUSED.values(), ids=REFUSED)
def test_rejected_changes(kind: int, name: str, changes: list[Change], error: str) -> None:
    image, untouched = a_cluster(), a_cluster()
    assert alter(image, kind, name, *changes) == error
    assert image == untouched


TAKEN: dict[str, tuple[int, str, list[Change]]] = {
    "deleting what nobody knows": (TOPIC, "t", [("no.such", DELETE, None)]),
    "no changes": (TOPIC, "t", []),
    "an unknown setting of a broker": (BROKER, "1", [("no.such.setting", SET, "5")]),
    "a node's number with a zero before it": (BROKER, "01", [("log.cleaner.threads", SET, "2")]),
    "adding to a broker's list": (BROKER, "1", [("log.cleanup.policy", APPEND, "compact")]),
    "a listener's own setting": (BROKER, "1", [("listener.name.x.ssl.keystore.location", SET, "/x")]),
    "min.insync.replicas of the cluster": (BROKER, "", [("min.insync.replicas", SET, "2")]),
    "a group that does not exist": (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")]),
    "deleting a group's unknown setting": (GROUP, "g", [("no.such", DELETE, None)]),
    "share groups by duration": (GROUP, "g", [("share.auto.offset.reset", SET, "by_duration:PT1H")]),
    "a subscription": (METRICS, "m", [("interval.ms", SET, "1000"), ("match", SET, "client_id=b.*")]),
    "a logger": (LOGGER, "1", [("minikafka", SET, "DEBUG")]),
}


@pytest.mark.parametrize(("kind", "name", "changes"), TAKEN.values(), ids=TAKEN)
def test_accepted_changes(kind: int, name: str, changes: list[Change]) -> None:
    assert alter(a_cluster(), kind, name, *changes) == "NONE"


def test_an_invalid_config_rejects_its_resource_only() -> None:
    image = a_cluster()
    asked = request(
        (TOPIC, "t", [("retention.ms", SET, "soon"), ("retention.bytes", SET, "7")]),
        (TOPIC, "u", [("retention.ms", SET, "1")]),
        (3, "x", []),
    )
    told = [name_of(one.error_code) for one in decided(incremental_alter_configs.decide, image, asked).responses]
    assert told == ["INVALID_CONFIG", "NONE", "INVALID_REQUEST"]
    assert (image.config(TOPIC, "t"), image.config(TOPIC, "u")) == ({}, {"retention.ms": "1"})


def test_a_duplicate_resource_is_rejected_twice() -> None:
    image = a_cluster()
    twice = request((TOPIC, "t", [("retention.ms", SET, "1")]), (TOPIC, "t", [("retention.ms", SET, "2")]))
    answers = decided(incremental_alter_configs.decide, image, twice).responses
    assert [name_of(one.error_code) for one in answers] == ["INVALID_REQUEST"] * 2
    assert image.config(TOPIC, "t") == {}


def test_alter_configs_rejects_loggers_and_keeps_the_cluster_wide_min_insync_replicas() -> None:
    image = a_cluster()
    assert replace(image, LOGGER, "1", root="INFO") == "INVALID_REQUEST"
    assert replace(image, BROKER, "", log_cleaner_threads="1") == "INVALID_CONFIG"
    assert replace(image, BROKER, "", log_cleaner_threads="1", min_insync_replicas="2") == "NONE"
    assert replace(image, TOPIC, "t", retention_ms=None) == "INVALID_REQUEST"


def test_log_levels_write_no_metadata() -> None:
    change = request((LOGGER, "1", [("minikafka", SET, "DEBUG"), ("root", SET, "WARN")]))
    decision = incremental_alter_configs.decide(a_cluster(), change, context())
    assert decision.records == []
    assert decision.log_levels == {"minikafka": "DEBUG", "root": "WARN"}
    change.validate_only = True
    assert incremental_alter_configs.decide(a_cluster(), change, context()).log_levels == {}
    back = request((LOGGER, "1", [("minikafka", DELETE, None)]))
    assert incremental_alter_configs.decide(a_cluster(), back, context()).log_levels == {"minikafka": "INFO"}


def test_the_first_invalid_operation_on_a_logger_decides() -> None:
    image = a_cluster()
    assert alter(image, LOGGER, "1", ("nope", DELETE, "x"), ("root", APPEND, "x")) == "INVALID_CONFIG"
    assert alter(image, LOGGER, "1", ("root", APPEND, "x"), ("nope", DELETE, "x")) == "INVALID_REQUEST"
    assert alter(image, LOGGER, "1", ("minikafka", DELETE, "LOUD")) == "NONE"


@pytest.mark.parametrize("name", ["1", "+1", "01", "0" * 5000 + "1", "\u0661", "\uff11"])
def test_a_broker_is_named_as_java_parses_numbers(name: str) -> None:
    assert alter(a_cluster(), BROKER, name, ("background.threads", SET, "9")) == "NONE"


@pytest.mark.parametrize("name", [" 1", "1_", "\u00b2", "-1", "2147483647", "2147483648", "9" * 5000])
def test_what_is_no_number_of_this_broker_is_refused(name: str) -> None:
    assert alter(a_cluster(), BROKER, name, ("background.threads", SET, "9")) == "INVALID_REQUEST"


def test_a_broker_checks_its_values_before_the_controller_checks_min_insync_replicas() -> None:
    image = a_cluster()
    assert replace(image, BROKER, "", background_threads="1") == "INVALID_REQUEST"
    assert replace(image, BROKER, "", background_threads="9") == "INVALID_CONFIG"


def test_of_a_subscription_names_are_checked_first_and_patterns_last() -> None:
    image = a_cluster()
    pattern, unknown = ("match", SET, "client_id=["), ("nope", SET, "1")
    assert alter(image, METRICS, "s", ("interval.ms", SET, "x"), unknown) == "INVALID_REQUEST"
    assert alter(image, METRICS, "s", pattern, ("interval.ms", SET, "1")) == "INVALID_REQUEST"
    assert alter(image, METRICS, "s", pattern, ("interval.ms", SET, "200")) == "INVALID_CONFIG"


def test_broker_configs_bound_group_configs() -> None:
    wide = static(group_consumer_min_session_timeout_ms="1", group_consumer_min_heartbeat_interval_ms="1")
    change = ("consumer.session.timeout.ms", SET, "4000")
    assert alter(a_cluster(), GROUP, "g", change, node=wide) == "INVALID_CONFIG"  # below the heartbeat interval
    faster = ("consumer.heartbeat.interval.ms", SET, "1000")
    assert alter(a_cluster(), GROUP, "g", change, faster, node=wide) == "NONE"
