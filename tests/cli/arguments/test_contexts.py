"""Contexts: the file, `minikafka context`, and which cluster a command asks; addresses without a port."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from support.command_line import Minikafka
from support.node import NodeProcess

from minikafka.cli.arguments.contexts import Contexts, NamedCluster, read_contexts, with_ports, write_contexts

NOBODY = "127.0.0.1:1"


@pytest.fixture
def unset(minikafka: Minikafka, monkeypatch: pytest.MonkeyPatch) -> Minikafka:
    """`minikafka(…)` without an address in the environment."""
    monkeypatch.delenv("MINIKAFKA_BOOTSTRAP_SERVER")
    return minikafka


def test_contexts_are_added_used_and_removed(minikafka: Minikafka, contexts: Path) -> None:
    assert minikafka("context", "list").out.startswith(f"No contexts in {contexts}: `minikafka context add NAME")
    assert minikafka("context", "add", "prod", "a,b:9093").out == "Context prod is a:9092,b:9093.\n"
    assert minikafka("context", "add", "test", "[::1]", "--use").out == "Context test is [::1]:9092 and is in use.\n"
    assert json.loads(minikafka("context", "list", "--json").out) == [
        {"name": "prod", "bootstrap_server": "a:9092,b:9093", "current": False},
        {"name": "test", "bootstrap_server": "[::1]:9092", "current": True},
    ]
    assert minikafka("context", "use", "prod").out == "Commands now use prod (a:9092,b:9093).\n"
    assert minikafka("context", "list").lines[1].split() == ["*", "prod", "a:9092,b:9093"]
    assert minikafka("context", "remove", "prod").out == "Removed context prod, which was in use; now no context is.\n"
    assert read_contexts() == Contexts({"test": NamedCluster("[::1]:9092")}, "")
    assert os.listdir(contexts.parent) == ["contexts.json"]
    unknown = minikafka("context", "use", "prod")
    assert (unknown.code, unknown.out) == (1, "")
    assert f"there is no context 'prod' in {contexts} (known: test): `minikafka context add prod" in unknown.err
    wrong = minikafka("context", "add", "bad", "host:port")
    assert (wrong.code, "'host:port' is not HOST:PORT; expected, for example, 127.0.0.1:9092" in wrong.err) == (2, True)


def test_a_context_has_the_file_of_a_secured_cluster(minikafka: Minikafka, contexts: Path, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    missing = minikafka("context", "add", "safe", "a", "--command-config", file)
    assert (missing.code, "does not exist" in missing.err) == (2, True)
    file.write_text("security.protocol=SSL\n")
    minikafka("context", "add", "open", "b")
    minikafka("context", "add", "safe", "a", "--command-config", file)
    assert json.loads(minikafka("context", "list", "--json").out)[1] == {
        "name": "safe", "bootstrap_server": "a:9092", "command_config": str(file), "current": False,
    }  # fmt: skip
    assert [line.split() for line in minikafka("context", "list").lines[1:]] == [
        ["open", "b:9092", "-"],
        ["safe", "a:9092", str(file)],
    ]
    minikafka("context", "add", "safe", "c")
    assert "command_config" not in contexts.read_text()


@pytest.mark.usefixtures("impatient")
def test_which_cluster_a_command_asks(
    unset: Minikafka, node: NodeProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_contexts(Contexts({"here": NamedCluster(node.bootstrap), "nowhere": NamedCluster(NOBODY)}, "here"))
    listing = ("topics", "list")
    assert topic in unset(*listing).out
    assert f"cannot connect to {NOBODY}" in unset(*listing, "--context", "nowhere").err
    monkeypatch.setenv("MINIKAFKA_CONTEXT", "nowhere")
    assert unset(*listing).code == 1
    assert topic in unset(*listing, "--context", "here").out
    monkeypatch.setenv("MINIKAFKA_BOOTSTRAP_SERVER", node.bootstrap)
    assert topic in unset(*listing).out
    assert unset(*listing, "--context", "nowhere").code == 1
    assert unset(*listing, "-b", NOBODY).code == 1
    both = unset(*listing, "-b", NOBODY, "--context", "here")
    assert (both.code, "--bootstrap-server and --context are mutually exclusive" in both.err) == (2, True)
    missing = unset(*listing, "--context", "elsewhere")
    assert (missing.code, "no context 'elsewhere'" in missing.err) == (1, True)


@pytest.mark.parametrize("text", ["", "[]", '{"contexts": {"a": {}}}', '{"contexts": {"a": {"bootstrap_server": 1}}}'])
def test_a_file_of_another_format_is_named(unset: Minikafka, contexts: Path, text: str) -> None:
    contexts.parent.mkdir(parents=True)
    contexts.write_text(text)
    ran = unset("topics", "list")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert f"{contexts} is not a file of contexts" in ran.err
    assert "mend or remove it, or give --bootstrap-server" in ran.err
    assert contexts.read_text() == text


def test_a_write_that_fails_leaves_the_file_before(contexts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_contexts(Contexts({"a": NamedCluster(NOBODY)}, "a"))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("minikafka.cli.arguments.contexts.json.dump", full)
    with pytest.raises(OSError, match="No space left"):
        write_contexts(Contexts({"b": NamedCluster(NOBODY)}))
    assert read_contexts() == Contexts({"a": NamedCluster(NOBODY)}, "a")
    assert os.listdir(contexts.parent) == ["contexts.json"]


def test_a_silent_bootstrap_server_is_passed_over(minikafka: Minikafka, node: NodeProcess, topic: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        assert topic in minikafka("topics", "list", "-b", f"{NOBODY},{address},{node.bootstrap}").out


def test_hosts_without_a_port() -> None:
    assert with_ports("PLAINTEXT://a,PLAINTEXT://b:1") == "PLAINTEXT://a:9092,PLAINTEXT://b:1"
    assert with_ports("localhost, b:1,10.0.0.1,[::1],[::1]:5") == "localhost:9092,b:1,10.0.0.1:9092,[::1]:9092,[::1]:5"
