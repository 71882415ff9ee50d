"""docker-compose.secure.yml without an engine: its nodes as processes with the same environment, files and users."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from support.command_line import command
from support.containers import NODES, ROOT
from support.controller_process import free_port
from support.logins import Login

from containers.client import RECORDS, read, write
from minikafka.broker.settings.environment import from_environment
from minikafka.client import NewTopic
from minikafka.client.blocking import Admin
from minikafka.protocol.errors import SaslAuthenticationFailedError

pytestmark = pytest.mark.timeout(300)
PORTS = (9090, 9091, 9092, 19092)


def program(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docker" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def services(name: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((ROOT / name).read_text())["services"]
    return read


@dataclass(frozen=True)
class Composed:
    """The running nodes of both files; the ports of a container are those of `ports` here."""

    config: Path
    ports: dict[int, dict[int, int]]

    def environment(self, node_id: int) -> dict[str, str]:
        """The environment of a node in both files, with addresses of this machine."""
        merged = {}
        for file in ("docker-compose.yml", "docker-compose.secure.yml"):
            merged |= services(file)[f"broker-{node_id}"]["environment"]
        return {name: self._here(str(text), node_id) for name, text in merged.items()}

    def _here(self, text: str, node_id: int) -> str:
        text = re.sub(r"localhost:\$\{PORT_\d:-\d+\}", f"localhost:{self.ports[node_id][19092]}", text)
        text = re.sub(
            r"broker-(\d)(?:\.cluster)?:(\d+)", lambda at: f"localhost:{self.ports[int(at[1])][int(at[2])]}", text
        )
        return re.sub(r"://:(\d+)", lambda at: f"://127.0.0.1:{self.ports[node_id][int(at[1])]}", text)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"localhost:{self.ports[node_id][19092]}" for node_id in NODES)

    def client(self) -> Login:
        return Login.read(self.config.parent / "secure" / "client.properties").at(self.bootstrap)


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    folder = tmp_path_factory.mktemp("composed")
    made = Composed(
        folder / "shared" / "server.properties",
        {node_id: {port: free_port() for port in PORTS} for node_id in NODES},
    )
    made.config.parent.mkdir()
    secure, words = program("secure"), services("docker-compose.secure.yml")["secure"]["command"]
    secure.make(made.config, words[1:])
    with ExitStack() as running:
        nodes = []
        for node_id in NODES:
            environment = {**os.environ, **made.environment(node_id), "MINIKAFKA_LOG_DIRS": str(folder / str(node_id))}
            log = running.enter_context((folder / f"{node_id}.log").open("wb"))
            start = command(["server", "--container", "--config", str(made.config)])
            nodes.append(subprocess.Popen(start, env=environment, stdout=subprocess.PIPE, stderr=log, text=True))
            running.enter_context(nodes[-1])
            running.callback(nodes[-1].kill)
        for node_id, node in zip(NODES, nodes, strict=True):
            assert node.stdout is not None
            assert node.stdout.readline().startswith("ready "), (folder / f"{node_id}.log").read_text()[-2000:]
        secure.add_user(made.config, f"localhost:{made.ports[1][9092]}")
        yield made


@pytest.mark.slow
def test_the_user_of_the_file_writes_and_reads_and_others_do_not_get_in(composed: Composed) -> None:
    login = composed.client()
    with Admin(**login.minikafka) as admin:
        admin.create_topics([NewTopic("flights", partitions=1, replication_factor=3)])
    written = write(login.confluent, "flights")
    assert len(written) == RECORDS
    assert read(login.confluent, "flights") == written
    wrong = login.java["sasl.jaas.config"].replace('password="', 'password="not-')
    with pytest.raises(SaslAuthenticationFailedError), Admin(**{**login.minikafka, "sasl_jaas_config": wrong}):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("port", PORTS)
def test_the_health_check_asks_over_tls(composed: Composed, port: int) -> None:
    """Also a listener that asks for certificates. The log of the node has no failed handshake by it."""
    health = program("health")
    here, environment = composed.ports[1][port], composed.environment(1)
    mounted = health.properties(str(composed.config))
    assert health.has_tls(here, environment, mounted)
    check = [sys.executable, "-I", "-S", str(ROOT / "docker" / "health.py"), str(here)]
    checked = subprocess.run(check, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    log = (composed.config.parents[1] / "1.log").read_text()
    assert "speaks no TLS" not in log


def test_the_image_is_built_from_files_that_its_context_has() -> None:
    copied = re.findall(r"/source/(docker/\w+\.py)", (ROOT / "Dockerfile").read_text())
    context = (ROOT / ".dockerignore").read_text().split()
    assert [name for name in copied if f"!{name}" not in context] == []
    assert "docker/secure.py" in copied


def test_files_that_exist_are_kept_and_a_cut_off_attempt_is_begun_again(tmp_path: Path) -> None:
    secure, config = program("secure"), tmp_path / "server.properties"
    secure.make(config, ["broker-1"])
    before = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o027] == []
    secure.make(config, ["broker-1"])
    assert {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    config.unlink()
    secure.make(config, ["broker-1"])
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == set(before)


def test_variables_of_kafkas_image_and_bitnamis_name_settings_of_listeners() -> None:
    names = {
        "KAFKA_LISTENER_NAME_CLIENT_SCRAM___SHA___512_SASL_JAAS_CONFIG": "a",
        "KAFKA_CFG_LISTENER_NAME_INTERNAL_SSL_KEYSTORE_LOCATION": "b",
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
    }
    assert from_environment(names) == {
        "listener.name.client.scram-sha-512.sasl.jaas.config": "a",
        "listener.name.internal.ssl.keystore.location": "b",
        "sasl.enabled.mechanisms": "PLAIN",
    }
