"""Apache Kafka nodes and tools for tests marked `oracle`, if Kafka is beside the checkout and Java is installed.

    @needs_oracle
    def test_it(tmp_path):
        with Oracle(tmp_path / "kafka") as kafka:
            tool("topics", "--bootstrap-server", kafka.bootstrap, "--list")

`Oracle` has the interface of `NodeProcess`, so that a test can use either.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.node import ServerProcess
from support.quick_java import with_classes

CHECKOUT = Path(__file__).resolve().parents[2]
SHARED = CHECKOUT.parent / "shared"
KAFKA = SHARED / "apache-kafka" / "kafka.py"
PATIENCE_S = 100
PORTS = (15_000, 32_000)
"""Below the ephemeral ports, since a JVM takes seconds to bind its port."""


def java() -> str | None:
    """The Java that kafka.py would use, or None."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(os.path.join(home, "bin", "java") if home else "java")


def why_absent() -> str | None:
    """Why Apache Kafka cannot be run; None if it can."""
    if not KAFKA.exists():
        return "no Apache Kafka beside the checkout"
    return None if java() else "no Java"


def shared(*parts: str) -> Path:
    """A path beside the checkout; skips the calling test if it does not exist."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no {'/'.join(parts)} beside the checkout")
    return path


KAFKA_ITSELF = [pytest.mark.oracle, pytest.mark.reference]
"""Marks a test that runs against Apache Kafka only, to check that the expectations hold for it."""
needs_oracle = pytest.mark.skipif(why_absent() is not None, reason=why_absent() or "")
"""Skips a test if Apache Kafka cannot be run; used together with `@pytest.mark.oracle`."""


def kafka(*words: object) -> list[str]:
    """A command of kafka.py, with the options that start it fastest."""
    return [*with_classes(_run_once), sys.executable, str(KAFKA), *map(str, words)]


def _run_once(folder: Path, before: tuple[str, ...]) -> None:
    with Oracle(folder, before=before) as node:
        node.terminate(PATIENCE_S)


def tool(name: str, *arguments: object, stdin: str | None = None, timeout_s: float = PATIENCE_S) -> str:
    """Runs one of Kafka's command line tools and returns its stdout; fails the test if the tool fails.

    Args:
        name: as in kafka.py: `topics`, `console-consumer`, `dump-log`, … (`kafka.py tool --list`).
    """
    done = run_tool(name, *arguments, stdin=stdin, timeout_s=timeout_s)
    said = f"{done.stdout}{done.stderr}"
    assert done.returncode == 0, f"tool {name} {arguments} ended with {done.returncode}\n{said}"
    return done.stdout


def run_tool(
    name: str, *arguments: object, stdin: str | None = None, timeout_s: float = PATIENCE_S
) -> subprocess.CompletedProcess[str]:
    """As `tool`, but returns the result whether or not the tool fails."""
    command = kafka("tool", name, *arguments)
    return subprocess.run(
        command, input=stdin or "", capture_output=True, text=True, timeout=timeout_s, check=False
    )


class Oracle(ServerProcess):
    """One Apache Kafka node; `pause`, `kill` and the rest act on its JVM.

    Args:
        data_dir: contains `node-1/server.properties`, `node-1/data`, …; kept between starts.
        settings: node settings by Kafka's names; used at the first start of a directory.
        port: the client port; the controller listens 100 above. 0: the port of an existing directory, or a free pair.
        before: words that precede the command, instead of those of `quick_java`.
        options: further options of the JVM.
    """

    _last_signal = signal.SIGTERM  # kafka.py then stops its node; after SIGKILL the JVM would keep running

    def __init__(
        self,
        data_dir: Path,
        *,
        settings: Mapping[str, object] | None = None,
        port: int = 0,
        start_timeout_s: float = 110,
        before: tuple[str, ...] = (),
        options: tuple[str, ...] = (),
    ) -> None:
        port = port or _port_of(data_dir) or free_ports()
        super().__init__(data_dir, port=port, start_timeout_s=start_timeout_s)
        self.settings = dict(settings or {})
        self._before = before
        self._options = ("env", f"JAVA_TOOL_OPTIONS={' '.join(options)}") if options else ()

    def command(self) -> list[str]:
        settings = [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]
        words = ["cluster", "--port", str(self.port), "--data-dir", str(self.data_dir), *settings]
        quick = [*self._before, sys.executable, str(KAFKA), *words] if self._before else kafka(*words)
        return [*self._options, *quick]

    @property
    def logs(self) -> Path:
        """The directory of the partitions."""
        return self.data_dir / "node-1" / "data"

    @property
    def pid(self) -> int:
        """The process id of the JVM. Raises ProcessLookupError if it does not run."""
        with contextlib.suppress(OSError, ValueError):
            pid = int((self.data_dir / "node-1" / "pid").read_text())
            if str(self.data_dir.resolve()).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        raise ProcessLookupError(f"no Kafka runs in {self.data_dir}")

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        self._end_wrapper()

    def terminate(self, timeout_s: float = PATIENCE_S) -> int:
        with contextlib.suppress(ProcessLookupError):
            self.resume()
        return self._end_wrapper(timeout_s)

    def log_tail(self, lines: int = 40) -> str:
        path = self.data_dir / "node-1" / "server.log"
        server = path.read_text(errors="replace").splitlines()[-lines:] if path.exists() else []
        return "\n".join([super().log_tail(lines), *server])

    def _end_wrapper(self, timeout_s: float = PATIENCE_S) -> int:
        if self._process is None:
            return 0
        self._process.terminate()
        return self._process.wait(timeout_s)


def _port_of(data_dir: Path) -> int:
    """The port in the settings of an existing directory; 0 for a new one."""
    path = data_dir / "node-1" / "server.properties"
    found = re.search(r"^listeners=.*?:(\d+)", path.read_text(), re.MULTILINE) if path.exists() else None
    return int(found[1]) if found else 0


def free_ports(count: int = 1) -> int:
    """The first of free ports in a row; the controller port, 100 above it, is free as well."""
    for _ in range(100):
        with contextlib.suppress(OSError), contextlib.ExitStack() as sockets:
            port = random.randrange(*PORTS)
            for number in (*range(port, port + count), port + 100):
                sockets.enter_context(socket.socket()).bind(("127.0.0.1", number))
            return port

    raise OSError("no free ports")
