"""The command line reaches secured listeners with the client.properties file of Kafka's tools."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.command_line import patient_command
from support.oracle import needs_oracle, tool
from support.secured_nodes import SecuredNode, jaas_of_plain


def ran(*words: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = patient_command(list(map(str, words)))
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)


def written(path: Path, node: SecuredNode, password: str | None = None) -> Path:
    """A file that Kafka's tools take as well."""
    jaas = jaas_of_plain() if password is None else jaas_of_plain(password)
    path.write_text(
        f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={node.files.trusted}\n"
    )
    return path


@needs_oracle
def test_commands_take_the_file_of_kafkas_tools(secured: SecuredNode, tmp_path: Path, topic: str) -> None:
    way = ("--bootstrap-server", secured.address("BOTH"), "--command-config", written(tmp_path / "file", secured))
    assert topic in tool("topics", *way, "--create", "--topic", topic)
    produced = ran("produce", topic, *way, stdin="a\nb\n")
    assert produced.returncode == 0, produced.stderr
    consumed = ran("consume", topic, *way, "--from-beginning", "--exit")
    assert consumed.stdout.split() == ["a", "b"], consumed.stderr
    assert topic in ran("topics", "list", *way).stdout


def test_a_wrong_password_is_one_line(secured: SecuredNode, tmp_path: Path) -> None:
    file = written(tmp_path / "file", secured, password="not-the-password")
    refused = ran("topics", "list", "-b", secured.address("BOTH"), "--command-config", file)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    assert "refused PLAIN for user 'alice': Authentication failed: Invalid username or password" in refused.stderr
    assert "not-the-password" not in refused.stderr


@pytest.mark.parametrize("listener", ["BOTH", "TLS"])
def test_a_command_without_the_file_is_told_what_the_listener_expects(secured: SecuredNode, listener: str) -> None:
    refused = ran("topics", "list", "-b", secured.address(listener))
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "security.protocol must be SSL or SASL_SSL" in refused.stderr
