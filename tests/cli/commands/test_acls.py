"""`minikafka acls`, `users` and `tokens` against Apache Kafka; `kafka-acls` and `kafka-configs` are the judges."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.command_line import Minikafka
from support.oracle import Oracle, needs_oracle, tool

from minikafka.cli.commands.acls import acls_of
from minikafka.client import Acl

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
NOTHING = {
    "allowed": (),
    "denied": (),
    "hosts": (),
    "operations": (),
    "prefixed": False,
    "producer": False,
    "consumer": False,
}
KAFKAS_RULE = re.compile(r"principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)")


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    with Oracle(tmp_path_factory.mktemp("oracle") / "kafka", settings=AUTHORIZER) as kafka:
        yield kafka


def rules(oracle: Oracle, *words: str) -> set[tuple[str, ...]]:
    """What `kafka-acls --list` says: principal, host, operation, permission."""
    said = tool("acls", "--bootstrap-server", oracle.bootstrap, "--list", *words)
    return {found.groups() for found in KAFKAS_RULE.finditer(said)}


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_acls_are_added_listed_and_removed_as_by_kafka_acls(minikafka: Minikafka, oracle: Oracle) -> None:
    at = ("-b", oracle.bootstrap)
    added = minikafka("acls", "add", "--allow", "User:alice", "--consumer", "--topic", "t", "--group", "g", *at)
    assert (added.code, added.lines[0]) == (0, "Added 3 ACLs.")
    assert rules(oracle, "--topic", "t") == {("User:alice", "*", one, "ALLOW") for one in ("READ", "DESCRIBE")}
    assert rules(oracle, "--group", "g") == {("User:alice", "*", "READ", "ALLOW")}

    denied = ("--deny", "User:bob", "--operation", "write", "--host", "10.0.0.1", "--topic", "t", "--prefixed")
    assert minikafka("acls", "add", *denied, *at).code == 0
    assert ("User:bob", "10.0.0.1", "WRITE", "DENY") in rules(
        oracle, "--topic", "t", "--resource-pattern-type", "prefixed"
    )
    listed = json.loads(minikafka("acls", "list", "--topic", "tea", "--json", *at).out)
    assert [(one["principal"], one["pattern"], one["permission"]) for one in listed] == [
        ("User:bob", "prefixed", "deny")
    ]
    assert len(minikafka("acls", "list", "--principal", "User:alice", *at).lines) == 4

    tool("acls", "--bootstrap-server", oracle.bootstrap, "--add", "--allow-principal", "User:carol", "--operation",
         "Alter", "--cluster")
    assert "User:carol" in minikafka("acls", "list", "--cluster", *at).out

    assert minikafka("acls", "remove", *denied, *at).lines[0] == "Removed 1 ACL."
    again = minikafka("acls", "remove", *denied, *at)
    assert again.code == 1
    assert "there is no such ACL" in again.err
    assert rules(oracle, "--principal", "User:bob") == set()


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_users_are_those_of_kafka_configs(minikafka: Minikafka, oracle: Oracle, tmp_path: Path) -> None:
    secret, empty = tmp_path / "secret.txt", tmp_path / "empty.txt"
    secret.write_text("open sesame\n")
    empty.write_text("\n")
    at = ("-b", oracle.bootstrap)
    assert minikafka("users", "list", *at).lines == ["No users."]
    ran = minikafka("users", "set", "alice", "--password-file", str(secret), "--iterations", "5000", *at)
    assert (ran.code, ran.out) == (0, "Set the password of alice for SCRAM-SHA-512.\n")
    said = tool("configs", "--bootstrap-server", oracle.bootstrap, "--describe", "--entity-type", "users")
    assert "'alice' are SCRAM-SHA-512=iterations=5000" in said
    assert json.loads(minikafka("users", "list", "--json", *at).out) == {"alice": {"SCRAM-SHA-512": 5000}}
    unknown = minikafka("users", "list", "nobody", *at)
    assert unknown.code == 1
    assert "nobody" in unknown.err
    assert minikafka("users", "delete", "alice", "--mechanism", "SCRAM-SHA-256", *at).code == 1
    assert minikafka("users", "delete", "alice", *at).code == 0
    assert minikafka("users", "list", *at).lines == ["No users."]
    assert minikafka("users", "set", "alice", "--password-file", str(empty), *at).code == 2


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_anonymous_client_is_told_why_it_gets_no_token(minikafka: Minikafka, oracle: Oracle) -> None:
    ran = minikafka("tokens", "create", "-b", oracle.bootstrap)
    assert ran.code == 1
    assert "delegation token request not allowed" in ran.err
    assert minikafka("tokens", "list", "-b", oracle.bootstrap).code == 1


def test_without_an_authorizer_the_command_says_so(minikafka: Minikafka) -> None:
    ran = minikafka("acls", "list")
    assert ran.code == 1
    assert "No Authorizer is configured" in ran.err


@pytest.mark.parametrize(
    ("principal", "why"),
    [
        ("bob", "'bob' must have a type and a name, as User:alice"),
        (":bob", "':bob' must have a type and a name"),
        ("User:", "'User:' must have a type and a name"),
        ("user:bob", "'user:bob': the type is written User, with a capital letter"),
    ],
)
@pytest.mark.parametrize("words", [("add", "--topic", "t", "--allow"), ("remove", "--topic", "t", "--deny"),
                                   ("list", "--principal")])  # fmt: skip
def test_a_principal_that_no_client_has_is_refused(
    minikafka: Minikafka, words: tuple[str, ...], principal: str, why: str
) -> None:
    ran = minikafka("acls", *words, principal)
    assert (ran.code, ran.out) == (2, "")
    assert why in ran.err


@pytest.mark.parametrize(("name", "is_named"), [("flights*", True), ("*", False), ("flights", False)])
def test_a_star_that_is_a_letter_is_named(minikafka: Minikafka, name: str, *, is_named: bool) -> None:
    ran = minikafka("acls", "add", "--allow", "User:bob", "--group", name)
    hint = (
        "group 'flights*': the * is part of this name; "
        "for all names that begin with 'flights' give 'flights' and --prefixed"
    )
    assert (hint in ran.err) == is_named
    assert "No Authorizer is configured" in ran.err


@pytest.mark.parametrize("secret", ["not base64!", "c2VjcmV0=x"])
def test_an_hmac_that_is_none_is_not_repeated(minikafka: Minikafka, secret: str) -> None:
    ran = minikafka("tokens", "expire", secret)
    assert ran.code == 2
    assert secret not in ran.out + ran.err


def made(*resources: tuple[str, str], **rule: object) -> list[Acl]:
    return acls_of(resources, **{**NOTHING, **rule})  # type: ignore[arg-type]


def test_each_combination_is_an_acl() -> None:
    rule = {"allowed": ("User:a",), "denied": ("User:b",), "hosts": ("1.1.1.1", "*"), "operations": ("read", "write")}
    found = made(("topic", "t"), ("group", "g"), **rule)
    assert len(set(found)) == 16
    assert Acl("group", "g", "User:b", "write", "deny", "1.1.1.1") in found


def test_an_address_is_written_as_nodes_compare_it() -> None:
    found = made(("topic", "t"), allowed=("User:a",), hosts=("::1", "10.0.0.1"))
    assert [one.host for one in found] == ["0:0:0:0:0:0:0:1", "10.0.0.1"]


def test_the_name_of_the_cluster_is_never_a_prefix() -> None:
    found = made(("cluster", "kafka-cluster"), ("topic", "t"), allowed=("User:a",), prefixed=True)
    assert [(one.resource_type, one.pattern) for one in found] == [("cluster", "literal"), ("topic", "prefixed")]


def test_what_a_producer_needs() -> None:
    found = made(("topic", "t"), ("transactional_id", "x"), allowed=("User:a",), producer=True)
    assert {(one.resource_type, one.operation) for one in found} == {
        ("topic", "write"),
        ("topic", "describe"),
        ("topic", "create"),
        ("transactional_id", "write"),
        ("transactional_id", "describe"),
    }


@pytest.mark.parametrize(
    ("resources", "rule", "said"),
    [
        ([("topic", "t")], {}, "--allow User:alice"),
        ([], {"allowed": ("User:a",)}, "--topic"),
        ([("topic", "t")], {"allowed": ("User:a",), "consumer": True}, "--group"),
        ([("group", "g")], {"allowed": ("User:a",), "producer": True}, "--topic"),
        ([("topic", "t")], {"allowed": ("User:a",), "producer": True, "operations": ("read",)}, "--operation"),
        ([("topic", "t")], {"denied": ("User:a",), "producer": True}, "--deny"),
    ],
)
def test_a_command_line_that_names_no_acl_says_what_is_missing(
    resources: list[tuple[str, str]], rule: dict[str, object], said: str
) -> None:
    with pytest.raises(click.UsageError, match=said):
        made(*resources, **rule)


@pytest.mark.parametrize("word", ["READ", "any", "match", "unknown", "", "read "])
def test_an_unknown_word_names_the_allowed_ones(word: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be one of 'all', 'read', 'write'"):
        Acl("topic", "t", "User:a", word).codes()
