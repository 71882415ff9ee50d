"""A token of OAUTHBEARER in a file: what is wrong with the file is said when a client is made, and at a later login."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import trio
from support.secured_nodes import jaas_of_oauth

from minikafka.client import Admin, InvalidOption
from minikafka.client.connections.logins import log_in
from minikafka.client.connections.seams import Seams
from minikafka.client.options import AdminOptions, make
from minikafka.client.security.security_options import security_settings
from minikafka.protocol.errors import SaslAuthenticationFailedError
from minikafka.protocol.sasl.message_sizes import TOKEN_BYTES_MAX

URL = "sasl_oauthbearer_token_endpoint_url"
SASL: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "the token"
    path.write_text("first.secret.token\n")
    return path


def test_the_file_is_read_for_each_login(file: Path) -> None:
    login = make(AdminOptions, {**SASL, URL: file.as_uri()}, "Admin").connection_security.login
    assert login is not None
    assert login.mechanism == "OAUTHBEARER"
    assert login.blocking_token(0) == "first.secret.token"
    file.write_text(" second.secret.token ")
    assert login.blocking_token(0) == "second.secret.token"
    assert "secret" not in repr(login)


def test_the_settings_of_javas_client_suffice(file: Path) -> None:
    given = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
        "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
        "OAuthBearerLoginCallbackHandler",
    }
    named = {name.replace(".", "_"): text for name, text in security_settings(given).items()}
    login = make(AdminOptions, {**SASL, **named}, "Admin").connection_security.login
    assert login is not None
    assert login.blocking_token(0) == "first.secret.token"


def test_a_file_that_is_gone_fails_the_login_only_and_by_its_name(file: Path) -> None:
    login = make(AdminOptions, {**SASL, URL: file.as_uri()}, "Admin").connection_security.login
    assert login is not None
    file.unlink()

    async def request(_: object) -> None:
        raise AssertionError("a request without a token")

    reason = r"^the file of the token, .*the token, cannot be read: No such file or directory$"
    with pytest.raises(SaslAuthenticationFailedError, match=reason):
        trio.run(log_in, request, "broker:9092", login, Seams())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"t" * (TOKEN_BYTES_MAX + 1), f"has more than {TOKEN_BYTES_MAX:,} bytes"),
    ],
)
def test_a_file_without_a_token_is_refused(file: Path, content: bytes | None, reason: str) -> None:
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidOption, match=rf"{URL}=.*\): the file of the token, .*the token, {reason}"):
        Admin(**SASL, **{URL: file.as_uri()})


def test_a_pipe_is_not_waited_for(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(InvalidOption, match="is a pipe or device: must be a file"):
        Admin(**SASL, **{URL: file.as_uri()})


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({URL: "https://login.example/token"}, "must be the URL of a file, as file:///etc/kafka/token; sasl_oauth_tok"),
        ({"sasl_oauth_token_provider": str}, "is not allowed beside sasl_oauth_token_provider"),
        ({"sasl_mechanism": "PLAIN"}, "is for OAUTHBEARER, and the mechanism is PLAIN"),
        ({"sasl_jaas_config": jaas_of_oauth(), "security_protocol": "SSL"}, "needs security_protocol SASL_PLAINTEXT"),
    ],
)
def test_what_does_not_belong_together_is_named(file: Path, given: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidOption, match=reason):
        Admin(**{**SASL, URL: file.as_uri(), **given})
