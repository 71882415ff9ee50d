"""What a client with each setting is told by each kind of listener, at the first attempt, in each way to use it."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.command_line import PATIENT_MS, exit_code
from support.secured_nodes import LISTENERS, SecuredNode, jaas_of_oauth, jaas_of_plain

from minikafka.cli.main import main
from minikafka.client import Admin, Consumer, Producer, blocking
from minikafka.protocol.errors import AuthenticationError
from minikafka.spark_connector.brokers.offset_reader import OffsetReader
from minikafka.spark_connector.options.source_options import parse

SECRET = "not-the-password"
TLS = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "ca.pem"}
PLAIN = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas_of_plain()}
WRONG = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas_of_plain(SECRET)}
TOKEN = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas_of_oauth()}
SETTINGS: dict[str, dict[str, str]] = {
    "nothing": {},
    "tls": {"security.protocol": "SSL", **TLS},
    "tls of a stranger": {"security.protocol": "SSL", **TLS, "ssl.truststore.location": "stranger-ca.pem"},
    "login": {"security.protocol": "SASL_PLAINTEXT", **PLAIN},
    "wrong password": {"security.protocol": "SASL_PLAINTEXT", **WRONG},
    "login over tls": {"security.protocol": "SASL_SSL", **TLS, **PLAIN},
    "wrong password over tls": {"security.protocol": "SASL_SSL", **TLS, **WRONG},
    "wrong mechanism over tls": {"security.protocol": "SASL_SSL", **TLS, **TOKEN},
}

WORKS = ""
ADDRESS = r"127\.0\.0\.1:\d+"
HAS_TLS = rf"{ADDRESS} answers with TLS: security\.protocol must be SSL or SASL_SSL"
HAS_NONE = rf"{ADDRESS} speaks plain text, no TLS: security\.protocol must be PLAINTEXT or SASL_PLAINTEXT"
NAMED = r"\((?=[^)]*\bPLAIN\b)(?=[^)]*\bSCRAM-SHA-256\b)[^)]*\)"
WANTS_LOGIN = rf"{ADDRESS} expects a login by SASL {NAMED}: security\.protocol must be "
NO_LOGIN = rf"{ADDRESS} takes no login by SASL on this listener: security\.protocol must be PLAINTEXT or SSL"
UNTRUSTED = rf"the certificate of {ADDRESS} is not trusted: .*certificate.*; ssl\.truststore\.location"
ELSEWHERE = rf"the certificate of {ADDRESS} is not trusted: .*not valid for '127\.0\.0\.1'; connect by a name"
NO_CERTIFICATE = rf"{ADDRESS} refused the TLS handshake: .*ssl\.keystore\.location"
WRONG_PASSWORD = rf"{ADDRESS} refused PLAIN for user 'alice': Authentication failed: Invalid username or password"
WRONG_MECHANISM = rf"{ADDRESS} does not enable OAUTHBEARER on this listener, but (?=.*PLAIN)(?=.*SCRAM-SHA-256)"
TABLE: dict[str, tuple[str, ...]] = {
    "PLAINTEXT": (WORKS, HAS_NONE, HAS_NONE, NO_LOGIN, NO_LOGIN, HAS_NONE, HAS_NONE, HAS_NONE),
    "TLS": (HAS_TLS, WORKS, UNTRUSTED, HAS_TLS, HAS_TLS, NO_LOGIN, NO_LOGIN, NO_LOGIN),
    "MUTUAL": (HAS_TLS, NO_CERTIFICATE, UNTRUSTED, HAS_TLS, HAS_TLS, *[NO_CERTIFICATE] * 3),
    "STRANGE": (HAS_TLS, ELSEWHERE, UNTRUSTED, HAS_TLS, HAS_TLS, *[ELSEWHERE] * 3),
    "LOGIN": (f"{WANTS_LOGIN}SASL_PLAINTEXT", HAS_NONE, HAS_NONE, WORKS, WRONG_PASSWORD, *[HAS_NONE] * 3),
    "BOTH": (HAS_TLS, f"{WANTS_LOGIN}SASL_SSL", UNTRUSTED, HAS_TLS, HAS_TLS, WORKS, WRONG_PASSWORD, WRONG_MECHANISM),
}
"""What a client is told: by listener, in the order of SETTINGS."""
CELLS = [(name, setting, text) for name, row in TABLE.items() for setting, text in zip(SETTINGS, row, strict=True)]
each_cell = pytest.mark.parametrize(("listener", "setting", "text"), CELLS, ids=[f"{a}-{b}" for a, b, _ in CELLS])


def settings(node: SecuredNode, setting: str) -> dict[str, str]:
    """The settings of a client, by Kafka's names, with the paths of files."""
    files = {name: str(node.files.folder / value) for name, value in SETTINGS[setting].items() if "location" in name}
    return {**SETTINGS[setting], **files}


def options(node: SecuredNode, listener: str, setting: str) -> dict[str, Any]:
    given = {name.replace(".", "_"): value for name, value in settings(node, setting).items()}
    return {"bootstrap_servers": node.address(listener), **given}


def check(text: str, contact: Callable[[], object]) -> None:
    """A contact works, or its first attempt says what is wrong."""
    if text == WORKS:
        contact()
        return
    with pytest.raises(AuthenticationError, match=f"^{text}") as refused:
        contact()
    assert SECRET not in f"{refused.value!r} {refused.value.__cause__!r}"


def test_the_table_has_each_listener_and_setting() -> None:
    assert list(TABLE) == list(LISTENERS)
    assert {len(row) for row in TABLE.values()} == {len(SETTINGS)}


@each_cell
def test_of_async_clients(secured: SecuredNode, listener: str, setting: str, text: str) -> None:
    async def contact(kind: type[Any]) -> None:
        async with kind(**options(secured, listener, setting)):
            pass

    for kind in (Admin, Producer, Consumer):
        check(text, partial(anyio.run, contact, kind))


@each_cell
def test_of_blocking_clients(secured: SecuredNode, listener: str, setting: str, text: str) -> None:
    def contact() -> None:
        with blocking.Admin(**options(secured, listener, setting)):
            pass

    check(text, contact)


@each_cell
def test_of_the_command_line(
    secured: SecuredNode,
    listener: str,
    setting: str,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("minikafka.cli.arguments.options.CONNECT_TIMEOUT_MS", PATIENT_MS)
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings(secured, setting).items()))
    with pytest.raises(SystemExit) as ended:
        main(["topics", "list", "-b", secured.address(listener), "--command-config", str(file)])
    errors = capsys.readouterr().err
    assert exit_code(ended.value.code) == (0 if text == WORKS else 1)
    assert (errors == "") if text == WORKS else re.fullmatch(rf"[Ee]rror: {text}.*\n", errors), errors


@each_cell
def test_of_the_spark_source(secured: SecuredNode, listener: str, setting: str, text: str) -> None:
    def contact() -> None:
        given = {f"kafka.{name}": value for name, value in settings(secured, setting).items()}
        given |= {"kafka.bootstrap.servers": secured.address(listener), "subscribe": "x"}
        reader = OffsetReader(parse(given).kafka)
        try:
            reader.refresh(())
        finally:
            reader.close()

    check(text, contact)
