"""Which cluster a command asks, and with which file it logs in: the login of one is not sent to another."""

from __future__ import annotations

import itertools
from pathlib import Path

import click
import pytest
from support.command_line import Minikafka

from minikafka.cli.arguments.cluster_choice import ClusterChoice, OptionValue, choose_cluster
from minikafka.cli.arguments.contexts import Contexts, NamedCluster, write_contexts

A_FILE, B_FILE = "a.properties", "b.properties"
NONE = OptionValue()
TYPED_A, ENVIRONMENT_A = OptionValue(A_FILE, is_typed=True), OptionValue(A_FILE)
TYPED_B, ENVIRONMENT_B = OptionValue("b", is_typed=True), OptionValue("b")
TYPED_OPEN, ENVIRONMENT_OPEN = OptionValue("open", is_typed=True), OptionValue("open")
TYPED_X, ENVIRONMENT_X = OptionValue("x:1", is_typed=True), OptionValue("x:1")
DEFAULT = "127.0.0.1:9092"
OWN = f"MINIKAFKA_COMMAND_CONFIG={A_FILE} is not used, since context b has {B_FILE}; use --command-config"
NO_FILE = f"MINIKAFKA_COMMAND_CONFIG={A_FILE} is not used, since context open has no file; use --command-config"
OTHER = f"MINIKAFKA_COMMAND_CONFIG={A_FILE} is a file for a:1, but its settings are sent to x:1"

CASES: dict[str, tuple[OptionValue, OptionValue, OptionValue, str | None, ClusterChoice]] = {
    "nothing": (NONE, NONE, NONE, None, ClusterChoice(DEFAULT)),
    "a file": (NONE, NONE, TYPED_A, "a:1", ClusterChoice("a:1", A_FILE)),
    "a file of the environment": (NONE, NONE, ENVIRONMENT_A, "a:1", ClusterChoice("a:1", A_FILE)),
    "a file without addresses": (NONE, NONE, ENVIRONMENT_A, None, ClusterChoice(DEFAULT, A_FILE)),
    "addresses": (TYPED_X, NONE, NONE, None, ClusterChoice("x:1")),
    "addresses and a file": (TYPED_X, NONE, TYPED_A, "a:1", ClusterChoice("x:1", A_FILE)),
    "addresses and a file of the environment": (TYPED_X, NONE, ENVIRONMENT_A, None, ClusterChoice("x:1", A_FILE)),
    "addresses, and a file of others in the environment": (
        TYPED_X, NONE, ENVIRONMENT_A, "a:1", ClusterChoice("x:1", A_FILE, OTHER),
    ),
    "both in the environment": (ENVIRONMENT_X, NONE, ENVIRONMENT_A, "a:1", ClusterChoice("x:1", A_FILE, OTHER)),
    "addresses of the environment, and a file": (ENVIRONMENT_X, NONE, TYPED_A, "a:1", ClusterChoice("a:1", A_FILE)),
    "one address in common": (
        OptionValue("x:1, a:1"), NONE, ENVIRONMENT_A, "a:1,b:1", ClusterChoice("x:1,a:1", A_FILE),
    ),
    "a context": (NONE, TYPED_B, NONE, None, ClusterChoice("b:1", B_FILE)),
    "a context, and a file of the environment": (
        NONE, TYPED_B, ENVIRONMENT_A, "a:1", ClusterChoice("b:1", B_FILE, OWN),
    ),
    "a context, and addresses of the environment": (ENVIRONMENT_X, TYPED_B, NONE, None, ClusterChoice("b:1", B_FILE)),
    "a context and a file": (NONE, TYPED_B, TYPED_A, "a:1", ClusterChoice("b:1", A_FILE)),
    "a context of the environment, and a file": (NONE, ENVIRONMENT_B, TYPED_A, "a:1", ClusterChoice("a:1", A_FILE)),
    "a context of the environment, and a file of no addresses": (
        NONE, ENVIRONMENT_B, TYPED_A, None, ClusterChoice("b:1", A_FILE),
    ),
    "a context and a file of the environment": (
        NONE, ENVIRONMENT_B, ENVIRONMENT_A, "a:1", ClusterChoice("b:1", B_FILE, OWN),
    ),
    "a context without a file": (NONE, TYPED_OPEN, ENVIRONMENT_A, None, ClusterChoice("open:1", "", NO_FILE)),
    "addresses and a context of the environment": (TYPED_X, ENVIRONMENT_B, NONE, None, ClusterChoice("x:1")),
}  # fmt: skip


@pytest.fixture(autouse=True)
def two(contexts: Path) -> None:
    write_contexts(Contexts({"b": NamedCluster("b:1", B_FILE), "open": NamedCluster("open:1")}))


@pytest.mark.parametrize("case", CASES)
def test_the_choice(case: str) -> None:
    servers, context, file, servers_of_file, expected = CASES[case]
    assert choose_cluster(servers, context, file, servers_of_file) == expected


@pytest.mark.parametrize("name", ["b", "open"])
def test_the_context_in_use_has_its_own_file(name: str) -> None:
    write_contexts(Contexts({"b": NamedCluster("b:1", B_FILE), "open": NamedCluster("open:1")}, name))
    own = B_FILE if name == "b" else ""
    assert choose_cluster(NONE, NONE, NONE, None) == ClusterChoice(f"{name}:1", own)
    assert choose_cluster(NONE, NONE, TYPED_A, None) == ClusterChoice(f"{name}:1", A_FILE)
    chosen = choose_cluster(NONE, NONE, ENVIRONMENT_A, None)
    assert (chosen.command_config, bool(chosen.note)) == (own, True)
    assert choose_cluster(NONE, NONE, ENVIRONMENT_A, "a:1") == ClusterChoice("a:1", A_FILE)


def test_no_login_of_the_environment_reaches_another_cluster_without_a_word() -> None:
    """Over all that may be said: a file of the environment is used where it says, or somebody is told."""
    servers = [NONE, TYPED_X, ENVIRONMENT_X]
    named = [NONE, TYPED_B, ENVIRONMENT_B, TYPED_OPEN, ENVIRONMENT_OPEN]
    for server, context in itertools.product(servers, named):
        if server.is_typed and context.is_typed:
            with pytest.raises(click.UsageError, match="mutually exclusive"):
                choose_cluster(server, context, ENVIRONMENT_A, "a:1")
            continue
        chosen = choose_cluster(server, context, ENVIRONMENT_A, "a:1")
        assert chosen.bootstrap_server == "a:1" or chosen.note, (server, context)
        assert (chosen.command_config == A_FILE) == (chosen.bootstrap_server in ("a:1", "x:1"))


def test_a_command_does_not_use_the_file_of_another_cluster(
    minikafka: Minikafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what the file says nor its errors: the one of the context is read, and is missing."""
    (tmp_path / A_FILE).write_text("security.protocol=NONE\n")
    write_contexts(Contexts({"b": NamedCluster("127.0.0.1:1", str(tmp_path / B_FILE))}))
    monkeypatch.setenv("MINIKAFKA_COMMAND_CONFIG", str(tmp_path / A_FILE))
    ran = minikafka("topics", "list", "--context", "b")
    assert f"MINIKAFKA_COMMAND_CONFIG={tmp_path / A_FILE} is not used" in ran.err
    assert f"{tmp_path / B_FILE} cannot be read" in ran.err
    assert "must be one of" in minikafka("topics", "list", "--context", "b", "--command-config", tmp_path / A_FILE).err
