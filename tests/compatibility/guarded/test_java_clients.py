"""Java's client, in Kafka's tools, does its work by each login and by a certificate, and shows what is denied."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.denied_things import BOBS, MINE, expected, prepare, recorded
from support.guarded_nodes import MODULES, GuardedNode
from support.java_logins import JAVA_WAYS, TOKEN_BY_HTTP, JavaLogins, java_logins
from support.java_programs import why_not_compiled
from support.oracle import KAFKA_ITSELF
from support.token_server import CLIENT_SECRET
from support.tool_server import Done, ToolServer

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(why_not_compiled() is not None, reason=why_not_compiled() or ""),
]
PATIENCE_S = 60.0
EXCEPTION = re.compile(r"\b[A-Z]\w*Exception\b(?:: [^\n]*)?")
INNER = re.compile(
    r"[\w.]*ExecutionException: |(?<=ClusterAuthorizationException): [^\n]*|(?<=with args) [^\n]*|\n\s+at [^\n]*"
)
"""What is of Java or of Kafka's own objects: a wrapper, the text of a request in Kafka's memory, traces; and paths."""


class Tools:
    """Kafka's tools in a JVM, as the clients of a node."""

    def __init__(self, kind: str, logins: JavaLogins, server: ToolServer, folder: Path) -> None:
        self.kind = kind
        self.node = logins.node
        self.logins = logins
        self._server = server
        self._folder = folder

    def run(self, settings: Mapping[str, str], tool: str, *words: object, stdin: str = "") -> Done:
        """Run a tool as the client with these settings."""
        listener = "LOGIN" if settings["security.protocol"] == "SASL_SSL" else "MUTUAL"
        file = self._folder / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        place = ["--bootstrap-server", self.node.address(listener), "--command-config", str(file)]
        return self._server.run(tool, [*place, *map(str, words)], stdin, PATIENCE_S)

    def ran(self, settings: Mapping[str, str], tool: str, *words: object, stdin: str = "") -> str:
        """What a tool prints that must succeed."""
        done = self.run(settings, tool, *words, stdin=stdin)
        assert done.code == 0, done
        return done.out

    def shown(self, settings: Mapping[str, str], tool: str, *words: object, stdin: str = "") -> list[object]:
        """What a tool shows that must not succeed: its exit code, its first line, and the exceptions that it names."""
        self._server.logged()
        done = self.run(settings, tool, *words, stdin=stdin)
        exceptions = EXCEPTION.findall(INNER.sub("", done.out + done.err + self._server.logged()))
        printed = done.out.strip() or (done.err.strip() if done.code else "")
        return [done.code, INNER.sub("", printed).partition("\n")[0], *sorted(set(exceptions))]


@pytest.fixture(scope="module", params=["minikafka", pytest.param("kafka", id="kafka_itself", marks=KAFKA_ITSELF)])
def tools(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    node: GuardedNode = request.getfixturevalue(f"guarded_{request.param}")
    folder = tmp_path_factory.mktemp("java")
    with java_logins(node, folder) as logins, ToolServer(folder, logins.jvm_options) as server:
        yield Tools(request.param, logins, server, folder)


@pytest.mark.parametrize("way", JAVA_WAYS)
def test_topics_records_groups_and_transactions(tools: Tools, way: str, own_name: str) -> None:
    alice = tools.logins.of(way)
    tools.ran(alice, "topics", "--create", "--topic", own_name, "--partitions", 2)
    tools.ran(alice, "console-producer", "--topic", own_name, stdin="a\nb\n")
    transactional = ("--transactional-id", own_name, "--num-records", 3, "--record-size", 1, "--throughput", -1)
    tools.ran(alice, "producer-perf-test", "--topic", own_name, *transactional)
    consumed = tools.ran(
        alice, "console-consumer", "--topic", own_name, "--group", own_name, "--isolation-level", "read_committed",
        "--from-beginning", "--max-messages", 5, "--timeout-ms", 60_000,
    )  # fmt: skip
    assert len(consumed.split()) == 5
    assert {"a", "b"} <= set(consumed.split())
    described = tools.ran(alice, "consumer-groups", "--describe", "--group", own_name)
    assert sum(map(int, re.findall(rf"{own_name}\s+\d\s+(\d+)", described))) >= 5, described
    assert tools.ran(alice, "topics", "--list").split().count(own_name) == 1


def test_the_provider_is_asked_with_the_clients_secret(tools: Tools) -> None:
    before = tools.logins.tokens.granted
    tools.ran(tools.logins.of(TOKEN_BY_HTTP), "topics", "--list")
    assert tools.logins.tokens.granted > before
    wrong = tools.logins.of(TOKEN_BY_HTTP)
    wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace(CLIENT_SECRET, "not-it")
    assert tools.run(wrong, "topics", "--list").code != 0


def test_a_user_is_made_by_a_tool_and_allowed_by_another(tools: Tools, name: str) -> None:
    """SCRAM credentials by kafka-configs, ACLs by kafka-acls: the user may do what they say, until they are removed."""
    admin = tools.node.admin_properties()
    entity = ("--entity-type", "users", "--entity-name", "dave")
    tools.ran(admin, "configs", "--alter", *entity, "--add-config", "SCRAM-SHA-512=[password=dave-secret]")
    assert "SCRAM-SHA-512=iterations=4096" in tools.ran(admin, "configs", "--describe", *entity)
    dave = {**tools.node.properties("SCRAM-SHA-512")}
    dave["sasl.jaas.config"] = f'{MODULES}.scram.ScramLoginModule required username="dave" password="dave-secret";'
    tools.ran(admin, "topics", "--create", "--topic", name)
    assert tools.ran(dave, "topics", "--list") == "\n"
    for convenience in (("--producer",), ("--consumer", "--group", name)):
        tools.ran(admin, "acls", "--add", "--allow-principal", "User:dave", "--topic", name, *convenience)
    tools.ran(dave, "console-producer", "--topic", name, stdin="a\n")
    once = ("--from-beginning", "--max-messages", 1, "--timeout-ms", 60_000)
    assert tools.ran(dave, "console-consumer", "--topic", name, "--group", name, *once).split() == ["a"]
    tools.ran(admin, "acls", "--remove", "--force", "--topic", name)
    denied = tools.shown(dave, "console-producer", "--topic", name, stdin="b\n")
    assert f"TopicAuthorizationException: Not authorized to access topics: [{name}]" in denied
    tools.ran(admin, "configs", "--alter", *entity, "--delete-config", "SCRAM-SHA-512")
    assert "SaslAuthenticationException: Authentication failed" in str(tools.shown(dave, "topics", "--list"))


DENIED: dict[str, tuple[object, ...]] = {
    "write to a topic": ("console-producer", "--topic", BOBS),
    "write to a missing topic": ("console-producer", "--topic", "missing"),
    "read a topic": ("console-consumer", "--topic", BOBS, "--partition", 0, "--timeout-ms", 20_000),
    "join a group": ("console-consumer", "--topic", MINE, "--group", BOBS, "--timeout-ms", 20_000),
    "subscribe to a topic": ("console-consumer", "--topic", BOBS, "--group", MINE, "--timeout-ms", 20_000),
    "join a group of the new protocol": (
        "console-consumer", "--topic", MINE, "--group", BOBS, "--timeout-ms", 20_000,
        "--command-property", "group.protocol=consumer",
    ),
    "use a transactional id": (
        "producer-perf-test", "--topic", MINE, "--transactional-id", BOBS, "--num-records", 1, "--record-size", 1,
        "--throughput", -1,
    ),
    "write to a topic in a transaction": (
        "producer-perf-test", "--topic", BOBS, "--transactional-id", MINE, "--num-records", 1, "--record-size", 1,
        "--throughput", -1,
    ),
    "create a topic": ("topics", "--create", "--topic", "bobs-new"),
    "delete a topic": ("topics", "--delete", "--topic", BOBS),
    "add partitions": ("topics", "--alter", "--topic", BOBS, "--partitions", 4),
    "describe settings": ("configs", "--describe", "--entity-type", "topics", "--entity-name", BOBS),
    "alter settings": (
        "configs", "--alter", "--entity-type", "topics", "--entity-name", BOBS, "--add-config", "retention.ms=1000",
    ),
    "settings of a broker": ("configs", "--describe", "--entity-type", "brokers", "--entity-name", 1),
    "users": ("configs", "--describe", "--entity-type", "users", "--entity-name", "alice"),
    "make a user": (
        "configs", "--alter", "--entity-type", "users", "--entity-name", "eve",
        "--add-config", "SCRAM-SHA-256=[password=x]",
    ),
    "list acls": ("acls", "--list"),
    "add an acl": ("acls", "--add", "--allow-principal", "User:alice", "--operation", "All", "--cluster"),
    "describe a group": ("consumer-groups", "--describe", "--group", BOBS),
    "delete a group": ("consumer-groups", "--delete", "--group", BOBS),
    "describe a transaction": ("transactions", "describe", "--transactional-id", BOBS),
    "describe the quorum": ("metadata-quorum", "describe", "--status"),
    "log directories": ("log-dirs", "--describe"),
}  # fmt: skip
"""What alice may not do, as command lines of tools."""


def test_what_acls_deny_is_shown_as_with_kafka(tools: Tools) -> None:
    prepare(tools.node)
    alice = tools.logins.of("SCRAM-SHA-512")
    shown = {thing: tools.shown(alice, *words, stdin="x\n") for thing, words in DENIED.items()}
    assert shown == expected("java", shown, tools.kind)


def test_each_denial_is_in_the_table() -> None:
    shown = recorded()["java"]
    assert list(shown) == list(DENIED)
    assert [thing for thing, said in shown.items() if not re.search("(?i)authoriz|exist", str(said))] == []
