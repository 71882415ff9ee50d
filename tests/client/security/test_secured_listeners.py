"""Clients reach each kind of secured listener, and errors say at the first attempt what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.secured_nodes import (
    PASSWORD,
    SCRAM_PASSWORD,
    SCRAM_USER,
    USER,
    SecuredNode,
    jaas_of_oauth,
    jaas_of_plain,
)

from minikafka.client import Admin, Consumer, Producer, blocking
from minikafka.client.connections.seams import Seams
from minikafka.protocol.errors import (
    AuthenticationError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailedError,
    SslAuthenticationError,
    UnsupportedSaslMechanismError,
)
from minikafka.protocol.sasl.unsecured_token import unsecured_claims, unsecured_token

pytestmark = pytest.mark.anyio
SECRET = "not-the-password"


def token(now_ms: int = 0) -> str:
    lasting = {"unsecuredLoginStringClaim_sub": USER, "unsecuredLoginLifetimeSeconds": "9000000000"}
    return unsecured_token(unsecured_claims(lasting, now_ms))


async def token_later() -> str:
    return token()


def plain(password: str = PASSWORD) -> dict[str, str]:
    return {"sasl_mechanism": "PLAIN", "sasl_username": USER, "sasl_password": password}


def scram(bits: int, password: str = SCRAM_PASSWORD, user: str = SCRAM_USER) -> dict[str, str]:
    return {"sasl_mechanism": f"SCRAM-SHA-{bits}", "sasl_username": user, "sasl_password": password}


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "plaintext": ("PLAINTEXT", {}),
    "tls": ("TLS", {}),
    "tls of 1.2": ("TLS", {"ssl_enabled_protocols": ["TLSv1.2"]}),
    "tls without the name": ("STRANGE", {"ssl_endpoint_identification_algorithm": "none"}),
    "mutual tls": ("MUTUAL", {"ssl_keystore_location": "client.pem", "ssl_keystore_type": "PEM"}),
    "mutual tls by pkcs12": (
        "MUTUAL",
        {"ssl_keystore_location": "client.p12", "ssl_keystore_type": "PKCS12", "ssl_keystore_password": "store-secret"},
    ),
    "mutual tls by librdkafka's names": (
        "MUTUAL",
        {
            "ssl_certificate_location": "client-chain.pem",
            "ssl_key_location": "client-key.pem",
            "ssl_key_password": PASSWORD,
        },
    ),
    "plain": ("LOGIN", plain()),
    "plain by jaas": ("LOGIN", {"sasl_jaas_config": jaas_of_plain()}),
    "plain over tls": ("BOTH", plain()),
    "scram 256": ("LOGIN", scram(256)),
    "scram 512 over tls": ("BOTH", scram(512)),
    "unsecured token": ("LOGIN", {"sasl_jaas_config": jaas_of_oauth()}),
    "token": ("LOGIN", {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": token}),
    "token that comes later": ("LOGIN", {"sasl_mechanisms": "OAUTHBEARER", "sasl_oauth_token_provider": token_later}),
}


def options(node: SecuredNode, listener: str, given: dict[str, Any]) -> dict[str, Any]:
    """The options of a client; names of files become paths."""
    named = {name: str(node.files.folder / value) for name, value in given.items() if name.endswith("_location")}
    return node.options(listener, **{**given, **named})


@pytest.mark.parametrize("way", WAYS)
async def test_records_go_each_way(secured: SecuredNode, way: str, topic: str) -> None:
    given = options(secured, *WAYS[way])
    value = b"x" * 300_000  # more than a record of TLS
    async with Producer(**given, compression_type="none") as producer:
        await producer.send_and_wait(topic, value)
        await producer.send_and_wait(topic, b"small")
    async with Consumer(topic, **given, auto_offset_reset="earliest", stop_at="end") as consumer:
        assert [record.value async for record in consumer] == [value, b"small"]


def failing_provider() -> str:
    raise ConnectionError("the issuer is away")


LOGIN, BOTH = "SASL_PLAINTEXT", "SASL_SSL"
ERRORS: dict[str, tuple[str, dict[str, Any], type[KafkaError], str]] = {
    "unknown authority": (
        "TLS",
        {"ssl_ca_location": "stranger-ca.pem"},
        SslAuthenticationError,
        "is not trusted: .*certificate.*; ssl.truststore.location or",
    ),
    "another host": ("STRANGE", {}, SslAuthenticationError, "not trusted: .*not valid for '127.0.0.1'; connect by a"),
    "no certificate": ("MUTUAL", {}, SslAuthenticationError, "refused the TLS handshake: .*ssl.keystore.location"),
    "no certificate in tls 1.2": (
        "MUTUAL",
        {"ssl_enabled_protocols": ["TLSv1.2"]},
        SslAuthenticationError,
        "refused the TLS handshake: .*ssl.keystore.location",
    ),
    "a stranger's certificate": (
        "MUTUAL",
        {"ssl_keystore_location": "stranger.pem", "ssl_keystore_type": "PEM"},
        SslAuthenticationError,
        "refused the TLS handshake",
    ),
    "plain text to tls": ("TLS", {"security_protocol": "PLAINTEXT"}, SslAuthenticationError, "must be SSL or SASL_SSL"),
    "login without tls": (
        "BOTH",
        {"security_protocol": LOGIN, **plain()},
        SslAuthenticationError,
        "answers with TLS: security.protocol must be SSL or SASL_SSL",
    ),
    "tls to plain text": (
        "PLAINTEXT",
        {"security_protocol": "SSL", "ssl_ca_location": "ca.pem"},
        SslAuthenticationError,
        "speaks plain text, no TLS: security.protocol must be PLAINTEXT or SASL_PLAINTEXT",
    ),
    "wrong password": (
        "LOGIN",
        plain(SECRET),
        SaslAuthenticationFailedError,
        f"refused PLAIN for user '{USER}': Authentication failed: Invalid username or password",
    ),
    "wrong password of scram": ("BOTH", scram(256, SECRET), SaslAuthenticationFailedError, "SCRAM-SHA-256 for user"),
    "unknown user of scram": (
        "BOTH",
        scram(512, SECRET, "bob"),
        SaslAuthenticationFailedError,
        "SCRAM-SHA-512 for user 'bob'",
    ),
    "a token that is none": (
        "LOGIN",
        {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": lambda: f"{SECRET}.a.b"},
        SaslAuthenticationFailedError,
        'refused OAUTHBEARER for its token: .*"invalid_token"',
    ),
    "no token": (
        "LOGIN",
        {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": failing_provider},
        SaslAuthenticationFailedError,
        "provider failed: ConnectionError: the issuer is away",
    ),
    "a mechanism that is not enabled": (
        "BOTH",
        {"sasl_jaas_config": jaas_of_oauth()},
        UnsupportedSaslMechanismError,
        "does not enable OAUTHBEARER on this listener, but (?=.*PLAIN)(?=.*SCRAM-SHA-256)(?=.*SCRAM-SHA-512)",
    ),
    "no login": (
        "LOGIN",
        {"security_protocol": "PLAINTEXT"},
        IllegalSaslStateError,
        "expects a login by SASL .(?=.*PLAIN)(?=.*SCRAM-SHA-256).*: security.protocol must be SASL_PLAINTEXT there",
    ),
    "no login over tls": (
        "BOTH",
        {"security_protocol": "SSL"},
        IllegalSaslStateError,
        "expects a login by SASL .(?=.*PLAIN)(?=.*SCRAM-SHA-256).*: security.protocol must be SASL_SSL there",
    ),
    "a login to a listener without": (
        "PLAINTEXT",
        {"security_protocol": LOGIN, **plain()},
        IllegalSaslStateError,
        "takes no login by SASL on this listener: security.protocol must be PLAINTEXT or SSL",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
async def test_errors_name_the_cause_at_the_first_attempt(secured: SecuredNode, case: str) -> None:
    listener, given, kind, message = ERRORS[case]
    attempts: list[int] = []
    seams = Seams()

    async def counted(host: str, port: int, receiver: Any, task_group: Any) -> Any:
        attempts.append(port)
        return await seams.open_stream(host, port, receiver, task_group)

    with pytest.raises(kind, match=message) as refused:
        async with Admin(**options(secured, listener, given), seams=replace(seams, open_stream=counted)):
            pass
    assert isinstance(refused.value, AuthenticationError)
    assert SECRET not in f"{refused.value!r} {refused.value.__cause__!r}"
    asks = case in ("tls to plain text", "no login", "no login over tls")  # what the listener expects
    assert len(attempts) == (2 if asks else 1)


async def test_calls_of_an_open_client_get_the_error(secured: SecuredNode, topic: str) -> None:
    """As with a lazy producer, whose first connection is made by a call."""
    given = options(secured, "LOGIN", plain(SECRET))
    async with Producer(**given, start="lazy") as producer:
        with pytest.raises(SaslAuthenticationFailedError, match="Invalid username or password"):
            await producer.send_and_wait(topic, b"")


def test_blocking_clients_have_the_same_options_and_errors(secured: SecuredNode, topic: str) -> None:
    given = options(secured, "BOTH", scram(256))
    with blocking.Producer(**given) as producer:
        producer.send_and_wait(topic, b"1")
    with blocking.Consumer(topic, **given, auto_offset_reset="earliest", stop_at="end") as consumer:
        assert [record.value for record in consumer] == [b"1"]
    with (
        pytest.raises(SaslAuthenticationFailedError, match="Invalid username or password"),
        blocking.Admin(**options(secured, "LOGIN", plain(SECRET))),
    ):
        pass


@pytest.mark.parametrize("provider", [token, token_later])
def test_providers_of_blocking_clients_may_be_async(secured: SecuredNode, provider: Any) -> None:
    given = options(secured, "LOGIN", {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": provider})
    with blocking.Admin(**given) as admin:
        assert admin.list_topics() is not None
