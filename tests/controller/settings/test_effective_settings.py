"""Effective settings: cached, and resolved again as soon as a dynamic config changes."""

from support.images import applied, cluster, static

from minikafka.controller.metadata.records import ConfigRecord
from minikafka.controller.settings.effective_settings import ConfigSource, EffectiveSettings

TOPIC, BROKER = 2, 4


def test_a_dynamic_broker_config_is_effective_at_once() -> None:
    image = cluster()
    settings = EffectiveSettings(static(), image)
    assert settings.topic("t")["segment.bytes"] == 1 << 30
    applied([ConfigRecord(BROKER, "", "log.segment.bytes", "2000000")], image)
    assert settings.topic("t")["segment.bytes"] == 2_000_000
    assert settings.topic_sources()["segment.bytes"] == ConfigSource.DYNAMIC_DEFAULT_BROKER
    applied([ConfigRecord(BROKER, "1", "log.segment.bytes", "3000000")], image)
    assert settings.topic("t")["segment.bytes"] == 3_000_000
    applied([ConfigRecord(BROKER, "1", "log.segment.bytes", None)], image)
    assert settings.topic("t")["segment.bytes"] == 2_000_000
    applied([ConfigRecord(BROKER, "", "log.segment.bytes", None)], image)
    assert settings.topic("t")["segment.bytes"] == 1 << 30
    assert settings.topic_sources()["segment.bytes"] == ConfigSource.DEFAULT


def test_a_topic_config_takes_precedence_and_affects_no_other_topic() -> None:
    image = cluster()
    settings = EffectiveSettings(static(), image)
    assert settings.topic("t")["retention.ms"] == settings.topic("u")["retention.ms"]
    applied([ConfigRecord(TOPIC, "t", "retention.ms", "5")], image)
    assert settings.topic("t")["retention.ms"] == 5
    assert settings.topic("u")["retention.ms"] == settings.topic_defaults()["retention.ms"] == 604_800_000


def test_callers_may_modify_the_returned_values() -> None:
    settings = EffectiveSettings(static(), cluster())
    settings.topic_defaults().clear()
    settings.topic("t").clear()
    settings.topic_sources().clear()
    assert settings.topic("t") == settings.topic_defaults() != {}
    assert settings.topic_sources() != {}


def test_equality_ignores_the_cache() -> None:
    image = cluster()
    one, other = EffectiveSettings(static(), image), EffectiveSettings(static(), image)
    one.topic("t")
    assert one == other


def test_node_values_are_resolved_once_and_again_after_a_change() -> None:
    """Each heartbeat of a consumer group asks for them: to resolve 300 values would take most of its time."""
    image = cluster()
    settings = EffectiveSettings(static(), image)
    name = "group.consumer.session.timeout.ms"
    before = settings.node()
    assert settings.node() is before
    assert before[name] == settings.group("g")["consumer.session.timeout.ms"] == 45_000
    applied([ConfigRecord(BROKER, "", name, "50000")], image)
    assert settings.node()[name] == settings.group("g")["consumer.session.timeout.ms"] == 50_000
    assert settings.node() is settings.node()
    applied([ConfigRecord(BROKER, "", name, None)], image)
    assert settings.node()[name] == 45_000
