"""`minikafka cluster --secure`: one command, and clients of others log in over TLS; strangers do not get in."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from support.clients import eventually
from support.command_line import Minikafka, command
from support.oracle import needs_oracle, tool

from minikafka.broker.settings.properties_file import read_properties
from minikafka.cli.clusters.secure_files import SecureFiles
from minikafka.cli.main import cli
from minikafka.cli.reference_page import commands

EXAMPLE = re.compile(r"^ *(?:Example: )?(minikafka .*)$", re.MULTILINE)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@dataclass(frozen=True)
class Secured:
    """A running cluster."""

    bootstrap: str
    files: SecureFiles

    def librdkafka(self, **changed: str) -> dict[str, str]:
        """The configuration of confluent-kafka for the user of client.properties."""
        given = read_properties(self.files.client.read_bytes())
        login = given["sasl.jaas.config"].split('"')
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": given["security.protocol"],
            "sasl.mechanism": given["sasl.mechanism"],
            "sasl.username": login[1],
            "sasl.password": login[3],
            "ssl.ca.location": given["ssl.truststore.location"],
            **changed,
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured") / "cluster"
    with running(directory, "--secure", "--brokers", "2", "--port", "0") as cluster:
        yield cluster


@contextmanager
def running(directory: Path, *options: str) -> Iterator[Secured]:
    """A cluster in a directory, until the end of the block."""
    words = command(["cluster", *options, "--data-dir", str(directory)])
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = process.stdout.readline().split()
            assert ready[:1] == ["ready"], ready
            yield Secured(ready[1], SecureFiles(directory))
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def test_a_client_of_others_produces_and_consumes(secured: Secured) -> None:
    producer = Producer(secured.librdkafka())
    producer.produce("flights", b"one")
    assert producer.flush(30) == 0
    consumer = Consumer(secured.librdkafka(**{"group.id": "g", "auto.offset.reset": "earliest"}))
    consumer.subscribe(["flights"])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert message.value() == b"one"


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"sasl.password": "wrong"}, KafkaError._AUTHENTICATION),
        ({"sasl.username": "nobody"}, KafkaError._AUTHENTICATION),
        ({"sasl.mechanism": "PLAIN"}, KafkaError._AUTHENTICATION),
        ({"security.protocol": "PLAINTEXT"}, KafkaError._ALL_BROKERS_DOWN),
    ],
)
def test_a_stranger_does_not_get_in(secured: Secured, changed: dict[str, str], code: int) -> None:
    errors: list[int] = []
    config = secured.librdkafka(**changed)
    admin = AdminClient({**config, "error_cb": lambda error: errors.append(error.code())})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=5)
    eventually(lambda: admin.poll(0.1) >= 0 and code in errors)


def test_the_user_may_use_topics_and_not_manage_the_cluster(secured: Secured, minikafka: Minikafka) -> None:
    client = ("-b", secured.bootstrap, "--command-config", str(secured.files.client))
    admin = ("-b", secured.bootstrap, "--command-config", str(secured.files.admin))
    assert minikafka("topics", "create", "mine", *client).code == 0
    refused = minikafka("acls", "list", *client)
    assert (refused.code, "authorization failed" in refused.err.lower()) == (1, True), refused
    listed = json.loads(minikafka("acls", "list", "--json", *admin).out)
    assert {(one["resource_type"], one["principal"]) for one in listed} == {
        (kind, "User:alice") for kind in ("topic", "group", "transactional_id")
    }
    status = minikafka("cluster", "status", "--data-dir", str(secured.files.directory))
    assert status.code == 0, status


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state"])
def test_the_user_may_not_write_to_the_topics_of_the_cluster(secured: Secured, topic: str) -> None:
    """Whoever calls itself `__admin_client` may, if it has WRITE: as in Apache Kafka."""
    producer = Producer({**secured.librdkafka(), "client.id": "__admin_client", "message.timeout.ms": "20000"})
    errors: list[int] = []
    producer.produce(
        topic, key=b"\0", value=b"x", partition=0, on_delivery=lambda error, _: errors.append(error.code())
    )
    assert producer.flush(30) == 0
    assert errors == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


def test_the_examples_of_the_commands_of_security_work(
    secured: Secured, minikafka: Minikafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but those of tokens, which nodes do not have yet, and the one that asks for a password on a terminal."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text("open sesame\n")
    admin = ("-b", secured.bootstrap, "--command-config", str(secured.files.admin))
    help_of = {path: command.help or "" for path, command in commands(cli) if path[:1] in (("acls",), ("users",))}
    lines = [line for text in help_of.values() for line in EXAMPLE.findall(text) if line != "minikafka users set alice"]
    assert len(lines) >= 6
    for line in sorted(lines, key=lambda line: "delete" in line or "remove" in line):
        ran = minikafka(*line.replace("alice", "bob").split()[1:], *admin)
        assert ran.code == 0, (line, ran)


def test_a_cluster_that_was_moved_starts_again_also_with_more_brokers_and_settings(
    minikafka: Minikafka, tmp_path: Path
) -> None:
    with running(tmp_path / "old", "--secure", "--brokers", "1", "--port", "0") as cluster:
        way = ("-b", cluster.bootstrap, "--command-config", str(cluster.files.client))
        assert minikafka("topics", "create", "kept", *way).code == 0
    (tmp_path / "old").rename(tmp_path / "new")
    with running(tmp_path / "new", "--secure", "--brokers", "2", "--set", "log.retention.ms=3600000") as cluster:
        way = ("-b", cluster.bootstrap, "--command-config", str(cluster.files.client))
        assert [line.split()[0] for line in minikafka("topics", "list", *way).lines] == ["TOPIC", "kept"]
        first, second = cluster.bootstrap.split(",")
        created = minikafka("topics", "create", "both", "--replication-factor", "2", "-b", second, *way[2:])
        assert created.code == 0, created
        sent = minikafka("produce", "both", "-b", first, *way[2:], "--acks", "all", stdin=b"one\n")
        assert sent.code == 0, sent
    assert not (tmp_path / "old").exists()


@needs_oracle
@pytest.mark.oracle
def test_kafkas_own_tools_take_the_same_file(secured: Secured) -> None:
    words = ("--bootstrap-server", secured.bootstrap, "--command-config", secured.files.client)
    tool("topics", *words, "--create", "--topic", "javas")
    assert "javas" in tool("topics", *words, "--list").split()


def test_no_secret_is_in_a_log(secured: Secured) -> None:
    secrets = [
        read_properties(path.read_bytes())["sasl.jaas.config"].split('"')[3]
        for path in (secured.files.client, secured.files.admin)
    ]
    logs = [path.read_text() for path in Path(secured.files.directory).glob("node-*/server.log")]
    assert len(logs) == 2
    assert not [secret for secret in secrets for log in logs if secret in log]
