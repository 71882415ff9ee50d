"""Runs the command line against a node: `minikafka(…)` in this process, `started(…)` in a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clients import Client, Outgoing, connect, eventually
from support.command_line import PATIENT_MS, Minikafka, Ran, Start, exit_code, patient_command, standard_input
from support.node import NodeProcess

from minikafka.cli.main import main
from minikafka.protocol.errors import NetworkError, UnknownTopicOrPartitionError


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """One node for all tests of the command line, without automatic topic creation."""
    with NodeProcess(tmp_path_factory.mktemp("cli") / "data", settings={"auto.create.topics.enable": "false"}) as node:
        yield node


@pytest.fixture
def judge(node: NodeProcess) -> Iterator[Client]:
    """An independent client, to check results with."""
    with connect("confluent-kafka", node.bootstrap) as client:
        yield client


@pytest.fixture
def filled(request: pytest.FixtureRequest, judge: Client, topic: str) -> str:
    """A topic with two partitions, the first with records at the TIMES_MS of the test's module."""
    judge.add_partitions(topic, total=2)
    judge.alter_settings(topic, {"retention.ms": "-1"})  # the records are of 1970
    eventually(lambda: judge.topics()[topic] == 2)
    judge.produce(topic, [Outgoing(b"x", timestamp_ms=one, partition=0) for one in request.module.TIMES_MS])
    return topic


@pytest.fixture
def topic(judge: Client, request: pytest.FixtureRequest) -> str:
    """A topic with one partition, for this test only."""
    name = re.sub(r"[^a-zA-Z0-9]+", "-", f"{request.path.stem}-{request.node.name}")[:200]
    judge.create_topic(name)
    return name


@pytest.fixture
def minikafka(
    node: NodeProcess, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> Minikafka:
    """`minikafka("topics", "list", stdin=b"…")` in this process, with the node's address in the environment."""
    monkeypatch.setenv("MINIKAFKA_BOOTSTRAP_SERVER", node.bootstrap)

    def run(*words: str, stdin: bytes = b"") -> Ran:
        capfdbinary.readouterr()
        with standard_input(tmp_path / "stdin", stdin), pytest.raises(SystemExit) as ended:
            main(list(words))
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Ran(exit_code(ended.value.code), out.decode(errors="replace"), err.decode())

    return run


@pytest.fixture(autouse=True)
def contexts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of contexts: of this test, not of the user who runs it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("MINIKAFKA_CONTEXT", raising=False)
    return tmp_path / "config" / "minikafka" / "contexts.json"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long timeouts, and no word of waits: a busy machine may respond late."""
    monkeypatch.setattr("minikafka.client.connections.waits.PATIENCE_S", PATIENT_MS / 1000)
    monkeypatch.setattr("minikafka.cli.arguments.options.FIND_TOPIC_SILENTLY_MS", PATIENT_MS)
    monkeypatch.setattr("minikafka.cli.arguments.options.FIND_TOPIC_TIMEOUT_MS", PATIENT_MS)
    monkeypatch.setattr("minikafka.cli.arguments.options.CONNECT_TIMEOUT_MS", PATIENT_MS)
    monkeypatch.setattr("minikafka.cli.commands.cluster_view.API_TIMEOUT_MS", PATIENT_MS)
    monkeypatch.setattr("minikafka.cli.commands.top.API_TIMEOUT_MS", PATIENT_MS)
    monkeypatch.setattr("minikafka.cli.commands.brokers.QUORUM_PATIENCE_S", PATIENT_MS / 1000)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of missing topics and brokers: no retries, however late the first response is."""
    monkeypatch.setattr(UnknownTopicOrPartitionError, "retriable", False)
    monkeypatch.setattr(NetworkError, "retriable", False)


@pytest.fixture
def started(node: NodeProcess) -> Iterator[Start]:
    """`started("consume", …)` starts a process with pipes, which is killed at the end of the test."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(*words: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            patient_command(words),
            env={**os.environ, "MINIKAFKA_BOOTSTRAP_SERVER": node.bootstrap},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
