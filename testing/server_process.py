"""`ServerProcess`: the process of a cluster for tests, `minikafka testing serve`. It ends with its parent."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from typing import IO

from minikafka.testing.control.http_client import TestingError

__all__ = ["ServerProcess"]

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
LOG_TAIL_BYTES = 8 << 10


class ServerProcess:
    """Starts the process, and waits until the cluster serves clients.

    Raises:
        TestingError: The cluster has not started; the text has the end of its log.

    Attributes:
        control_address: `HOST:PORT` of its control server.
        bootstrap_servers: The addresses of its brokers at the start.
    """

    def __init__(self, brokers: int, settings: Mapping[str, str], log_level: str) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        named = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "minikafka.cli.main", "testing", "serve", "--until-eof"]
        self._process = subprocess.Popen(
            [*command, "--brokers", str(brokers), "--log-level", log_level, *named],
            stdin=subprocess.PIPE,  # its end is that of this process, however it comes
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C on the terminal is for the tests, which end the cluster
        )
        self._end = weakref.finalize(self, _end, self._process, os.getpid(), self._log)
        self.bootstrap_servers, self.control_address = self._ready()

    def _ready(self) -> tuple[str, str]:
        """The addresses in the line `ready ADDRESSES control ADDRESS`."""
        output = self._process.stdout
        assert output is not None
        said, deadline = b"", time.monotonic() + START_TIMEOUT_S
        while not said.endswith(b"\n"):
            left_s = deadline - time.monotonic()
            readable, _, _ = select.select([output], [], [], max(left_s, 0))
            part = os.read(output.fileno(), 4096) if readable else b""
            if not part:
                tail = self.log_tail()
                self.stop()
                raise TestingError(f"the cluster has not started:\n{tail}")
            said += part
        _, addresses, _, control = said.decode().split()
        return addresses, control

    def log_tail(self) -> str:
        """The end of the log of the nodes."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - LOG_TAIL_BYTES))
        return self._log.read().decode(errors="replace")

    def stop(self) -> None:
        """End the process; in a forked process nothing happens."""
        self._end()


def _end(process: subprocess.Popen[bytes], started_by: int, log: IO[bytes]) -> None:
    if os.getpid() != started_by:
        return
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
    log.close()
