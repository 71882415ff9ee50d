"""The settings of SASL listeners: what works, and what refuses the start with a sentence."""

from __future__ import annotations

import re

import pytest

from minikafka.broker.settings.node_config import ConfigError, load_config
from minikafka.broker.settings.sasl_settings import sasl_settings
from minikafka.broker.settings.token_settings import UNSECURED_HANDLER, VALIDATOR_HANDLERS, TokenSettings

MODULES = "org.apache.kafka.common.security"
PLAIN = f'{MODULES}.plain.PlainLoginModule required user_alice="hush";'
SCRAM = f"{MODULES}.scram.ScramLoginModule required;"
NODE = {"listeners": "CLIENT://127.0.0.1:9092", "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT"}
JAAS = "listener.name.client.plain.sasl.jaas.config"
GOOD = NODE | {"sasl.enabled.mechanisms": "PLAIN", JAAS: PLAIN}


def test_a_listener_has_its_mechanisms_in_their_order() -> None:
    given = GOOD | {
        "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "listener.name.client.scram-sha-512.sasl.jaas.config": SCRAM,
        "connections.max.reauth.ms": "1000",
        "listener.name.client.plain.connections.max.reauth.ms": "2000",
        "connection.failed.authentication.delay.ms": "5",
        "listener.name.client.sasl.server.max.receive.size": "7",
    }
    config = load_config(settings=given)
    assert (config.unknown, config.ignored) == ((), ())
    settings = sasl_settings(config.static.given, "CLIENT")
    assert [(name, one.session_ms_max) for name, one in settings.mechanisms.items()] == [
        ("SCRAM-SHA-512", 1000),
        ("PLAIN", 2000),
    ]
    assert settings.mechanisms["PLAIN"].login.passwords == {"alice": "hush"}
    assert (settings.message_bytes_max, settings.failure_delay_ms) == (7, 5)
    assert "hush" not in repr(settings)


def test_a_session_has_no_limit_by_default_or_below_zero() -> None:
    for given in (GOOD, GOOD | {"connections.max.reauth.ms": "-1"}):
        assert sasl_settings(given, "CLIENT").mechanisms["PLAIN"].session_ms_max == 0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI (Kerberos) of the listener CLIENT is not supported"),
        ({"sasl.enabled.mechanisms": "PLAIN,plain"}, "plain of the listener CLIENT is not supported"),
        ({"sasl.enabled.mechanisms": ""}, "needs a mechanism"),
        ({"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}, "scram-sha-256.sasl.jaas.config: is required"),
        ({JAAS: SCRAM}, "has the login module of another mechanism than PLAIN"),
        ({JAAS: PLAIN + PLAIN}, "contains 2 login modules"),
        ({JAAS: 'com.sun.security.auth.module.JndiLoginModule required user="hush";'}, "allowed: org.apache"),
        ({JAAS: PLAIN.rstrip(";")}, "not terminated by a semicolon"),
        ({"sasl.jaas.config": PLAIN}, "belongs to a mechanism of a listener"),
        ({"listener.name.client.sasl.jaas.config": PLAIN}, "listener.name.client.sasl.jaas.config"),
        ({"sasl.server.callback.handler.class": "com.Evil"}, "belongs to a mechanism of a listener"),
        ({"listener.name.client.plain.sasl.server.callback.handler.class": "com.Evil"}, "is not supported"),
    ],
)
def test_a_listener_that_cannot_authenticate_refuses_the_start(changes: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(settings=GOOD | changes)
    assert why in str(error.value)
    assert "hush" not in str(error.value)


BEARER = "listener.name.client.oauthbearer."
HANDLER, KEYS = f"{BEARER}sasl.server.callback.handler.class", "sasl.oauthbearer.jwks.endpoint.url"
TOKENS = NODE | {
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    f"{BEARER}sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
    HANDLER: VALIDATOR_HANDLERS[0],
    KEYS: "file:///keys.json",
}


def test_which_tokens_a_listener_takes() -> None:
    given = TOKENS | {
        "sasl.oauthbearer.expected.audience": "a,b",
        f"{BEARER}sasl.oauthbearer.expected.issuer": "us",
        "listener.name.client.sasl.oauthbearer.clock.skew.seconds": "5",
        "sasl.oauthbearer.sub.claim.name": "name",
        f"{BEARER}sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "50",
    }
    config = load_config(settings=given)
    assert (config.unknown, config.ignored) == ((), ())
    assert sasl_settings(given, "CLIENT").mechanisms["OAUTHBEARER"].tokens == TokenSettings(
        None, "file:///keys.json", 3_600_000, 50, 10_000, ("a", "b"), "us", 5, "scope", "name"
    )
    module = f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredValidatorRequiredScope="x" other="y";'
    unsecured = TOKENS | {HANDLER: UNSECURED_HANDLER, f"{BEARER}sasl.jaas.config": module}
    tokens = sasl_settings(unsecured, "CLIENT").mechanisms["OAUTHBEARER"].tokens
    assert tokens == TokenSettings({"unsecuredValidatorRequiredScope": "x"})


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({HANDLER: "com.Evil"}, "must say which tokens are taken"),
        ({HANDLER: ""}, "must say which tokens are taken"),
        ({"sasl.server.callback.handler.class": UNSECURED_HANDLER}, "belongs to a mechanism of a listener"),
        ({KEYS: "ftp://example.org/keys"}, "must be the URL of a file"),
        ({KEYS: "http:///keys"}, "must be the URL of a file"),
        ({KEYS: "https://user:hush@example.org/keys"}, "must be the URL of a file"),
        ({KEYS: "https://example.org/k\r\nX: y"}, "must be the URL of a file"),
        ({KEYS: "https://example.org:99999/"}, "must be the URL of a file"),
        ({KEYS: "file:///"}, "must be the URL of a file"),
        ({KEYS: "file:keys.json"}, "must be the URL of a file"),
        ({KEYS: ""}, "must be the URL of a file"),
        ({"sasl.oauthbearer.scope": "x"}, "sasl.oauthbearer.scope=x: is not supported"),
        (
            {
                HANDLER: UNSECURED_HANDLER,
                f"{BEARER}sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
                'unsecuredValidatorAllowableClockSkewMs="soon";',
            },
            "the option unsecuredValidatorAllowableClockSkewMs is not a number",
        ),
    ],
)
def test_a_listener_that_could_take_any_token_refuses_the_start(changes: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(why)):
        load_config(settings=TOKENS | changes)


def test_a_listener_without_sasl_needs_none_of_it() -> None:
    assert load_config(settings={"sasl.enabled.mechanisms": "GSSAPI"}).client_listeners[0].protocol == "PLAINTEXT"


CONTROLLERS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "CLIENT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "CLIENT",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.controller.plain.sasl.jaas.config": PLAIN.replace(" user_", ' username="a" password="hush" user_'),
    "listener.name.controller.scram-sha-512.sasl.jaas.config": SCRAM.replace(";", ' username="a" password="hush";'),
}
BROKER = CONTROLLERS | {"node.id": "2", "process.roles": "broker", "listeners": "CLIENT://127.0.0.1:9092"}
MECHANISM = "sasl.mechanism.controller.protocol"
PLAIN_JAAS = "listener.name.controller.plain.sasl.jaas.config"
SEVERAL = {"controller.quorum.voters": "1@127.0.0.1:9093,3@127.0.0.1:9094"}


@pytest.mark.parametrize(
    "given",
    [
        CONTROLLERS,
        CONTROLLERS | {MECHANISM: "SCRAM-SHA-512"},
        CONTROLLERS | SEVERAL,
        BROKER,
        BROKER | SEVERAL | {MECHANISM: "SCRAM-SHA-512"},
        {name: text for name, text in BROKER.items() if "enabled.mechanisms" not in name},
    ],
)
def test_nodes_can_log_in_at_controllers(given: dict[str, str]) -> None:
    config = load_config(settings=given)
    assert (config.unknown, config.ignored) == ((), ())


SECOND = {
    "listeners": "CLIENT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093,QUORUM://127.0.0.1:9094",
    "controller.listener.names": "CONTROLLER,QUORUM",
}


@pytest.mark.parametrize("protocols", ["PLAINTEXT,QUORUM:SASL_PLAINTEXT", "SASL_PLAINTEXT,QUORUM:PLAINTEXT"])
def test_a_second_controller_listener_does_not_start_open(protocols: str) -> None:
    quorum = {name.replace(".controller.", ".quorum."): text for name, text in CONTROLLERS.items()}
    given = quorum | CONTROLLERS | SECOND
    with pytest.raises(ConfigError, match=r"must name one controller listener only, as \w+ is SASL_PLAINTEXT"):
        load_config(settings=given | {"listener.security.protocol.map": f"CLIENT:PLAINTEXT,CONTROLLER:{protocols}"})
    plain = "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,QUORUM:PLAINTEXT"
    assert len(load_config(settings=given | {"listener.security.protocol.map": plain}).listeners.for_controllers) == 2


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (CONTROLLERS | {MECHANISM: "OAUTHBEARER"}, f"{MECHANISM}: OAUTHBEARER is not enabled on"),
        (CONTROLLERS | {PLAIN_JAAS: PLAIN}, "nodes log in by it, and it has no username"),
        (BROKER | {MECHANISM: "GSSAPI"}, f"{MECHANISM}: GSSAPI is not enabled"),
        (BROKER | {MECHANISM: "SCRAM-SHA-256"}, "scram-sha-256.sasl.jaas.config: is required"),
        (CONTROLLERS | SEVERAL | {MECHANISM: "SCRAM-SHA-512"}, "several controllers cannot log in at each other"),
    ],
)
def test_a_node_that_cannot_log_in_at_controllers_refuses_the_start(given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(settings=given)
    assert why in str(error.value)
    assert "hush" not in str(error.value)
