"""Which settings of security hold when they are altered while a node runs."""

from __future__ import annotations

import pytest

from minikafka.broker.settings.altered_settings import tls_texts, why_refused, without_effect
from minikafka.broker.settings.listeners import Listener
from minikafka.broker.settings.own_settings import INITIAL_METADATA_VERSION, OWN_SETTINGS
from minikafka.controller.decisions import broker_config_validation
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ConfigRecord
from minikafka.controller.settings.effective_settings import EffectiveSettings, ResourceType
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.errors import InvalidRequestError

NODE, OTHER = "7", "8"
OURS = Listener("OURS", "h", 1, "SSL")
LOCATION, CLIENT_AUTH = "listener.name.ours.ssl.keystore.location", "listener.name.ours.ssl.client.auth"


def altered(broker: str, **settings: str | None) -> list[ConfigRecord]:
    """The records that set the settings of a broker, or delete those with None."""
    return [ConfigRecord(ResourceType.BROKER, broker, name, value) for name, value in settings.items()]


def test_tls_takes_stores_as_they_are_now_and_the_rest_as_it_was_at_the_start() -> None:
    image = Image()
    for record in altered(NODE, **{LOCATION: "new.p12", CLIENT_AUTH: "none", "ssl.cipher.suites": "none"}):
        image.apply(record)
    given = {"node.id": NODE, LOCATION: "old.p12", CLIENT_AUTH: "required"}
    assert tls_texts(EffectiveSettings(StaticSettings(int(NODE), given), image)) == given | {LOCATION: "new.p12"}


@pytest.mark.parametrize(
    "name",
    [
        CLIENT_AUTH,
        "listener.name.ours.plain.sasl.jaas.config",
        "listener.name.ours.nonsense",
        "ssl.client.auth",
        "sasl.jaas.config",
        "super.users",
        "allow.everyone.if.no.acl.found",
    ],
)
def test_a_setting_that_does_not_hold_is_named(name: str) -> None:
    assert without_effect(altered(NODE, **{name: "x"}), int(NODE)) == [name]
    assert without_effect(altered("", **{name: "x"}), int(NODE)) == [name]
    assert without_effect(altered(OTHER, **{name: "x"}), int(NODE)) == [], "another node's"
    assert without_effect(altered(NODE, **{name: None}), int(NODE)) == [], "it is deleted"


@pytest.mark.parametrize("name", [LOCATION, "listener.name.ours.max.connections", "max.connections"])
def test_a_setting_that_holds_is_not_named(name: str) -> None:
    assert without_effect(altered(NODE, **{name: "1"}), int(NODE)) == []


def test_only_a_change_of_all_listeners_is_compared_with_those_that_are_open() -> None:
    static, stored = {CLIENT_AUTH: "required"}, {CLIENT_AUTH: "none"}
    assert why_refused([OURS], static, static, stored) == ""
    assert "existing listener OURS" in why_refused([OURS], static, stored, stored | {"ssl.client.auth": "none"})
    assert why_refused([], static, stored, stored | {"ssl.client.auth": "none"}) == ""
    assert why_refused([OURS], static, static, static | {"ssl.client.auth": "none"}) == ""


@pytest.mark.parametrize("name", sorted(OWN_SETTINGS.keys() - {INITIAL_METADATA_VERSION}))
def test_the_settings_of_the_metrics_listener_cannot_change(name: str) -> None:
    for per_broker in (True, False):
        with pytest.raises(InvalidRequestError, match="minikafka cannot change these while it runs") as error:
            broker_config_validation.check({name: "secret-4711"}, per_broker=per_broker)
        assert "secret-4711" not in str(error.value)
