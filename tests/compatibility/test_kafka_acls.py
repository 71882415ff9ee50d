"""`kafka-acls` of Apache Kafka, unchanged, against minikafka: ACLs are added, listed and removed, at both listeners."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support.node import NodeProcess
from support.oracle import needs_oracle, run_tool, tool

pytestmark = [pytest.mark.oracle, needs_oracle, pytest.mark.slow, pytest.mark.timeout(300)]

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_ENTRY = re.compile(r"principal=(\S+), host=(\S+), operation=(\w+), permissionType=(\w+)")


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with NodeProcess(tmp_path_factory.mktemp("acls") / "data", settings=SETTINGS) as node:
        yield node.bootstrap


def acls(bootstrap: str, *words: str) -> str:
    return tool("acls", "--bootstrap-server", bootstrap, *words)


def listed(bootstrap: str, *words: str) -> list[tuple[str, ...]]:
    """Principal, host, operation and permission of the ACLs that `--list` shows."""
    return sorted(_ENTRY.findall(acls(bootstrap, "--list", *words)))


def test_acls_are_added_listed_and_removed(bootstrap: str) -> None:
    about = ("--topic", "tea-", "--resource-pattern-type", "prefixed")
    acls(bootstrap, "--add", "--allow-principal", "User:carol", "--operation", "Read", "--operation", "Alter", *about)
    acls(bootstrap, "--add", "--deny-principal", "User:dave", "--deny-host", "10.0.0.9", "--operation", "All", *about)
    assert listed(bootstrap, *about) == [
        ("User:carol", "*", "ALTER", "ALLOW"),
        ("User:carol", "*", "READ", "ALLOW"),
        ("User:dave", "10.0.0.9", "ALL", "DENY"),
    ]
    assert len(listed(bootstrap, "--topic", "tea-green", "--resource-pattern-type", "match")) == 3
    assert listed(bootstrap, "--topic", "tea-") == []
    removed = ("--remove", "--force", "--allow-principal", "User:carol", "--operation", "Read", *about)
    acls(bootstrap, *removed)
    assert listed(bootstrap, *about) == [
        ("User:carol", "*", "ALTER", "ALLOW"),
        ("User:dave", "10.0.0.9", "ALL", "DENY"),
    ]
    acls(bootstrap, "--remove", "--force", *about)
    assert listed(bootstrap, *about) == []


def test_the_conveniences_for_producers_and_consumers(bootstrap: str) -> None:
    acls(bootstrap, "--add", "--allow-principal", "User:alice", "--producer", "--topic", "made", "--idempotent",
         "--transactional-id", "x")  # fmt: skip
    acls(bootstrap, "--add", "--allow-principal", "User:bob", "--consumer", "--topic", "made", "--group", "g")
    of_topic = [(who, operation) for who, _, operation, _ in listed(bootstrap, "--topic", "made")]
    assert of_topic == [
        ("User:alice", "CREATE"),
        ("User:alice", "DESCRIBE"),
        ("User:alice", "WRITE"),
        ("User:bob", "DESCRIBE"),
        ("User:bob", "READ"),
    ]
    assert [one[2] for one in listed(bootstrap, "--transactional-id", "x")] == ["DESCRIBE", "WRITE"]
    assert [one[2] for one in listed(bootstrap, "--group", "g")] == ["READ"]
    assert [one[2] for one in listed(bootstrap, "--cluster")] == ["IDEMPOTENT_WRITE"]


def test_a_node_without_an_authorizer_refuses(tmp_path_factory: pytest.TempPathFactory) -> None:
    with NodeProcess(tmp_path_factory.mktemp("open") / "data") as node:
        done = run_tool("acls", "--bootstrap-server", node.bootstrap, "--list")
    assert "SecurityDisabledException" in done.stdout + done.stderr
