"""`--json` of all commands: the result is JSON on standard output, a failure is JSON on standard error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.clients import Client, Outgoing
from support.command_line import Minikafka, Ran
from support.node import NodeProcess
from support.open_transaction import open_transaction

from minikafka.cli.main import cli
from minikafka.cli.reference_page import commands

WITHOUT_RESULT = {("server",), ("cluster",), ("completion",), ("produce",), ("testing", "serve")}
"""They run nodes, print a script, or read what `--json` says."""
ALL = {path for path, command in commands(cli) if not hasattr(command, "commands")} - WITHOUT_RESULT
SUCCESSES = """
topics create {topic}-2 --partitions 2
topics create {topic} --if-not-exists
topics list
topics describe {topic}
topics alter {topic} --partitions 3 --config retention.ms=70000
topics delete {topic}
configs describe topic {topic}
configs alter topic {topic} --set retention.ms=70000
configs alter topic {topic} --set retention.ms=70000 --dry-run
consume {topic} --max-messages 2 --from-beginning
groups list
groups describe {group}
groups members {group}
groups lag {group}
groups reset-offsets {group} --topic {topic} --to-earliest
groups reset-offsets {group} --topic {topic} --to-earliest --execute
groups delete {group}
offsets {topic}
delete-records {topic}:0 --before 1
top --count 1
health
brokers
log-dirs
features describe
features upgrade transaction.version=2 --dry-run
features downgrade transaction.version=1 --dry-run
features disable transaction.version --dry-run
api-versions
quorum describe
elect-leaders
reassign execute {directory}/plan.json
reassign verify {directory}/plan.json
reassign list
reassign cancel --all
transactions list
transactions describe {topic}
transactions find-hanging {topic}
transactions abort {topic}:0 --start-offset 3
producers {topic}:0
users set alice --password-file {directory}/secret.txt
users list
dump-log {log}
storage format --config {directory}/controller.properties --cluster-id 5L6g3nShT-eMCtK--X86sw --standalone
storage info --config {directory}/formatted.properties
storage random-uuid
context add other localhost:9999
context list
context use prod
context remove prod
perf produce {topic} --records 10
perf consume {topic} --records 3
perf latency {topic} --records 3
"""
FAILURES = """
1 FAILED cluster status --data-dir {directory}/nowhere
1 FAILED cluster restart --data-dir {directory}/nowhere
1 FAILED cluster stop --data-dir {directory}/nowhere
1 FAILED quorum add-controller --config {directory}/node-1/server.properties
1 FAILED quorum remove-controller 7
1 FAILED unregister-broker 1
1 BROKER_ID_NOT_REGISTERED unregister-broker 7
1 FAILED storage format --config {directory}/formatted.properties --cluster-id 5L6g3nShT-eMCtK--X86sw
1 TOPIC_ALREADY_EXISTS topics create {topic}
1 INVALID_CONFIG topics create {topic}-2 --config retention.ms=x
1 UNKNOWN_TOPIC_OR_PARTITION topics describe {topic}-2
1 UNKNOWN_TOPIC_OR_PARTITION topics alter {topic}-2 --partitions 9
1 INVALID_PARTITIONS topics alter {topic} --partitions 1
1 UNKNOWN_TOPIC_OR_PARTITION topics delete {topic}-2
1 GROUP_ID_NOT_FOUND groups delete nobody
1 OFFSET_OUT_OF_RANGE delete-records {topic}:0 --before 99
1 UNKNOWN_TOPIC_OR_PARTITION perf produce {topic}-2 --records 1
1 FAILED context use nowhere
1 SECURITY_DISABLED acls list
1 SECURITY_DISABLED acls add --allow User:alice --topic {topic}
1 SECURITY_DISABLED acls remove --allow User:alice --topic {topic}
1 RESOURCE_NOT_FOUND users delete nobody
1 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED tokens create
1 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED tokens list
1 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED tokens renew c2VjcmV0
1 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED tokens expire c2VjcmV0
2 USAGE dump-log {directory}/00000000000000000000.log
2 USAGE topics alter {topic}
2 USAGE groups reset-offsets {group} --to-latest
"""


@pytest.fixture
def prepared(
    minikafka: Minikafka, node: NodeProcess, judge: Client, topic: str, tmp_path: Path
) -> dict[str, Any]:
    """What the command lines above name."""
    judge.produce(topic, [Outgoing(b"%d" % number) for number in range(3)])
    reset = ("groups", "reset-offsets", f"{topic}-group", "--topic", topic, "--to-latest", "--execute")
    assert minikafka(*reset).code == 0
    assert minikafka("context", "add", "prod", node.bootstrap).code == 0
    plan = {"partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    (tmp_path / "secret.txt").write_text("open sesame\n")
    (tmp_path / "node-1").mkdir()
    (tmp_path / "node-1" / "server.properties").write_text("node.id=1\nlisteners=PLAINTEXT://127.0.0.1:1\n")
    (tmp_path / "controller.properties").write_text(
        "process.roles=controller\ncontroller.listener.names=CONTROLLER\nlisteners=CONTROLLER://127.0.0.1:1\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:1\nlog.dirs={tmp_path}/formatted\n"
    )
    (tmp_path / "formatted.properties").write_text(f"log.dirs={tmp_path}/other\n")
    formatted = ("--config", str(tmp_path / "formatted.properties"), "--cluster-id", "5L6g3nShT-eMCtK--X86sw")
    assert minikafka("storage", "format", *formatted).code == 0
    log = node.data_dir / f"{topic}-0" / "00000000000000000000.log"
    return {"topic": topic, "group": f"{topic}-group", "directory": tmp_path, "log": log}


def errors_in(ran: Ran) -> list[dict[str, Any]]:
    """The errors on standard error, which has one line."""
    (line,) = ran.err.splitlines()
    found = json.loads(line)
    assert list(found) == ["errors"]
    assert all(one["message"] for one in found["errors"])
    errors: list[dict[str, Any]] = found["errors"]
    return errors


def test_every_command_is_here() -> None:
    lines = [*SUCCESSES.strip().splitlines(), *(line.split(" ", 2)[2] for line in FAILURES.strip().splitlines())]
    assert {path for path in ALL if not any(f"{line} ".startswith(" ".join(path) + " ") for line in lines)} == set()


@pytest.mark.slow
@pytest.mark.parametrize("line", SUCCESSES.strip().splitlines())
def test_a_result_is_json(
    minikafka: Minikafka, node: NodeProcess, prepared: dict[str, Any], line: str
) -> None:
    if line.startswith("transactions"):
        open_transaction(node.bootstrap, prepared["topic"])
    ran = minikafka(*line.format(**prepared).split(), "--json")
    assert (ran.code, ran.err) == (0, "")
    assert [json.loads(text) for text in ran.lines] != []


@pytest.mark.parametrize("line", FAILURES.strip().splitlines())
def test_a_failure_is_json_with_a_code(
    minikafka: Minikafka, prepared: dict[str, Any], impatient: None, line: str
) -> None:
    code, name, words = line.split(" ", 2)
    ran = minikafka(*words.format(**prepared).split(), "--json")
    assert ran.code == int(code)
    assert [error["code"] for error in errors_in(ran)] == [name], ran
    for text in ran.lines:
        json.loads(text)


@pytest.mark.parametrize("path", sorted(ALL), ids=" ".join)
def test_an_unknown_option_is_a_usage_error_in_json(minikafka: Minikafka, path: tuple[str, ...]) -> None:
    ran = minikafka(*path, "--json", "--no-such-option")
    assert (ran.code, ran.out) == (2, "")
    assert [error["code"] for error in errors_in(ran)] == ["USAGE"]


def test_a_broker_that_does_not_respond_is_json(minikafka: Minikafka, impatient: None) -> None:
    ran = minikafka("topics", "list", "--json", "--bootstrap-server", "127.0.0.1:1")
    assert (ran.code, ran.out) == (1, "")
    (error,) = errors_in(ran)
    assert "127.0.0.1:1" in error["message"]


def test_what_was_done_is_told_beside_what_was_not(minikafka: Minikafka, topic: str, impatient: None) -> None:
    ran = minikafka("topics", "delete", topic, f"{topic}-2", "--json")
    assert (ran.code, json.loads(ran.out)) == (1, {"deleted": [topic]})
    (error,) = errors_in(ran)
    assert (error["code"], error["number"]) == ("UNKNOWN_TOPIC_OR_PARTITION", 3)


def test_json_that_is_read_does_not_change_the_errors(minikafka: Minikafka, topic: str) -> None:
    ran = minikafka("produce", topic, "--json", stdin=b"no json\n")
    assert (ran.code, ran.err.splitlines()[-1].startswith("Error: ")) == (1, True), ran.err
