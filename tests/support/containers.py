"""Containers of the image `minikafka`, for tests: the cluster of docker-compose.yml, and what an engine is told.

With docker-compose.secure.yml as well it is a cluster with TLS, SASL and ACLs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from chaos.nemesis import CLOCKS, DISKS, LINKS

from minikafka.broker.settings.properties_file import read_properties
from support.logins import Login

ROOT = Path(__file__).resolve().parents[2]
SET_UP = ROOT / "docker" / "set_up.py"
IMAGE = "minikafka"
START_S = 120
NODES = (1, 2, 3)
FILE, SECURE_FILE = "docker-compose.yml", "docker-compose.secure.yml"
OF_CLIENTS = "/mnt/shared/config/secure"
PAUSE_ATTEMPTS = 10


def why_no_engine() -> str | None:
    """Why tests cannot run containers; None if they can."""
    if subprocess.run([sys.executable, str(SET_UP), "--check"], capture_output=True, check=False).returncode:
        return "no container engine is running: `make docker-test` sets one up"
    return None


def docker(*words: str) -> str:
    """The output of a command. Raises AssertionError with its errors."""
    ran = subprocess.run(["docker", *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"docker {' '.join(words)}: {ran.stderr}{ran.stdout}"
    return ran.stdout.strip()


def logs(container: str) -> str:
    """What a container has written."""
    return subprocess.run(
        ["docker", "logs", container], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True
    ).stdout


def wait_healthy(*containers: str) -> None:
    """Wait until the health checks of containers succeed; fails after two minutes."""
    deadline = time.monotonic() + START_S
    for container in containers:
        while (state := health(container)) != "healthy":
            assert time.monotonic() < deadline, f"{container} is {state}:\n{logs(container)[-2000:]}"
            time.sleep(0.2)


def health(container: str) -> str:
    """The result of the last health check."""
    return docker("inspect", "--format", "{{.State.Health.Status}}", container)


def judges(folder: Path) -> Path:
    """A folder with confluent-kafka for the Python of the image."""
    version = docker(
        "run", "--rm", "--entrypoint", "python3", IMAGE, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"
    )
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
    subprocess.run([*pip, "--python-version", version, "--target", str(folder), "confluent-kafka"], check=True)
    folder.chmod(0o755)
    return folder


class ComposeCluster:
    """The three brokers of docker-compose.yml, under a project name and on ports of its own.

    Nodes are killed, paused and stopped by id, as in `LocalCluster`.

    Args:
        is_secured: Whether the cluster is that of docker-compose.secure.yml.
    """

    def __init__(self, project: str, first_port: int, *, is_secured: bool = False) -> None:
        self.project = project
        self.is_secured = is_secured
        self.ports = {node_id: first_port + node_id - 1 for node_id in NODES}
        self.node_ids = list(NODES)
        no_tool = "not with containers"
        self.cannot = {LINKS: no_tool, DISKS: no_tool, CLOCKS: no_tool}
        self._containers: dict[int, str] = {}

    @property
    def bootstrap(self) -> str:
        """The addresses on this machine."""
        return ",".join(f"localhost:{port}" for port in self.ports.values())

    def address(self, node_id: int) -> str:
        """The address of one broker on this machine."""
        return f"localhost:{self.ports[node_id]}"

    def login(self, user: str = "client") -> Login:
        """How a user gets in from this machine: that of `client.properties`, or of `admin.properties`."""
        given = docker("exec", self.container(1), "cat", f"{OF_CLIENTS}/{user}.properties") if self.is_secured else ""
        return Login.of(self.bootstrap, read_properties(given.encode()))

    def network(self, name: str) -> str:
        """The engine's name of a network of the file."""
        return f"{self.project}_{name}"

    def compose(self, *words: str) -> None:
        """Call docker-compose, or Compose v2. Raises AssertionError with its errors."""
        command = ["docker-compose"] if shutil.which("docker-compose") else ["docker", "compose"]
        ports = {f"PORT_{node_id}": str(port) for node_id, port in self.ports.items()}
        environment: Mapping[str, str] = {**os.environ, **ports, "MINIKAFKA_IMAGE": IMAGE}
        files = [word for name in (FILE, SECURE_FILE)[: 1 + self.is_secured] for word in ("--file", str(ROOT / name))]
        full = [*command, "--project-name", self.project, *files, *words]
        ran = subprocess.run(full, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr

    def up(self) -> None:
        """Create and start all containers, and wait until they are healthy, and until clients can log in."""
        self.compose("up", "--detach", "--no-build")
        self._containers = {node_id: self._of_service(f"broker-{node_id}") for node_id in NODES}
        wait_healthy(*self._containers.values())
        if self.is_secured:
            maker = self._of_service("users")
            assert docker("wait", maker) == "0", logs(maker)

    def _of_service(self, name: str) -> str:
        """The container of a service of the files."""
        labels = (f"project={self.project}", f"service={name}")
        filters = [word for label in labels for word in ("--filter", f"label=com.docker.compose.{label}")]
        return docker("ps", "--all", "--quiet", *filters)

    def down(self, *, volumes: bool) -> None:
        """Remove containers and networks, and the volumes if wanted."""
        self.compose("down", *(["--volumes"] if volumes else []))

    def container(self, node_id: int) -> str:
        """The container of a broker."""
        return self._containers[node_id]

    def kill(self, *node_ids: int) -> None:
        """SIGKILL."""
        docker("kill", *map(self.container, node_ids))

    def stop(self, *node_ids: int) -> None:
        """SIGTERM: a controlled shutdown."""
        docker("stop", "--time", "30", *map(self.container, node_ids))

    def start(self, *node_ids: int) -> None:
        """Start containers that were killed or stopped."""
        docker("start", *map(self.container, node_ids))

    def pause(self, *node_ids: int) -> None:
        """Freeze all processes of containers. On a busy machine runc may fail to freeze them at first."""
        for node_id in node_ids:
            for attempt in range(PAUSE_ATTEMPTS):
                try:
                    docker("pause", self.container(node_id))
                    break
                except AssertionError:
                    if attempt == PAUSE_ATTEMPTS - 1:
                        raise

    def resume(self, *node_ids: int) -> None:
        """Continue paused containers."""
        docker("unpause", *map(self.container, node_ids))

    def isolate(self, *node_ids: int) -> None:
        """Disconnect brokers from the other brokers and controllers; clients still reach them."""
        for node_id in node_ids:
            docker("network", "disconnect", self.network("cluster"), self.container(node_id))

    def rejoin(self, *node_ids: int) -> None:
        """Connect brokers to the others again, under the same name."""
        for node_id in node_ids:
            alias = ["--alias", f"broker-{node_id}.cluster"]
            docker("network", "connect", *alias, self.network("cluster"), self.container(node_id))

    def heal(self) -> None:
        """Wait until all brokers are healthy; each fault of the nemesis has ended by itself."""
        wait_healthy(*map(self.container, self.node_ids))

    def check_running(self) -> None:
        """Check that no broker has ended, nor was restarted by the engine: it has crashed then."""
        for node_id, container in self._containers.items():
            state = docker("inspect", "--format", "{{.State.Status}} {{.RestartCount}}", container)
            assert state == "running 0", f"broker-{node_id} is {state}:\n{logs(container)[-3000:]}"
