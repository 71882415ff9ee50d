"""`--command-config`: which settings of a client.properties file a command uses, and what it says of the others."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from support.command_line import Minikafka
from support.node import NodeProcess
from support.secured_nodes import jaas_of_plain

from minikafka.cli.arguments.client_properties import read_client_properties
from minikafka.cli.arguments.contexts import Contexts, NamedCluster, write_contexts
from minikafka.cli.arguments.options import client_arguments, client_options
from minikafka.client.options import AdminOptions, ClientOptions, ConsumerOptions

SECRET = "hidden-secret"
UNSECURED = "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


def arguments(kind: type[ClientOptions], *words: object, pairs: tuple[tuple[str, str], ...] = ()) -> dict[str, object]:
    """The arguments of a client of a command with these words."""
    made: dict[str, object] = {}

    @click.command()
    @client_options
    def command(bootstrap_server: str) -> None:
        made.update(client_arguments(kind, bootstrap_server, pairs, client_id="flag"))

    command.main(list(map(str, words)), standalone_mode=False)
    return made


def test_a_command_uses_what_its_client_has(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas_of_plain(SECRET)}\n"
        "ssl.endpoint.identification.algorithm=\nssl.enabled.protocols=TLSv1.2, TLSv1.3\nrequest.timeout.ms=7000\n"
        "linger.ms=5\nkey.serializer=org.example.Serializer\nclient.dns.lookup=use_all_dns_ips\nclient.id=file\n"
        f"bootstrap.servers=elsewhere:1\nsasl.login.callback.handler.class={UNSECURED}\n"
    )
    found = arguments(AdminOptions, "-b", "here:1", "--command-config", file, pairs=(("request.timeout.ms", "8000"),))
    del found["socket_connection_setup_timeout_ms"]
    assert found == {
        "bootstrap_servers": "here:1",
        "client_id": "flag",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": jaas_of_plain(SECRET),
        "ssl_endpoint_identification_algorithm": "",
        "ssl_enabled_protocols": ["TLSv1.2", "TLSv1.3"],
        "request_timeout_ms": 8000,
    }
    assert capsys.readouterr().err == f"{file}: client.dns.lookup is ignored: no client of minikafka has it\n"
    assert SECRET not in repr(read_client_properties(str(file)))


def test_a_file_of_something_else_is_named_in_a_few_lines(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("\n".join(f"word-{number} of a story" for number in range(500)))
    arguments(AdminOptions, "-b", "here:1", "--command-config", file)
    *named, last = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in named] == [f"word-{number}" for number in range(10)]
    assert last == f"{file}: 490 more settings ignored"


def test_the_addresses_of_the_file_are_those_of_a_command_without_any(
    file: Path, monkeypatch: pytest.MonkeyPatch, contexts: Path
) -> None:
    monkeypatch.delenv("MINIKAFKA_BOOTSTRAP_SERVER", raising=False)
    file.write_text("bootstrap.servers=elsewhere\nfetch.min.bytes=7\n")
    found = arguments(ConsumerOptions, "--command-config", file)
    assert (found["bootstrap_servers"], found["fetch_min_bytes"]) == ("elsewhere:9092", 7)
    write_contexts(Contexts({"safe": NamedCluster("a:1", str(file)), "open": NamedCluster("b:1")}, "safe"))
    found = arguments(ConsumerOptions)
    assert (found["bootstrap_servers"], found["fetch_min_bytes"]) == ("a:1", 7)
    assert "fetch_min_bytes" not in arguments(ConsumerOptions, "--context", "open")
    assert "fetch_min_bytes" not in arguments(ConsumerOptions, "-b", "c:1")
    monkeypatch.setenv("MINIKAFKA_COMMAND_CONFIG", str(file))
    assert arguments(ConsumerOptions, "-b", "c:1")["fetch_min_bytes"] == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("security.protocol=TLS", "must be one of 'PLAINTEXT', 'SSL', "),
        ("sasl.kerberos.service.name=kafka", "there is no GSSAPI"),
        (f"sasl.password={SECRET}", "needs security_protocol SASL_PLAINTEXT or SASL_SSL"),
        (f"security.protocol=SASL_SSL\nsasl.jaas.config={jaas_of_plain(SECRET)[:-1]}", "not terminated by a semicolon"),
        ("sasl.login.callback.handler.class=org.example.Handler", "sasl_login_callback_handler_class"),
        ("client.id=\\u12", "client.properties, "),
        ("a\n" * 20 + "\x7fELF\0b\n" * 20, "client.properties, line 21: a NUL character"),
    ],
)
def test_what_does_not_work_is_one_line_without_secrets(
    minikafka: Minikafka, node: NodeProcess, file: Path, text: str, message: str
) -> None:
    file.write_text(text)
    ran = minikafka("topics", "list", "--command-config", file)
    assert ran.code in (1, 2)
    assert ran.err.count("\n") == 1
    assert message in ran.err
    assert SECRET not in ran.err


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism"),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN", "sasl.username"),
        ("security.protocol=SASLSSL", "security.protocol"),
        ("request.timeout.ms=x", "request.timeout.ms"),
        ("security.protocol=SSL\nssl.truststore.location=/nowhere", "ssl.truststore.location"),
    ],
)
def test_what_is_wrong_or_missing_in_a_file_is_named_by_kafkas_name_with_the_file(
    minikafka: Minikafka, file: Path, text: str, setting: str
) -> None:
    file.write_text(text)
    ran = minikafka("topics", "list", "--command-config", file)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1), ran
    assert f"; see {setting} in {file} (" in ran.err


def test_what_is_wrong_on_the_command_line_is_not_said_to_be_in_the_file(minikafka: Minikafka, file: Path) -> None:
    file.write_text("client.id=me")
    ran = minikafka("produce", "t", "--option", "linger.ms=x", "--command-config", file)
    assert ran.code == 2
    assert "linger_ms='x'" in ran.err
    assert str(file) not in ran.err


def test_a_file_that_cannot_be_read_is_named(minikafka: Minikafka, file: Path) -> None:
    ran = minikafka("topics", "list", "--command-config", file)
    assert (ran.code, ran.err) == (1, f"Error: {file} cannot be read: No such file or directory\n")
    with file.open("wb") as huge:
        huge.truncate(1 << 40)
    assert "has more than 1048576 bytes" in minikafka("topics", "list", "--command-config", file).err
