"""Server processes for tests: `minikafka server` as a user starts it.

    with NodeProcess(tmp_path / "data", settings={"num.partitions": 3}) as node:
        connect(node.bootstrap)
        node.kill()
        node.restart()              # same port, same data

The process is killed when the `with` block ends, the last reference is dropped or the interpreter exits. The standard
error of the server is appended to `<data_dir>.log`; the error of a failed start contains its tail.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self


class StartError(Exception):
    """The server exited or did not print `ready` before the timeout."""


class ServerProcess:
    """A server that prints `ready HOST:PORT` on stdout and exits on SIGTERM."""

    _last_signal = signal.SIGKILL  # kills it with all processes that it started

    def __init__(self, data_dir: Path, *, port: int, start_timeout_s: float) -> None:
        self.data_dir = data_dir
        self.log_path = data_dir.with_name(data_dir.name + ".log")
        self.port = port
        self.address: tuple[str, int] = ("127.0.0.1", port)
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._held: socket.socket | None = None

    def command(self) -> list[str]:
        """The command line of a server that listens on `self.port`."""
        raise NotImplementedError

    @property
    def bootstrap(self) -> str:
        """`host:port` for the clients."""
        host, port = self.address
        return f"{host}:{port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The server process, which receives the signals."""
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> Self:
        """Starts the server and waits until it is ready. Raises StartError."""
        assert not self.running, "already started"
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        weakref.finalize(self, _reap, self._process, self._last_signal)
        try:
            self.address = self._wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise
        self.port = self.address[1]
        self._release_port()
        return self

    def kill(self) -> None:
        """SIGKILL, as after a crash of the process."""
        self._end(signal.SIGKILL, timeout_s=60)

    def terminate(self, timeout_s: float = 60) -> int:
        """SIGTERM; returns the exit code. Kills the process and fails after the timeout."""
        return self._end(signal.SIGTERM, timeout_s=timeout_s)

    def restart(self) -> Self:
        """Starts again on the same port with the same data; a running server is stopped first."""
        if self.running:
            self.terminate()
        return self.start()

    def pause(self) -> None:
        """SIGSTOP: the process keeps its connections but does not run."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the server's standard error."""
        if not self.log_path.exists():
            return ""
        return "\n".join(self.log_path.read_text(errors="replace").splitlines()[-lines:])

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.kill()
        self._release_port()

    def _end(self, number: signal.Signals, *, timeout_s: float) -> int:
        if self._process is None:
            return 0
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                self.resume()
                os.kill(self.pid, number)
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            why = f"still running {timeout_s} s after {number.name}; its log ends:\n{self.log_tail()}"
            raise AssertionError(why) from None
        finally:
            _reap(self._process, self._last_signal)
            self._hold_port()

    def _hold_port(self) -> None:
        """Binds the port while the server is down, so that it is not assigned to another process; connections fail."""
        self._release_port()
        with contextlib.suppress(OSError):  # without the reservation the port may be taken
            self._held = socket.socket()
            self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._held.bind(self.address)

    def _release_port(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> tuple[str, int]:
        assert process.stdout is not None
        deadline, said = time.monotonic() + self._start_timeout_s, b""
        output = select.poll()  # unlike `select`, it supports descriptors above 1,023
        output.register(process.stdout, select.POLLIN)
        while not said.endswith(b"\n"):
            left = deadline - time.monotonic()
            readable = left > 0 and output.poll(left * 1000)
            chunk = os.read(process.stdout.fileno(), 4096) if readable else b""
            if not chunk:
                why = "said nothing in time" if left <= 0 or not readable else "ended"
                raise StartError(f"{' '.join(self.command())}\n{why}; its log ends:\n{self.log_tail()}")
            said += chunk
        return _address_said(said.decode())


class NodeProcess(ServerProcess):
    """One minikafka node.

    Args:
        data_dir: the node's directory, kept between starts; created if it is missing.
        settings: settings for `--set name=value`, by Kafka's names.
        config: a server.properties.
        port: 0 selects a free port, which later starts keep.
        arguments: further arguments of the command line, such as `("--node-id", "2")`.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        settings: Mapping[str, object] | None = None,
        config: Path | None = None,
        port: int = 0,
        arguments: Sequence[str] = (),
        start_timeout_s: float = 60,
    ) -> None:
        super().__init__(data_dir, port=port, start_timeout_s=start_timeout_s)
        self.settings = dict(settings or {})
        self._config = config
        self._arguments = list(arguments)

    def command(self) -> list[str]:
        config = ["--config", str(self._config)] if self._config else []
        settings = [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]
        place = ["--port", str(self.port), "--data-dir", str(self.data_dir)]
        server = [sys.executable, "-m", "minikafka.cli.main", "server"]
        return [*server, *place, *config, *settings, *self._arguments]


@contextlib.contextmanager
def started_together(nodes: Collection[NodeProcess]) -> Iterator[None]:
    """Starts nodes at the same time, since those of a quorum wait for each other; kills them at the end."""
    try:
        with ThreadPoolExecutor() as threads:
            list(threads.map(NodeProcess.start, nodes))
        yield
    finally:
        for node in nodes:
            node.kill()


def _address_said(line: str) -> tuple[str, int]:
    word, _, rest = line.strip().partition(" ")
    host, _, port = rest.split(",")[0].rpartition(":")
    if word != "ready" or not port.isdigit():
        raise StartError(f"expected `ready HOST:PORT`, got {line!r}")
    return host, int(port)


def _reap(process: subprocess.Popen[bytes], last_signal: signal.Signals) -> None:
    if process.poll() is None:
        process.send_signal(last_signal)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
