"""The measured nodes: minikafka, and Apache Kafka if it is beside the checkout and Java is installed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

CHECKOUT = Path(__file__).resolve().parents[1]
KAFKA = CHECKOUT.parent / "shared" / "apache-kafka" / "kafka.py"
START_TIMEOUT_S = 120


class Node:
    """A server process with its own folder; `settings` have Kafka's names."""

    name = "minikafka"

    def __init__(self, folder: Path, settings: dict[str, object] | None = None) -> None:
        self.folder = folder
        self.settings = settings or {}
        self.port = free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def command(self) -> list[str]:
        server = [sys.executable, "-m", "minikafka.cli.main", "server", "--log-level", "warn"]
        return [*server, "--port", str(self.port), "--data-dir", str(self.folder / "data")]

    def start(self) -> float:
        """Start the process. Returns the seconds until its line `ready`."""
        began = time.perf_counter()
        self.folder.mkdir(parents=True, exist_ok=True)
        overrides = [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command(), *overrides], stdout=subprocess.PIPE, stderr=log, text=True, env=environment()
            )
        assert self._process.stdout is not None
        if not self._process.stdout.readline().startswith("ready"):
            raise SystemExit(f"{self.name} did not start: see {self.folder / 'server.log'}")
        return time.perf_counter() - began

    def stop(self) -> None:
        """Send SIGTERM and wait."""
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(START_TIMEOUT_S)

    def kill(self) -> None:
        """Send SIGKILL, if the process runs."""
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                os.kill(self.pid, signal.SIGKILL)
            self.stop()

    def resident_bytes(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class KafkaNode(Node):
    """Apache Kafka; its first start formats the folder."""

    name = "Apache Kafka"

    @property
    def pid(self) -> int:
        return int((self.folder / "kafka" / "node-1" / "pid").read_text())

    def command(self) -> list[str]:
        options = ["--port", str(self.port), "--data-dir", str(self.folder / "kafka"), "--heap", "1g"]
        return [sys.executable, str(KAFKA), "cluster", *options]


def environment() -> dict[str, str]:
    """The environment of this process, with bytecode files enabled: otherwise each start compiles all sources."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def kinds() -> list[type[Node]]:
    """The kinds of nodes available on this machine."""
    java = shutil.which(str(Path(os.environ["JAVA_HOME"], "bin", "java")) if "JAVA_HOME" in os.environ else "java")
    return [Node, KafkaNode] if KAFKA.exists() and java else [Node]


def free_port() -> int:
    """A free port P such that P + 100, the port of Kafka's controller, is free as well."""
    for _ in range(100):
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            other.bind(("127.0.0.1", port + 100))
            return port
    raise OSError("no free pair of ports")
