"""The entry point: help, exit codes, errors, and all examples of every `--help`."""

import glob
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from support.clients import Client, Outgoing, eventually
from support.command_line import Minikafka
from support.node import NodeProcess
from support.open_transaction import open_transaction

from minikafka.cli.local_cluster import LocalCluster
from minikafka.cli.main import COMMANDS, cli
from minikafka.cli.reference_page import commands

EXAMPLE = re.compile(r"^ *(?:Example: )?((?:echo \w+ \| )?minikafka .*)$", re.MULTILINE)
TOPIC = re.compile(r"\b(?:flights|weather|greetings)\b(?!\.txt|\.json)")
ALL = dict(commands(cli))
RUN_NODES = ("minikafka server", "minikafka cluster", "minikafka testing")
CONTROL_NODES = ("minikafka cluster status", "minikafka cluster stop", "minikafka cluster restart")
UNTIL_CTRL_C = "--watch"
WITHOUT_END = (*RUN_NODES, "minikafka top --interval")
CHANGE_VOTERS = ("minikafka quorum add-controller", "minikafka quorum remove-controller")
"""They need a quorum whose voters can change."""
NEED_BROKERS = ("minikafka unregister-broker",)
"""They need a broker that has stopped: `docs/operations/nodes.md` runs them."""
NEED_SECURITY = ("minikafka acls", "minikafka users", "minikafka tokens")
"""They need an authorizer, users or a login: `commands/test_secured_cluster.py` runs them."""
EXAMPLES = [(path, line) for path, command in ALL.items() for line in EXAMPLE.findall(command.help or "")]


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_with_an_example(minikafka: Minikafka, path: tuple[str, ...]) -> None:
    ran = minikafka(*path, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert "Example" in ran.out
    examples = [line for owner, line in EXAMPLES if owner == path]
    assert examples, "no example in the help"
    assert all(line in ran.out for line in examples), "click has wrapped an example"


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_says_ranges_in_words_and_cuts_no_line_of_a_list_of_commands(path: tuple[str, ...]) -> None:
    text = ALL[path].get_help(click.Context(ALL[path], info_name="minikafka", terminal_width=80))
    assert not re.search(r"x[<>]=?|None", text)
    assert [line for line in text.partition("\nCommands:\n")[2].splitlines() if line.endswith("...")] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "line",
    [
        line
        for _, line in EXAMPLES
        if not line.startswith((*WITHOUT_END, *CHANGE_VOTERS, *NEED_BROKERS, *NEED_SECURITY))
        and UNTIL_CTRL_C not in line
    ],
)
def test_examples_work(minikafka: Minikafka, node: NodeProcess, judge: Client, topic: str, tmp_path: Path,
                       monkeypatch: pytest.MonkeyPatch, line: str) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flights.txt").write_text("N1\tEWR\nN2\tJFK\n")
    (tmp_path / "flights.json").write_text('{"key": "N1", "value": "EWR"}\n')
    plan = {"partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    before_offsets = {"partitions": [{"topic": topic, "partition": 0, "offset": 3}], "version": 1}
    (tmp_path / "offsets.json").write_text(json.dumps(before_offsets))
    if line.startswith("minikafka storage"):
        prepare_controller(minikafka, tmp_path, formatted=" info " in line)
    assert minikafka("context", "add", "prod", node.bootstrap).code == 0
    before, _, line = line.rpartition(" | ")
    if not line.startswith(("minikafka topics create", "minikafka topics delete")):
        judge.produce(topic, [Outgoing(b"%d" % number, key=b"k") for number in range(1200)])
        if "segment.bytes" in line:
            judge.alter_settings(topic, {"segment.bytes": "1048576"})
    if line.startswith(("minikafka transactions describe", "minikafka transactions abort")):
        open_transaction(node.bootstrap, topic)
        line = line.replace("delays-0", topic).replace("flights:7 --start-offset 4711", "flights:0 --start-offset 1200")
    if line.startswith("minikafka groups"):
        (tmp_path / "offsets.csv").write_text(f"{topic},0,7\n")
        assert minikafka("groups", "reset-offsets", "readers", "--topic", topic, "--to-latest", "--execute").code == 0
        line = line.replace("flights:0,1", "flights:0").removesuffix(" > offsets.csv")
    name = f"{topic}-new" if line.startswith("minikafka topics create") else topic
    line = line.replace("/tmp/kafka", str(node.data_dir))
    line = TOPIC.sub(lambda found: f"{name}-2" if found[0] == "weather" else name, line)
    words = [found for word in shlex.split(line)[1:] for found in glob.glob(word) or [word]]
    ran = minikafka(*words, stdin=before.removeprefix("echo ").encode() + b"\n")
    assert (ran.code, "Error" in ran.err) == (0, False), ran


def prepare_controller(minikafka: Minikafka, folder: Path, *, formatted: bool) -> None:
    """The file of a controller, which does not run, and its directory."""
    config = folder / "server.properties"
    config.write_text(
        "process.roles=controller\ncontroller.listener.names=CONTROLLER\nlisteners=CONTROLLER://127.0.0.1:9093\n"
        f"controller.quorum.bootstrap.servers=127.0.0.1:9093\nlog.dirs={folder}/logs\n"
    )
    if formatted:
        assert minikafka("storage", "format", "-c", str(config), "-t", "5L6g3nShT-eMCtK--X86sw", "-s").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "line", [line for _, line in EXAMPLES if line.startswith(RUN_NODES) and not line.startswith(CONTROL_NODES)]
)
def test_examples_of_servers_work(line: str, tmp_path: Path) -> None:
    if line.startswith("minikafka cluster") and "--port" not in line:
        line += " --port 0"
    line = line.replace("9092", "0").replace("9999", "0").replace("/tmp/kafka", str(tmp_path / "kafka"))
    line = line.replace("server.properties", str(tmp_path / "server.properties"))
    (tmp_path / "server.properties").write_text(f"log.dirs={tmp_path}/logs\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    if "--config" not in line and not line.startswith("minikafka testing"):
        line += f" --data-dir {tmp_path / 'kafka'}"
    words = [sys.executable, "-m", "minikafka.cli.main", *shlex.split(line)[1:]]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=tmp_path) as server:
        assert server.stdout is not None
        try:
            assert server.stdout.readline().startswith(b"ready ")
            server.terminate()
            assert server.wait(90) == 0
        finally:
            server.terminate()  # no node of a cluster may be left running
            server.wait(90)


@pytest.mark.slow
def test_examples_of_running_clusters_work(
    minikafka: Minikafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [line.replace("/tmp/kafka", "minikafka-cluster") for _, line in EXAMPLES if line.startswith(CONTROL_NODES)]
    assert len(lines) >= len(CONTROL_NODES)
    with LocalCluster(tmp_path / "minikafka-cluster", brokers=2):
        for line in sorted(lines, key=lambda line: CONTROL_NODES.index(" ".join(line.split()[:3]))):
            ran = minikafka(*shlex.split(line)[1:])
            assert (ran.code, ran.err) == (0, ""), line


def test_help_imports_no_command() -> None:
    code = (
        "import sys\n"
        "from minikafka.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = ('minikafka.client', 'minikafka.storage', 'minikafka.broker', 'trio', 'anyio', 'numpy', 'rich')\n"
        "sys.exit(','.join(name for name in heavy if name in sys.modules) or None)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert all(name in ran.stdout for name in COMMANDS)


def test_a_server_imports_neither_rich_nor_the_client() -> None:
    unwanted = "'rich' in sys.modules or 'minikafka.client' in sys.modules"
    code = f"import sys, minikafka.cli.commands.server; sys.exit({unwanted})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_unknown_commands_and_options(minikafka: Minikafka) -> None:
    ran = minikafka("topcis", "list")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Error: No such command 'topcis'")
    assert "see `minikafka --help`" in ran.err
    ran = minikafka("topics", "list", "--al")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "(see `minikafka topics list --help`)" in ran.err


def test_no_arguments_show_the_help(minikafka: Minikafka) -> None:
    ran = minikafka()
    assert ran.code == 2
    assert "Commands:" in ran.err


def test_dump_log_of_a_missing_or_unknown_file(minikafka: Minikafka, tmp_path: Path) -> None:
    ran = minikafka("dump-log", str(tmp_path / "none.log"))
    assert (ran.code, "none.log" in ran.err) == (2, True)
    (tmp_path / "what.txt").write_text("x")
    ran = minikafka("dump-log", str(tmp_path / "what.txt"))
    assert (ran.code, "is not a log file" in ran.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["topic", "list"], "Did you mean 'topics'?"),
        (["topcs"], "Did you mean 'topics'?"),
        (["log-dir"], "Did you mean 'log-dirs'?"),
        (["xyzzy"], "No such command 'xyzzy'. (see"),
    ],
)
def test_the_command_that_was_meant_is_named(words: list[str], meant: str, minikafka: Minikafka) -> None:
    ran = minikafka(*words)
    assert (ran.code, ran.out) == (2, "")
    assert meant in ran.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["topics", "create", "mistyped", "--config", "retention.mss=1"], "(did you mean retention.ms?)"),
        (["topics", "create", "mistyped", "--config", "cleanup.polcy=compact"], "(did you mean cleanup.policy?)"),
        (["configs", "alter", "topic", "TOPIC", "--set", "segment.byte=1"], "(did you mean segment.bytes?)"),
        (["configs", "alter", "topic", "TOPIC", "--set", "qqq=1"], "Unknown topic config name: qqq\n"),
        (
            ["configs", "alter", "group", "g", "--set", "consumer.sesion.timeout.ms=1"],
            "(did you mean consumer.session.timeout.ms?)",
        ),
    ],
)
def test_the_setting_that_was_meant_is_named(words: list[str], meant: str, minikafka: Minikafka, topic: str) -> None:
    ran = minikafka(*[topic if one == "TOPIC" else one for one in words])
    assert ran.code == 1
    assert meant in ran.err


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "line",
    [
        "topics describe TYPO",
        "topics delete TYPO",
        "topics alter TYPO --partitions 2",
        "topics alter TYPO --config retention.ms=1",
        "configs describe topic TYPO",
        "configs alter topic TYPO --set retention.ms=1",
        "offsets TYPO",
        "offsets TYPO:0",
        "delete-records TYPO --all",
        "elect-leaders TYPO",
        "producers TYPO",
        "transactions find-hanging TYPO",
        "consume TYPO --exit",
        "produce TYPO",
        "perf produce TYPO --records 1",
        "perf consume TYPO",
        "perf latency TYPO --records 1",
        "groups reset-offsets g --topic TYPO --to-latest",
        "groups reset-offsets g --topic TYPO:0 --to-latest",
    ],
)
def test_the_topic_that_was_meant_is_named(line: str, minikafka: Minikafka, judge: Client) -> None:
    judge.create_topic(name := "flights-" + re.sub(r"\W+", "-", line))
    eventually(lambda: name in judge.topics())
    ran = minikafka(*line.replace("TYPO", name.replace("flights", "flihgts")).split())
    assert ran.code == 1
    assert "does not exist at 127.0.0.1" in ran.err
    assert f"(did you mean '{name}'?)" in ran.err


@pytest.mark.parametrize("command", ["describe", "members", "lag", "delete"])
def test_the_group_that_was_meant_is_named(command: str, minikafka: Minikafka, topic: str) -> None:
    name = f"readers-{command}"
    ran = minikafka("groups", "reset-offsets", name, "--topic", topic, "--to-latest", "--execute")
    assert ran.code == 0
    ran = minikafka("groups", command, name.replace("readers", "raeders"))
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "does not exist at 127.0.0.1" in ran.err
    assert f"(did you mean '{name}'?): `minikafka groups list` lists all groups" in ran.err


def test_a_mistyped_setting_of_a_broker_is_named_though_brokers_keep_it(minikafka: Minikafka) -> None:
    ran = minikafka("configs", "alter", "broker", "1", "--set", "log.retention.mss=1", "--dry-run")
    assert ran.code == 0
    assert "did you mean log.retention.ms?" in ran.err
    assert minikafka("configs", "alter", "broker", "1", "--set", "log.retention.ms=1", "--dry-run").err == ""
