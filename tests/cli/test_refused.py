"""What commands say to a user whom the authorizer refuses: a sentence, never a traceback."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.command_line import Minikafka, Ran
from support.guarded_nodes import GuardedNode, guarded_node

from minikafka.cli.commands.health import Settings, disks_check, unknown_min_isrs
from minikafka.cli.main import cli
from minikafka.cli.reference_page import commands
from minikafka.client import Acl
from minikafka.protocol.errors import (
    ClusterAuthorizationFailedError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

pytestmark = pytest.mark.timeout(300)
EXAMPLE = re.compile(r"^ *(?:Example: )?(?:echo \w+ \| )?minikafka (.*)$", re.MULTILINE)
ASKS = "users set alice"
"""This example asks for a password."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    with guarded_node("minikafka", tmp_path_factory.mktemp("guarded")) as node:
        with node.admin() as admin:
            for name in ("flights", "weather"):
                admin.create_topic(name)
            admin.create_acls([Acl("topic", "flights", "User:alice", "describe")])
        yield node


As = Callable[..., Ran]


@pytest.fixture
def as_alice(guarded: GuardedNode, minikafka: Minikafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> As:
    """`as_alice("topics", "list")` logs in as alice."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text("open sesame\n")
    lines = guarded.properties("SCRAM-SHA-512").items()
    (tmp_path / "alice.properties").write_text("".join(f"{name}={value}\n" for name, value in lines))
    way = ("-b", guarded.address("LOGIN"), "--command-config", str(tmp_path / "alice.properties"))
    return lambda *words, stdin=b"": minikafka(*words, *way, stdin=stdin)


def examples() -> list[str]:
    """The examples of all commands that connect to a cluster."""
    connecting = [one for _, one in commands(cli) if any(option.name == "bootstrap_server" for option in one.params)]
    found = [line for command in connecting for line in EXAMPLE.findall(command.help or "")]
    return [line.split(" > ")[0] for line in found if line != ASKS]


def test_each_example_ends_with_a_sentence(as_alice: As) -> None:
    """Alice may describe the topic flights, and nothing else of what the examples name."""
    lines = examples()
    assert len(lines) > 70
    for line in lines:
        once = ["--count", "1"] if line.startswith("top --interval") else []
        ran = as_alice(*shlex.split(line), *once, stdin=b"x\n")
        assert ran.code in (0, 1, 2), (line, ran)
        assert ran.code == 0 or ran.err.startswith(("Error: ", '{"errors": ')) or line.startswith("health"), (line, ran)
        assert ".." not in ran.err.replace("...", ""), (line, ran)


def test_health_names_what_it_may_not_know(as_alice: As) -> None:
    found = json.loads(as_alice("health", "--json").out)
    problems = {one["check"]: one["problems"] for one in found["checks"]}
    needs = "(it needs DESCRIBE on the cluster)"
    assert {name: len(some) for name, some in problems.items()} == {
        "brokers": 0, "controller": 1, "disks": 1, "offline": 0, "under-min-isr": 1, "under-replicated": 0
    }  # fmt: skip
    assert problems["controller"][0].startswith("the quorum is not known: ")
    assert problems["controller"][0].endswith(needs)
    assert problems["disks"][0].startswith("those of broker 1 are not known: ")
    assert problems["under-min-isr"][0].startswith("min.insync.replicas of topic flights is not known: ")
    ran = as_alice("health", "--ignore", "controller", "--ignore", "disks", "--ignore", "under-min-isr")
    assert ran.code == 0, ran


def test_a_topic_is_described_without_the_settings_that_one_may_not_see(as_alice: As) -> None:
    ran = as_alice("topics", "describe", "flights")
    assert (ran.code, ran.lines[0].split()[0], len(ran.lines)) == (1, "flights", 3), ran
    assert ran.err.startswith("Error: settings of topic 'flights': ")
    assert ran.err.endswith("(they need DESCRIBE_CONFIGS on the topic)\n")
    (found,) = json.loads(as_alice("topics", "describe", "flights", "--json").out)
    assert (found["name"], len(found["partitions"]), found["configs"]) == ("flights", 1, None)
    assert as_alice("topics", "describe", "--under-replicated").code == 0


def test_top_shows_what_one_may_know(as_alice: As) -> None:
    ran = as_alice("top", "--count", "1")
    assert (ran.code, ", controller -, 1 broker" in ran.lines[0]) == (0, True), ran
    assert [line.split()[:4] for line in ran.lines if line.startswith("flights")] == [["flights", "1", "0", "-"]]
    assert json.loads(as_alice("top", "--count", "1", "--json").out)["controller"] is None


def test_without_their_key_it_is_said_what_tokens_need(as_alice: As) -> None:
    refused = as_alice("tokens", "create").err
    assert refused.endswith("delegation token auth disabled: all nodes need the setting delegation.token.secret.key\n")


def test_only_what_one_may_not_know_is_a_problem_of_health() -> None:
    """A topic that was deleted meanwhile is none."""
    settings: Settings = {"a": TopicAuthorizationFailedError(), "b": UnknownTopicOrPartitionError(), "c": {}}
    assert [one.split(" is ")[0] for one in unknown_min_isrs(settings)] == ["min.insync.replicas of topic a"]
    assert len(disks_check({1: ClusterAuthorizationFailedError(), 2: "broker 2 does not answer"}).problems) == 1
