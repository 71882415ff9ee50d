"""What a command line names and the cluster does not have is an error in one sentence, and nothing else is printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from support.command_line import Minikafka
from support.node import NodeProcess

from minikafka.cli.main import cli
from minikafka.cli.reference_page import commands
from minikafka.client import TopicPartition
from minikafka.client.blocking import Admin

COMMANDS = {
    " ".join(path): command
    for path, command in commands(cli)
    if "bootstrap_server" in {each.name for each in command.params}
}
ENDS = {"consume": ["--timeout-ms", "1"], "perf produce": ["--records", "1"], "perf latency": ["--records", "1"]}
"""What has a command end that does not see that a name is unknown."""
TOPIC, PARTITION, BROKER = "nothere", "plain:9", "77"
LATEST = "--to-latest"
PLANS = {
    "topic.json": {"topic": TOPIC, "partition": 0, "replicas": [1]},
    "partition.json": {"topic": "plain", "partition": 9, "replicas": [1]},
    "broker.json": {"topic": "plain", "partition": 0, "replicas": [77]},
}
RECORDS = {"records-topic.json": (TOPIC, 0), "records-partition.json": ("plain", 9)}
CSVS = {"topic.csv": f"{TOPIC},0,0\n", "partition.csv": "plain,9,0\n"}
LINES: dict[str, dict[str, list[list[str]]]] = {
    "topics create": {"name": []},
    "topics alter": {"name": [[TOPIC, "--partitions", "3"], [TOPIC, "--config", "retention.ms=1"]]},
    "topics delete": {"names": [[TOPIC], [TOPIC, TOPIC]]},
    "topics describe": {"names": [[TOPIC], [TOPIC, "--under-replicated"]]},
    "configs alter": {
        "name": [["topic", TOPIC, "--set", "retention.ms=1"], ["broker", BROKER, "--set", "log.retention.ms=1"]],
    },
    "configs describe": {"name": [["topic", TOPIC], ["broker", BROKER]]},
    "produce": {"topic": [[TOPIC]], "partition": [["plain", "--partition", "9"]]},
    "consume": {
        "topics": [[TOPIC], [TOPIC, "plain"], ["plain", TOPIC], [TOPIC, "--group", "readers"]],
        "partitions": [["plain", "--partition", "9"], [TOPIC, "--partition", "0"]],
        "offset": [["plain", "--partition", "0", "--offset", "99"]],
    },
    **{f"groups {name}": {"group_ids": [["nothere"]]} for name in ("delete", "describe", "lag", "members")},
    "groups reset-offsets": {
        "group_id": [["nothere", "--all-topics", LATEST], ["nothere", "--all-topics", "--to-current", "--export"]],
        "topics": [
            ["readers", "--topic", TOPIC, LATEST],
            ["readers", "--topic", PARTITION, LATEST],
            ["readers", "--topic", TOPIC, "--to-offset", "0", "--execute"],
            ["readers", "--topic", PARTITION, "--to-current", "--export"],
        ],
        "from_file": [["readers", "--from-file", one, *more] for one in CSVS for more in ([], ["--execute"])],
    },
    "offsets": {"names": [[TOPIC], [TOPIC, "--time", "1"], [PARTITION], [f"{TOPIC}:0"]]},
    "delete-records": {
        "names": [[one, *how] for one in (TOPIC, PARTITION, f"{TOPIC}:0") for how in (
            ["--before", "0"], ["--before-time", "1"], ["--all"],
        )],
        "from_file": [["--from-file", one] for one in RECORDS],
    },
    "log-dirs": {"topics": [[TOPIC], [TOPIC, "--replicas"]], "broker_ids": [["--broker", BROKER]]},
    "features describe": {"broker": [["--broker", BROKER]]},
    "features disable": {"names": [["nothere"]]},
    "features upgrade": {"levels": [["nothere=1"]]},
    "features downgrade": {"levels": [["nothere=0"]]},
    "api-versions": {"broker": [["--broker", BROKER]]},
    "quorum remove-controller": {"node_id": [["77"], ["77", "--dry-run"]]},
    "unregister-broker": {"node_id": [["77"]]},
    "elect-leaders": {"names": [[TOPIC], [PARTITION], [f"{TOPIC}:0"]]},
    "reassign cancel": {"plan": [[one] for one in ("topic.json", "partition.json")]},
    "reassign execute": {"plan": [[one] for one in PLANS]},
    "reassign verify": {"plan": [[one] for one in ("topic.json", "partition.json")]},
    "transactions abort": {
        "name": [[one, "--start-offset", "0"] for one in (f"{TOPIC}:0", PARTITION)],
    },
    "transactions describe": {"transactional_id": [["nothere"]]},
    "transactions find-hanging": {"names": [[TOPIC], [PARTITION], [TOPIC, "--older-than", "1"]]},
    "producers": {"names": [[TOPIC], [PARTITION]]},
    "perf consume": {"topic": [[TOPIC]]},
    "perf latency": {"topic": [[TOPIC]]},
    "perf produce": {"topic": [[TOPIC]]},
    "users list": {"names": [["nothere"]]},
    "users delete": {"user": [["nothere"]]},
    "users set": {"user": []},  # The user may be new.
    **{f"acls {name}": {"topic": []} for name in ("list", "add", "remove")},  # A rule may precede what it is about.
}  # fmt: skip
"""Command, parameter, and lines in which it names what the cluster does not have."""
ALL = [(name, line) for name, some in LINES.items() for lines in some.values() for line in lines]
_VALUES = """
bootstrap_server bootstrap_controller context as_json configs deleted client_id settings appended subtracted file
key_separator null headers compression_type acks options since max_messages timeout_ms isolation_level template_text
delimiter states types to_offset shift_by to_time time_ms interval_s count rows_max timeout_s ignore config
directory_id older_than_s records size rate kind partitions replication_factor transactional_id group start_offset
offset command_config delegation_token user principal allowed denied hosts operations mechanism iterations
password_file owner owners renewers max_lifetime_s period_s hmac
"""
VALUES = _VALUES.split()
"""Parameters that name nothing of the cluster, or what a command creates: groups that consume, ids of transactions."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node with a topic of two partitions and a group."""
    settings = {"auto.create.topics.enable": "false"}
    with NodeProcess(tmp_path_factory.mktemp("unknown") / "data", settings=settings) as node:
        with Admin(node.bootstrap) as admin:
            admin.create_topic("plain", partitions=2)
            admin.alter_group_offsets("readers", {TopicPartition("plain", 0): 0})
        yield node


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, plan in PLANS.items():
        (tmp_path / name).write_text(json.dumps({"version": 1, "partitions": [plan]}))
    for name, (topic, partition) in RECORDS.items():
        plan = {"topic": topic, "partition": partition, "offset": 0}
        (tmp_path / name).write_text(json.dumps({"version": 1, "partitions": [plan]}))
    for name, text in CSVS.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.slow
@pytest.mark.usefixtures("impatient", "node", "folder")
@pytest.mark.parametrize(("name", "line"), ALL, ids=lambda one: one if isinstance(one, str) else " ".join(one))
def test_an_unknown_name_is_an_error_in_one_sentence(minikafka: Minikafka, name: str, line: list[str]) -> None:
    ran = minikafka(*name.split(), *line, *ENDS.get(name, []), stdin=b"line\n")
    assert (ran.code, ran.out) == (1, ""), ran
    assert ran.err.startswith("Error: "), ran
    assert ran.err.count("\n") == 1, ran
    assert any(one in ran.err for one in ("nothere", "9", "77")), ran
    if "as_json" in {one.name for one in COMMANDS[name].params} and name != "produce" and "--export" not in line:
        again = minikafka(*name.split(), *line, *ENDS.get(name, []), "--json")
        assert (again.code, again.out) == (1, ""), again
        (error,) = json.loads(again.err)["errors"]
        assert f"Error: {error['message']}\n" == ran.err


def test_each_parameter_of_each_command_is_looked_at() -> None:
    for name, command in COMMANDS.items():
        for one in command.params:
            is_flag = isinstance(one, click.Option) and one.is_flag
            looked_at = is_flag or one.name in VALUES or one.name in LINES.get(name, {})
            assert looked_at, f"add lines of `minikafka {name}` in which {one.name} names what is not there"
    assert LINES.keys() <= COMMANDS.keys()
