"""Values of a broker that do not fit those that it has. Which of them Kafka refuses is in tests/conversations."""

import pytest

from minikafka.controller.decisions.broker_config_rules import check_on_broker
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ConfigRecord
from minikafka.controller.settings.effective_settings import EffectiveSettings, ResourceType
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.errors import InvalidRequestError


def check(
    name: str, value: str, *, static: dict[str, str] | None = None, own: dict[str, str] | None = None, broker: str = "1"
) -> None:
    image = Image()
    for key, text in (own or {}).items():
        image.apply(ConfigRecord(ResourceType.BROKER, "1", key, text))
    settings = EffectiveSettings(StaticSettings(1, static or {}), image)
    check_on_broker({**(own or {}), name: value} if broker else {name: value}, settings, per_broker=bool(broker))


REFUSED = [
    ("background.threads", "4"),
    ("background.threads", "21"),
    ("log.cleaner.threads", "0"),
    ("log.cleaner.threads", "3"),
    ("log.cleaner.dedupe.buffer.size", "1048576"),
    ("log.local.retention.ms", "-1"),
    ("log.roll.ms", "0"),
    ("log.roll.jitter.ms", "-1"),
    ("max.connections", "0"),
    ("listener.name.x.max.connections", "0"),
    ("max.connections.per.ip", "0"),
    ("max.connections.per.ip.overrides", "a"),
    ("max.connections.per.ip.overrides", "a:b"),
    ("metric.reporters", "no.such.Class"),
    ("group.consumer.assignment.interval.ms", "999999"),
]


@pytest.mark.parametrize("broker", ["1", ""])
@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_values_that_do_not_fit_are_refused(name: str, value: str, broker: str) -> None:
    with pytest.raises(InvalidRequestError):
        check(name, value, broker=broker)


@pytest.mark.parametrize(
    ("name", "value", "static"),
    [
        ("background.threads", "5", {}),
        ("background.threads", "20", {}),
        ("background.threads", "2", {"background.threads": "4"}),
        ("log.cleaner.threads", "2", {}),
        ("log.local.retention.ms", "-1", {"log.retention.ms": "-1"}),
        ("max.connections.per.ip", "0", {"max.connections.per.ip.overrides": "a:1"}),
        ("max.connections.per.ip.overrides", "::1:5,b:2", {}),
        ("remote.log.manager.follower.thread.pool.size", "4", {}),
    ],
)
def test_values_that_fit_are_taken(name: str, value: str, static: dict[str, str]) -> None:
    check(name, value, static=static)


def test_the_values_of_a_broker_count_before_those_of_all() -> None:
    check("background.threads", "1", own={"background.threads": "8"}, broker="")
    with pytest.raises(InvalidRequestError, match="current value 8"):
        check("background.threads", "3", own={"background.threads": "8"})


def test_a_value_that_the_broker_has_is_not_checked_again() -> None:
    check("background.threads", "10", own={"max.connections": "0"})
