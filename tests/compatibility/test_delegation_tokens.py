"""Delegation tokens at a node: `kafka-delegation-tokens` and Kafka's console clients, and ours, unchanged.

librdkafka, kafka-python and aiokafka cannot log in by a token: they do not send `tokenauth=true`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.node import NodeProcess
from support.oracle import needs_oracle, run_tool, tool

from minikafka.client import Acl
from minikafka.client.blocking import Admin, Consumer, Producer
from minikafka.protocol.errors import (
    DelegationTokenNotFoundError,
    DelegationTokenOwnerMismatchError,
    DelegationTokenRequestNotAllowedError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)

MODULES = "org.apache.kafka.common.security"
KEY = "the-secret-key-4711"
SCRAM = f"{MODULES}.scram.ScramLoginModule required"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f"{MODULES}.plain.PlainLoginModule required "
        'user_admin="admin-secret" user_alice="alice-secret" user_bob="bob-secret";'
    ),
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM};",
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "delegation.token.secret.key": KEY,
    "group.initial.rebalance.delay.ms": "0",
}
ROWS = re.compile(r"^(\S{22})\s+(\S{88})\s+(\S+)\s+(\S+)\s+\[?([^\]\s]*)\]?\s+(\S+)\s+(\S+)\s+(\S+)\s*$", re.MULTILINE)
"""A row of the tool: id, HMAC, owner, requester, renewers, and the times of issue, expiry and end."""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("tokens") / "data", settings=SETTINGS) as running:
        with Admin(**by_password(running, "admin")) as admin:
            every = [Acl("topic", "tea", "User:alice", operation) for operation in ("read", "write", "create")]
            admin.create_acls([*every, Acl("group", "readers", "User:alice", "read")])
        yield running


def by_password(node: NodeProcess, user: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": node.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": user,
        "sasl_password": f"{user}-secret",
    }


def jaas_of(token_id: str, hmac: str) -> str:
    return f'{SCRAM} username="{token_id}" password="{hmac}" tokenauth="true";'


def by_token(node: NodeProcess, token_id: str, hmac: bytes, mechanism: str = "SCRAM-SHA-256") -> dict[str, Any]:
    return {
        "bootstrap_servers": node.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": jaas_of(token_id, base64.b64encode(hmac).decode()),
    }


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_our_clients_work_by_a_token_as_its_owner(node: NodeProcess, mechanism: str) -> None:
    with Admin(**by_password(node, "alice")) as admin:
        token = admin.create_delegation_token(renewers=["User:bob"])
    options = by_token(node, token.token_id, token.hmac, mechanism)
    with Producer(**options) as producer:
        producer.send("tea", mechanism.encode()).result()
        with pytest.raises(TopicAuthorizationFailedError):
            producer.send("coffee", b"x").result()
    with Consumer("tea", group_id="readers", auto_offset_reset="earliest", **options) as consumer:
        assert next(iter(consumer)).value is not None
    with Admin(**options) as by_it, pytest.raises(DelegationTokenRequestNotAllowedError):
        by_it.create_delegation_token()


def test_the_life_of_a_token(node: NodeProcess) -> None:
    with Admin(**by_password(node, "alice")) as alice, Admin(**by_password(node, "bob")) as bob:
        token = alice.create_delegation_token(max_lifetime_ms=600_000)
        assert token in alice.describe_delegation_tokens(["User:alice"])
        assert token not in bob.describe_delegation_tokens()
        with pytest.raises(DelegationTokenOwnerMismatchError):
            bob.renew_delegation_token(token.hmac)
        assert alice.renew_delegation_token(token.hmac, period_ms=5000) < token.expires_ms
        with Producer(**by_token(node, token.token_id, token.hmac)) as producer:
            producer.send("tea", b"before").result()
            alice.expire_delegation_token(token.hmac)
            producer.send("tea", b"the connection stays").result()
        with pytest.raises(DelegationTokenNotFoundError):
            alice.renew_delegation_token(token.hmac)
    with pytest.raises(SaslAuthenticationFailedError), Admin(**by_token(node, token.token_id, token.hmac)) as admin:
        admin.describe_cluster()


def test_neither_the_key_nor_an_hmac_is_logged(node: NodeProcess) -> None:
    with Admin(**by_password(node, "alice")) as admin:
        token = admin.create_delegation_token()
    with Admin(**by_password(node, "admin")) as admin:
        described = admin.describe_configs("broker", "1")
    with Admin(**by_token(node, token.token_id, token.hmac)) as admin:
        admin.describe_cluster()
    text = node.log_path.read_text()
    assert token.token_id in text
    for secret in (KEY, base64.b64encode(token.hmac).decode(), token.hmac.hex()):
        assert secret not in text
    assert KEY not in repr(described)


# -- Kafka's tools -----------------------------------------------------------------------------------------------


def properties(folder: Path, name: str, mechanism: str, jaas: str) -> Path:
    file = folder / f"{name}.properties"
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n")
    return file


def of_user(folder: Path, user: str) -> Path:
    jaas = f'{MODULES}.plain.PlainLoginModule required username="{user}" password="{user}-secret";'
    return properties(folder, user, "PLAIN", jaas)


def tokens(node: NodeProcess, config: Path, *words: object) -> str:
    return tool("delegation-tokens", "--bootstrap-server", node.bootstrap, "--command-config", config, *words)


@pytest.mark.oracle
@needs_oracle
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_kafkas_tools_create_use_renew_and_expire_a_token(node: NodeProcess, tmp_path: Path, mechanism: str) -> None:
    alice, bob = of_user(tmp_path, "alice"), of_user(tmp_path, "bob")
    created = tokens(node, alice, "--create", "--max-life-time-period", -1, "--renewer-principal", "User:bob")
    (row,) = ROWS.findall(created)
    token_id, hmac = row[:2]
    assert row[2:5] == ("User:alice", "User:alice", "User:bob")
    described = tokens(node, bob, "--describe", "--owner-principal", "User:alice")
    seen = [one for one in ROWS.findall(described) if one[0] == token_id]
    assert [one[1] for one in seen] == [hmac]

    login = properties(tmp_path, "token", mechanism, jaas_of(token_id, hmac))
    place = ("--bootstrap-server", node.bootstrap)
    value = f"by a token and {mechanism}"
    tool("console-producer", *place, "--topic", "tea", "--command-config", login, stdin=f"{value}\n")
    consumed = tool(
        *("console-consumer", *place, "--topic", "tea", "--group", "readers", "--command-config", login),
        *("--from-beginning", "--timeout-ms", 10_000),
    )
    assert value in consumed.splitlines()

    assert "Completed renew" in tokens(node, bob, "--renew", "--renew-time-period", -1, "--hmac", hmac)
    assert "Completed expire" in tokens(node, bob, "--expire", "--expiry-time-period", -1, "--hmac", hmac)
    refused = run_tool("topics", *place, "--list", "--command-config", login)
    assert "SaslAuthenticationException: Authentication failed" in refused.stdout + refused.stderr
