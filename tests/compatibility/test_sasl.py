"""Other projects' clients and Kafka's tools log in on a SASL listener: right and wrong passwords, each mechanism."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.node import NodeProcess, ServerProcess
from support.oracle import needs_oracle, run_tool

from minikafka.broker.settings.token_settings import UNSECURED_HANDLER
from minikafka.cli.main import cli
from minikafka.protocol.sasl.unsecured_token import unsecured_token

MODULES = "org.apache.kafka.common.security"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.plaintext.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
    "listener.name.plaintext.oauthbearer.sasl.server.callback.handler.class": UNSECURED_HANDLER,
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{MODULES}.plain.PlainLoginModule required user_admin="admin-secret" user_alice="secret";'
    ),
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
WRONG = "not-it-4711"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    admin = pytest.importorskip("confluent_kafka.admin")
    with NodeProcess(tmp_path_factory.mktemp("sasl") / "data", settings=SETTINGS) as running:
        client = admin.AdminClient(of_librdkafka(running, "PLAIN", "admin", "admin-secret"))
        for mechanism in (admin.ScramMechanism.SCRAM_SHA_256, admin.ScramMechanism.SCRAM_SHA_512):
            info = admin.ScramCredentialInfo(mechanism, 4096)
            change = admin.UserScramCredentialUpsertion("alice", info, b"secret", b"salt")
            for altered in client.alter_user_scram_credentials([change]).values():
                altered.result(30)
        yield running


def of_librdkafka(node: ServerProcess, mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": node.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "log_level": 0,
    }


def by_confluent(node: ServerProcess, mechanism: str, password: str) -> None:
    admin = pytest.importorskip("confluent_kafka.admin")
    errors: list[str] = []
    settings = of_librdkafka(node, mechanism, "alice", password)
    client = admin.AdminClient({**settings, "error_cb": lambda error: errors.append(error.str())})
    try:
        client.list_topics(timeout=10 if password == "secret" else 3)
    except Exception as error:
        raise ConnectionError(" ".join(errors)) from error


KAFKA_PYTHON = """
import os, sys, kafka
servers, mechanism, password, timeout_ms = sys.argv[1:]
try:
    kafka.KafkaAdminClient(
        bootstrap_servers=servers, security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism,
        sasl_plain_username="alice", sasl_plain_password=password, bootstrap_timeout_ms=int(timeout_ms),
    ).list_topics()
except Exception as error:
    print(error, file=sys.stderr, flush=True)
    os._exit(1)
os._exit(0)
"""
"""In a process of its own: a client whose login fails cannot be closed, and its thread tries again for ever."""


def by_kafka_python(node: ServerProcess, mechanism: str, password: str) -> None:
    pytest.importorskip("kafka")
    timeout_ms = 10_000 if password == "secret" else 2_000
    words = [sys.executable, "-c", KAFKA_PYTHON, node.bootstrap, mechanism, password, str(timeout_ms)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise ConnectionError(done.stderr)


def by_aiokafka(node: ServerProcess, mechanism: str, password: str) -> None:
    aiokafka = pytest.importorskip("aiokafka")

    async def main() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=node.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password=password,
        )
        try:
            await producer.start()
            await producer.send_and_wait(f"by-aiokafka-{mechanism}", b"x")
        finally:
            await producer.stop()

    asyncio.run(main())


CLIENTS: dict[str, Callable[[ServerProcess, str, str], None]] = {
    "confluent-kafka": by_confluent,
    "kafka-python": by_kafka_python,
    "aiokafka": by_aiokafka,
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_logs_in(node: NodeProcess, name: str, mechanism: str) -> None:
    CLIENTS[name](node, mechanism, "secret")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("name", CLIENTS)
def test_a_wrong_password_is_refused(node: NodeProcess, name: str, mechanism: str) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 (each client has an error of its own)
        CLIENTS[name](node, mechanism, WRONG)
    assert "authentication failed" in node.log_tail(20)
    assert WRONG not in node.log_path.read_text()


def a_token(lasts_s: float) -> str:
    return unsecured_token({"sub": "alice", "exp": time.time() + lasts_s})


def test_librdkafka_logs_in_by_token(node: NodeProcess) -> None:
    admin = pytest.importorskip("confluent_kafka.admin")
    settings = {"bootstrap.servers": node.bootstrap, "security.protocol": "SASL_PLAINTEXT", "log_level": 0}

    def listed(lasts_s: float, timeout_s: float) -> None:
        def provide(_: str) -> tuple[str, float]:
            return a_token(lasts_s), time.time() + 60

        client = admin.AdminClient({**settings, "sasl.mechanisms": "OAUTHBEARER", "oauth_cb": provide})
        client.poll(1)
        client.list_topics(timeout=timeout_s)

    listed(60, 20)
    with pytest.raises(Exception, match=r"transport|Timed|timed"):
        listed(-60, 3)


def test_aiokafka_logs_in_by_token(node: NodeProcess) -> None:
    aiokafka = pytest.importorskip("aiokafka")
    abc = pytest.importorskip("aiokafka.abc")

    class Provider(abc.AbstractTokenProvider):  # type: ignore[misc, name-defined]
        async def token(self) -> str:
            return a_token(60)

    async def main() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=node.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(),
        )
        try:
            await producer.start()
            await producer.send_and_wait("by-token", b"x")
        finally:
            await producer.stop()

    asyncio.run(main())


class Configured(ServerProcess):
    """A node that has nothing but its file of settings."""

    def __init__(self, config: Path) -> None:
        super().__init__(config.with_name("node"), port=0, start_timeout_s=60)
        self.config = config

    def command(self) -> list[str]:
        return [sys.executable, "-m", "minikafka.cli.main", "server", "--config", str(self.config)]


def test_a_cluster_whose_only_user_was_given_at_the_format(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_text(
        f"""node.id=1
process.roles=broker,controller
listeners=CLIENT://127.0.0.1:0
listener.security.protocol.map=CLIENT:SASL_PLAINTEXT
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.client.scram-sha-512.sasl.jaas.config={MODULES}.scram.ScramLoginModule required;
log.dirs={tmp_path}/data
"""
    )
    user = "--add-scram=SCRAM-SHA-512=[name=alice,password=secret]"
    command = ["storage", "format", "--config", str(config), "--cluster-id", "5L6g3nShT-eMCtK--X86sw", user]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    with Configured(config) as node:
        by_aiokafka(node, "SCRAM-SHA-512", "secret")


@pytest.mark.oracle
@needs_oracle
@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafkas_tools_log_in(node: NodeProcess, mechanism: str, tmp_path: Path) -> None:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"

    def settings(password: str) -> Path:
        file = tmp_path / f"{password}.properties"
        file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={MODULES}.{module} required username="alice" password="{password}";\n'
        )
        return file

    place = ("--bootstrap-server", node.bootstrap)
    topic = f"by-tools-{mechanism}"
    produced = run_tool(
        *("console-producer", *place, "--topic", topic, "--command-config", settings("secret")), stdin="a\nb\n"
    )
    assert produced.returncode == 0, produced.stderr
    consumed = run_tool(
        *("console-consumer", *place, "--topic", topic, "--from-beginning", "--max-messages", 2),
        *("--timeout-ms", 30_000, "--command-config", settings("secret")),
    )
    assert consumed.stdout.split() == ["a", "b"], consumed.stderr
    refused = run_tool("topics", *place, "--list", "--command-config", settings(WRONG))
    assert refused.returncode != 0
    assert "SaslAuthenticationException: Authentication failed" in refused.stdout + refused.stderr
