"""DescribeConfigs: effective values, sources and synonyms."""

from typing import Any

import pytest
from support.images import applied, cluster, name_of, static, with_topic

from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ConfigRecord
from minikafka.controller.settings.describe_configs import ConfigDescriptions
from minikafka.controller.settings.effective_settings import EffectiveSettings
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from minikafka.protocol.settings.registry import BROKER_SETTINGS

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
LEVELS = {"root": "INFO", "minikafka": "DEBUG"}
Synonym = tuple[str, str | None, int]


def a_cluster(*records: ConfigRecord) -> Image:
    return applied(records, with_topic(cluster(), "t", (1,)))


def ask(
    image: Image,
    *resources: tuple[int, str],
    keys: list[str] | None = None,
    node: StaticSettings | None = None,
    **more: bool,
) -> list[Any]:
    asked = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for kind, name in resources
    ]
    request = DescribeConfigsRequest(resources=asked, include_synonyms=True, **more)
    descriptions = ConfigDescriptions(request, EffectiveSettings(node or static(), image), LEVELS)
    return [descriptions.of(resource) for resource in asked]


def told(image: Image, kind: int, name: str, key: str, node: StaticSettings | None = None) -> tuple[Any, ...]:
    """Value, source and synonyms of one setting."""
    (result,) = ask(image, (kind, name), keys=[key], node=node)
    (entry,) = result.configs
    synonyms = [(one.name, one.value, one.source) for one in entry.synonyms]
    return entry.value, entry.config_source, synonyms


@pytest.mark.parametrize("name", ["super.users", "allow.everyone.if.no.acl.found"])
def test_settings_of_the_authorizer_are_hidden_as_kafka_hides_what_it_does_not_know(name: str) -> None:
    image = a_cluster(ConfigRecord(BROKER, "1", name, "User:eve"), ConfigRecord(BROKER, "", name, "User:eve"))
    assert told(image, BROKER, "1", name) == (None, 2, [(name, None, 2), (name, None, 3)])
    assert told(image, BROKER, "", name) == (None, 3, [(name, None, 3)])
    given = StaticSettings(1, {name: "User:eve"})
    assert told(a_cluster(), BROKER, "1", name, given) == (None, 4, [(name, None, 4)])


SECRETS = [name for name, setting in BROKER_SETTINGS.items() if setting.sensitive]
OF_LISTENERS = ["listener.name.l.ssl.key.password", "listener.name.l.plain.sasl.jaas.config"]


@pytest.mark.parametrize("name", [*SECRETS, *OF_LISTENERS, "of.nobody"])
def test_a_secret_is_shown_nowhere_wherever_it_was_set(name: str) -> None:
    """A controller stores any setting that a tool sets, also for all brokers."""
    given = StaticSettings(1, {name: "the-secret"})
    of_one, of_all = (ConfigRecord(BROKER, broker, name, "the-secret") for broker in ("1", ""))
    for image, node in ((a_cluster(), given), (a_cluster(of_one), static()), (a_cluster(of_all, of_one), given)):
        results = ask(image, (BROKER, "1"), (BROKER, ""), node=node)
        assert "the-secret" not in str(results)
        shown = [entry for result in results for entry in result.configs if entry.name == name]
        assert shown
        assert all(entry.is_sensitive for entry in shown)


def test_a_topic_config_takes_precedence_over_the_broker_config() -> None:
    image = a_cluster(ConfigRecord(TOPIC, "t", "cleanup.policy", " compact , delete,delete "))
    assert told(image, TOPIC, "t", "cleanup.policy") == (
        "compact,delete",
        1,
        [("cleanup.policy", "compact,delete", 1), ("log.cleanup.policy", "delete", 5)],
    )


RETENTION: dict[str, tuple[dict[str, str], str, str | None, int, list[Synonym]]] = {
    "nothing": ({}, "168", None, 5, []),
    "hours": ({"log_retention_hours": "5"}, "5", None, 5, []),
    "milliseconds and hours": (
        {"log_retention_hours": "5", "log_retention_ms": "7200000"},
        "5",
        "7200000",
        4,
        [("log.retention.ms", "7200000", 4), ("log.retention.hours", "5", 4), ("log.retention.hours", "168", 5)],
    ),
    "minutes and milliseconds": (
        {"log_retention_minutes": "3", "log_retention_ms": "1"},
        "168",
        "1",
        4,
        [("log.retention.ms", "1", 4), ("log.retention.minutes", "3", 4), ("log.retention.hours", "168", 5)],
    ),
}


@pytest.mark.parametrize(("given", "hours", "ms", "source", "synonyms"), RETENTION.values(), ids=RETENTION)
def test_retention_given_in(
    given: dict[str, str], hours: str, ms: str | None, source: int, synonyms: list[Synonym]
) -> None:
    image, node = a_cluster(), static(**given)
    assert told(image, BROKER, "1", "log.retention.hours", node)[0] == hours
    assert told(image, BROKER, "1", "log.retention.ms", node) == (ms, source, synonyms)
    assert told(image, TOPIC, "t", "retention.ms", node)[1:] == (source, synonyms)


IN_FORCE: list[tuple[dict[str, str], str, str]] = [
    ({}, "retention.ms", "604800000"),
    ({"log_retention_hours": "1"}, "retention.ms", "3600000"),
    ({"log_retention_hours": "1", "log_retention_minutes": "1"}, "retention.ms", "60000"),
    ({"log_retention_minutes": "1", "log_retention_ms": "5"}, "retention.ms", "5"),
    ({"log_retention_hours": "-1"}, "retention.ms", "-1"),
    ({"log_roll_hours": "2"}, "segment.ms", "7200000"),
    ({"log_roll_hours": "2", "log_roll_ms": "9"}, "segment.ms", "9"),
    ({"log_roll_jitter_hours": "1"}, "segment.jitter.ms", "3600000"),
    ({"log_flush_scheduler_interval_ms": "7"}, "flush.ms", "7"),
    ({"log_flush_scheduler_interval_ms": "7", "log_flush_interval_ms": "3"}, "flush.ms", "3"),
    ({"message_max_bytes": "1000"}, "max.message.bytes", "1000"),
]


@pytest.mark.parametrize(("given", "name", "value"), IN_FORCE)
def test_a_static_broker_config_is_the_default_of_a_topic_config(given: dict[str, str], name: str, value: str) -> None:
    assert told(a_cluster(), TOPIC, "t", name, static(**given))[0] == value


def test_a_dynamic_broker_config_takes_precedence_over_the_cluster_wide_one() -> None:
    name = "log.cleaner.threads"
    image = a_cluster(ConfigRecord(BROKER, "", name, "3"), ConfigRecord(BROKER, "1", name, "2"))
    assert told(image, BROKER, "1", name) == ("2", 2, [(name, "2", 2), (name, "3", 3), (name, "1", 5)])
    applied([ConfigRecord(BROKER, "1", name, None)], image)
    assert told(image, BROKER, "1", name, static(log_cleaner_threads="4"))[0] == "3"


def test_a_dynamic_config_overrides_static_synonyms_that_precede_it() -> None:
    image = a_cluster(ConfigRecord(BROKER, "", "log.roll.ms", "5"))
    assert told(image, TOPIC, "t", "segment.ms", static(log_roll_ms="1", log_roll_hours="2"))[0] == "5"


def test_the_cluster_wide_resource_has_dynamic_configs_only() -> None:
    image = a_cluster(ConfigRecord(BROKER, "", "no.such", "5"))
    (result,) = ask(image, (BROKER, ""))
    entries = {entry.name: (entry.value, entry.config_source, entry.is_sensitive) for entry in result.configs}
    assert entries == {"min.insync.replicas": ("1", 3, False), "no.such": (None, 3, True)}
    assert told(image, BROKER, "", "min.insync.replicas")[2] == [("min.insync.replicas", "1", 3)]


def test_a_node_describes_every_config_and_hides_sensitive_and_unknown_values() -> None:
    node = static(ssl_key_password="hunter2", some_addon="secret")
    (result,) = ask(a_cluster(), (BROKER, "1"), node=node)
    entries = {entry.name: entry for entry in result.configs}
    assert len(entries) == 341
    for name in ("ssl.key.password", "some.addon"):
        assert (entries[name].value, entries[name].is_sensitive) == (None, True)
        assert all(synonym.value is None for synonym in entries[name].synonyms)
    assert (entries["node.id"].value, entries["node.id"].config_source, entries["node.id"].read_only) == ("1", 4, True)
    assert entries["log.retention.ms"].value is None
    assert not entries["message.max.bytes"].read_only


def test_a_listener_config_is_described_like_its_base_config() -> None:
    place, secret = "listener.name.x.ssl.keystore.location", "listener.name.x.ssl.keystore.password"
    image = a_cluster(ConfigRecord(BROKER, "1", place, "/x"), ConfigRecord(BROKER, "1", secret, "hunter2"))
    assert told(image, BROKER, "1", place) == ("/x", 2, [(place, "/x", 2)])
    assert told(image, BROKER, "1", secret) == (None, 2, [(secret, None, 2)])


def test_defaults_of_minikafka_have_the_source_default_config() -> None:
    node = StaticSettings(1, {"node.id": "1"}, {"group.initial.rebalance.delay.ms": "0"})
    name = "group.initial.rebalance.delay.ms"
    assert told(a_cluster(), BROKER, "1", name, node) == ("0", 5, [(name, "0", 5)])


def test_a_group_that_does_not_exist_has_configs() -> None:
    name = "consumer.session.timeout.ms"
    image = a_cluster(ConfigRecord(GROUP, "g", name, "50000"))
    behind = ("group.consumer.session.timeout.ms", "45000", 5)
    assert told(image, GROUP, "g", name) == ("50000", 8, [(name, "50000", 8), behind])
    assert told(image, GROUP, "other", name) == ("45000", 5, [behind])
    isolation = "share.isolation.level"
    assert told(image, GROUP, "g", isolation) == ("read_uncommitted", 5, [(isolation, "read_uncommitted", 5)])


def test_a_client_metrics_subscription_has_defaults() -> None:
    image = a_cluster(ConfigRecord(METRICS, "m", "interval.ms", "1000"))
    assert told(image, METRICS, "m", "interval.ms") == ("1000", 7, [("interval.ms", "1000", 7)])
    assert told(image, METRICS, "m", "metrics") == ("", 5, [])


def test_loggers_are_described_with_their_levels() -> None:
    (result,) = ask(a_cluster(), (LOGGER, "1"))
    assert [(entry.name, entry.value, entry.config_source) for entry in result.configs] == [
        ("minikafka", "DEBUG", 6),
        ("root", "INFO", 6),
    ]


REFUSED = [
    (TOPIC, "unknown", "UNKNOWN_TOPIC_OR_PARTITION"),
    (TOPIC, "a/b", "INVALID_TOPIC_EXCEPTION"),
    (TOPIC, "", "INVALID_TOPIC_EXCEPTION"),
    (BROKER, "7", "INVALID_REQUEST"),
    (BROKER, "one", "INVALID_REQUEST"),
    (LOGGER, "7", "INVALID_REQUEST"),
    (LOGGER, "", "INVALID_REQUEST"),
    (GROUP, "", "INVALID_REQUEST"),
    (METRICS, "", "INVALID_REQUEST"),
]


@pytest.mark.parametrize(("kind", "name", "error"), REFUSED)
def test_an_invalid_resource_is_rejected(kind: int, name: str, error: str) -> None:
    refused, answered = ask(a_cluster(), (kind, name), (TOPIC, "t"))
    assert (name_of(refused.error_code), refused.configs) == (error, [])
    assert (refused.resource_type, refused.resource_name) == (kind, name)
    assert (answered.error_code, len(answered.configs)) == (0, 33)


def test_an_unknown_resource_type_rejects_all_resources() -> None:
    assert [name_of(one.error_code) for one in ask(a_cluster(), (TOPIC, "t"), (3, "x"))] == ["INVALID_REQUEST"] * 2


def test_configs_are_selected_by_key_and_no_keys_select_all() -> None:
    image = a_cluster()
    (some,) = ask(image, (TOPIC, "t"), keys=["segment.ms", "no.such"])
    assert [entry.name for entry in some.configs] == ["segment.ms"]
    assert all(len(ask(image, (TOPIC, "t"), keys=keys)[0].configs) == 33 for keys in ([], None))


def test_documentation_is_returned_on_request() -> None:
    (without,) = ask(a_cluster(), (TOPIC, "t"))
    (having,) = ask(a_cluster(), (TOPIC, "t"), include_documentation=True)
    assert all(entry.documentation is None for entry in without.configs)
    assert all(entry.documentation for entry in having.configs)


MANY: dict[str, tuple[Image, list[tuple[int, str]]]] = {
    "groups that do not exist": (a_cluster(), [(GROUP, f"g{number}") for number in range(500)]),
    "groups with the same settings": (
        a_cluster(*(ConfigRecord(GROUP, f"g{one}", "consumer.session.timeout.ms", "50000") for one in range(500))),
        [(GROUP, f"g{number}") for number in range(500)],
    ),
    "subscriptions to metrics that do not exist": (a_cluster(), [(METRICS, f"m{number}") for number in range(500)]),
    "a topic with settings, again and again": (
        a_cluster(ConfigRecord(TOPIC, "t", "retention.ms", "1")), [(TOPIC, "t")] * 500
    ),
    "a broker in many spellings": (a_cluster(), [(BROKER, "0" * zeros + "1") for zeros in range(500)]),
    "its loggers in many spellings": (a_cluster(), [(LOGGER, "+" + "0" * zeros + "1") for zeros in range(500)]),
}


@pytest.mark.parametrize("name", MANY)
def test_what_is_said_of_many_resources_is_made_once(name: str) -> None:
    """So 10,000 of them take no more memory than their lists of references."""
    image, named = MANY[name]
    (one,) = ask(image, named[0], include_documentation=True)
    results = ask(image, *named, include_documentation=True)
    assert [result.resource_name for result in results] == [name for _, name in named]
    assert all(result.configs == one.configs and len(one.configs) > 1 for result in results)
    assert len({id(entry) for result in results for entry in result.configs}) == len(one.configs)


def a_resource(kind: int, name: str) -> DescribeConfigsResource:
    return DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)


@pytest.mark.parametrize(("kind", "spelling"), [(BROKER, "01"), (BROKER, "+1"), (LOGGER, "001"), (LOGGER, "\u0661")])
def test_spellings_of_a_broker_name_the_same(kind: int, spelling: str) -> None:
    descriptions = ConfigDescriptions(DescribeConfigsRequest(), EffectiveSettings(static(), a_cluster()), LEVELS)

    def named(name: str) -> tuple[int, str]:
        return descriptions.named(a_resource(kind, name))

    assert named(spelling) == named("1")
    assert named("2") != named("1")
    assert named("x") != named("1")
    assert descriptions.named(a_resource(GROUP, spelling)) == (GROUP, spelling)
