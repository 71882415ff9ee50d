"""What docs/docker.md says, without an engine: the health check as a process, and a node that waits for its address."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.command_line import command
from support.containers import ROOT
from support.controller_process import free_port

PROGRAM = ROOT / "docker" / "health.py"
CONTROLLER_NAMES = {"KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER"}
PROTOCOLS = {"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"}


@pytest.fixture(scope="module")
def health() -> ModuleType:
    spec = importlib.util.spec_from_file_location("health", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({}, "localhost:9092"),
        ({"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://kafka.example:9192"}, "localhost:9192"),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:1", "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://x:2"}, "localhost:1"),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:1", "MINIKAFKA_LISTENERS": "PLAINTEXT://[::]:2"}, "localhost:2"),
        ({"KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:1"}, "localhost:1"),
        ({"KAFKA_LISTENERS": "PLAINTEXT://broker-1:1"}, "broker-1:1"),
        ({"KAFKA_LISTENERS": "PLAINTEXT://10.1.2.3:1"}, "10.1.2.3:1"),
        ({"KAFKA_LISTENERS": "PLAINTEXT://[fd00::2]:1"}, "fd00::2:1"),
        ({"KAFKA_CFG_LISTENERS": "PLAINTEXT://10.1.2.3:1"}, "10.1.2.3:1"),
        ({"KAFKA_CFG_LISTENERS": "PLAINTEXT://:1", "KAFKA_LISTENERS": "PLAINTEXT://:2"}, "localhost:2"),
        ({"KAFKA_LISTENERS": "controller://:1, CLIENTS://0.0.0.0:2,OTHERS://:3", **CONTROLLER_NAMES}, "localhost:2"),
        ({"KAFKA_LISTENERS": "controller://10.0.0.1:1,A://10.0.0.2:2", **CONTROLLER_NAMES}, "10.0.0.2:2"),
        (
            {"KAFKA_LISTENERS": "controller://10.0.0.1:1", "KAFKA_PROCESS_ROLES": "controller", **CONTROLLER_NAMES},
            "10.0.0.1:1",
        ),
        (
            {
                "KAFKA_LISTENERS": "FIRST://:1,SECOND://:2",
                "KAFKA_PROCESS_ROLES": " controller ",
                "KAFKA_CONTROLLER_LISTENER_NAMES": "FIRST, SECOND",
            },
            "localhost:1",
        ),
    ],
)
def test_the_address_is_that_of_the_first_listener(
    environment: dict[str, str], address: str, health: ModuleType
) -> None:
    host, port = health.address_of(environment, {})
    assert f"{host}:{port}" == address


def test_a_mounted_file_counts_less_than_the_environment(tmp_path: Path, health: ModuleType) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "# listeners=A://10.0.0.9:9\n listeners = CONTROLLER://10.0.0.1:1,\\\n  A://10.0.0.2:2\n"
        "controller.listener.names=CONTROLLER\n"
    )
    mounted = health.properties(str(file))
    assert health.address_of({}, mounted) == ("10.0.0.2", 2)
    assert health.address_of({"KAFKA_PROCESS_ROLES": "controller"}, mounted) == ("10.0.0.1", 1)
    assert health.address_of({"KAFKA_LISTENERS": "A://10.0.0.3:3"}, mounted) == ("10.0.0.3", 3)
    assert health.address_of({}, health.properties(str(tmp_path / "missing"))) == ("localhost", 9092)


@pytest.mark.parametrize(
    ("argument", "address"), [("9093", ("localhost", 9093)), ("a:1", ("a", 1)), ("[::1]:2", ("::1", 2))]
)
def test_an_address_as_argument(argument: str, address: tuple[str, int], health: ModuleType) -> None:
    assert health.parsed(argument) == address


def layouts(controller: int, inside: int, outside: int) -> dict[str, dict[str, str]]:
    """Environments of nodes that listen at these ports."""
    voter = {"KAFKA_NODE_ID": "1", **CONTROLLER_NAMES, **PROTOCOLS}
    voters = "KAFKA_CONTROLLER_QUORUM_VOTERS"
    return {
        "a controller": {
            **voter,
            "KAFKA_PROCESS_ROLES": "controller",
            "KAFKA_LISTENERS": f"CONTROLLER://:{controller}",
            voters: f"1@127.0.0.1:{controller}",
        },
        "a controller at one address": {
            **voter,
            "KAFKA_PROCESS_ROLES": "controller",
            "KAFKA_LISTENERS": f"CONTROLLER://127.0.0.2:{controller}",
            voters: f"1@127.0.0.2:{controller}",
        },
        "listeners at other addresses": {
            **voter,
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_LISTENERS": f"CONTROLLER://127.0.0.2:{controller},INSIDE://127.0.0.2:{inside},"
            f"OUTSIDE://127.0.0.3:{outside}",
            "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
            voters: f"1@127.0.0.2:{controller}",
        },
        "the names of Bitnami": {
            "KAFKA_CFG_NODE_ID": "1",
            "KAFKA_CFG_PROCESS_ROLES": "broker,controller",
            "KAFKA_CFG_LISTENERS": f"CONTROLLER://127.0.0.1:{controller},INSIDE://127.0.0.2:{inside}",
            "KAFKA_CFG_ADVERTISED_LISTENERS": f"INSIDE://127.0.0.2:{inside}",
            "KAFKA_CFG_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_CFG_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT",
            "KAFKA_CFG_INTER_BROKER_LISTENER_NAME": "INSIDE",
            "KAFKA_CFG_CONTROLLER_QUORUM_VOTERS": f"1@127.0.0.1:{controller}",
            "KAFKA_KRAFT_CLUSTER_ID": "5L6g3nShT-eMCtK--X86sw",
            "KAFKA_ENABLE_KRAFT": "yes",
        },
        "one advertised listener": {"KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://localhost:{inside}"},
    }


@pytest.mark.slow
@pytest.mark.parametrize("layout", layouts(1, 2, 3))
def test_a_ready_node_is_healthy_and_one_that_has_ended_is_not(layout: str, tmp_path: Path) -> None:
    chosen = layouts(free_port(), free_port(), free_port())[layout]
    environment = {**os.environ, "KAFKA_LOG_DIRS": str(tmp_path / "data"), **chosen}
    check = [sys.executable, "-I", "-S", str(PROGRAM)]
    with (
        (tmp_path / "log").open("wb") as log,
        subprocess.Popen(
            command(["server", "--container"]), env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        ) as node,
    ):
        try:
            assert node.stdout is not None
            assert node.stdout.readline().startswith("ready "), (tmp_path / "log").read_text()
            well = subprocess.run(check, env=environment, capture_output=True, text=True, timeout=60, check=False)
        finally:
            node.terminate()
    assert (well.returncode, well.stderr) == (0, "")
    assert b"unknown setting" not in (tmp_path / "log").read_bytes()
    ended = subprocess.run(check, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "Connection refused" in ended.stderr


@pytest.mark.slow
def test_a_node_waits_for_the_port_that_an_engine_chooses(tmp_path: Path) -> None:
    shown = re.search(r"-c \\\n  '([^']*)'", (ROOT / "docs" / "docker.md").read_text())
    assert shown is not None
    told, port = tmp_path / "advertised", free_port()
    variables = {"KAFKA_LISTENERS": f"PLAINTEXT://:{port}", "KAFKA_LOG_DIRS": str(tmp_path / "data")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shell = ["sh", "-c", shown[1].replace("/tmp/advertised", str(told))]
    with subprocess.Popen(
        shell,
        env={**os.environ, **variables, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as node:
        try:
            told.write_text("PLAINTEXT://localhost:32768\n")
            assert node.stdout is not None
            assert node.stdout.readline() == f"ready 0.0.0.0:{port}\n"
            brokers = subprocess.run(
                command(["brokers", "--bootstrap-server", f"localhost:{port}"]),
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            node.terminate()
    assert "localhost:32768" in brokers.stdout + brokers.stderr
