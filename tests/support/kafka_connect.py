"""Kafka Connect: a worker as a process, and the REST interface of one of distributed mode.

Connect keeps its connectors, offsets and states in compacted topics, and its workers are a consumer group with a
protocol of their own. With `exactly.once.source.support` (KIP-618) the leader of the workers and each source task write
in transactions, and a new one fences the old.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minikafka.cli.local_cluster import free_port
from support.java_programs import JARS, JVM
from support.oracle import KAFKA, java

START_S = 120.0
REQUEST_S = 100.0
LOG_CHARACTERS = 3_000
CONVERTER = "org.apache.kafka.connect.storage.StringConverter"


class Worker:
    """The processes of one worker, one after the other.

    Args:
        folder: For its configuration and its output.
        settings: Those of the worker: `distributed`, or its own for one of standalone mode.
        connectors: The settings of the connectors of a worker of standalone mode; none: of distributed mode.
        options: Further options of the JVM.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, object],
        connectors: Sequence[Mapping[str, object]] = (),
        options: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._options = options
        self._port = free_port(lambda base: [base])
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        files = [folder / "worker.properties", *(folder / f"connector-{i}.properties" for i in range(len(connectors)))]
        for file, given in zip(files, [self._with_place(settings), *connectors], strict=True):
            file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        self._words = [f"org.apache.kafka.connect.cli.Connect{'Standalone' if connectors else 'Distributed'}"]
        self._words += map(str, files)

    def _with_place(self, settings: Mapping[str, object]) -> dict[str, object]:
        return {"key.converter": CONVERTER, "value.converter": CONVERTER, "offset.flush.interval.ms": 500,
                "listeners": f"http://127.0.0.1:{self._port}", **settings}  # fmt: skip

    def start(self) -> None:
        """Start a process; it serves requests some seconds later."""
        self.starts += 1
        quiet = f"-Dlog4j2.configurationFile={KAFKA.parent / 'log4j2-quiet.properties'}"
        command = [str(java()), *JVM, "-Xmx256m", quiet, *self._options, "-cp", f"{JARS}/*"]
        command += self._words
        with (self._folder / f"worker-{self.starts}.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def put(self, connector: str, **config: str) -> None:
        """Create or change a connector, as soon as the worker accepts it."""
        config = {key.replace("_", "."): value for key, value in config.items()}
        deadline = time.monotonic() + START_S
        while not self._accepts(connector, config):
            assert self._process is not None
            assert self._process.poll() is None, self.log_tail()
            assert time.monotonic() < deadline, self.log_tail()
            time.sleep(0.2)

    def _accepts(self, connector: str, config: dict[str, str]) -> bool:
        try:
            self._request("PUT", f"/connectors/{connector}/config", config)
        except (OSError, urllib.error.URLError):  # also HTTPError: it rebalances
            return False
        return True

    def states(self, connector: str) -> list[str]:
        """The states of a connector and of its tasks."""
        status = self._request("GET", f"/connectors/{connector}/status")
        return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", method=method)
        request.add_header("Content-Type", "application/json")
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data, timeout=REQUEST_S) as response:
            return json.loads(response.read())

    def log_tail(self) -> str:
        """The last lines of its output."""
        return (self._folder / f"worker-{self.starts}.log").read_text(errors="replace")[-LOG_CHARACTERS:]

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def distributed(bootstrap: str, name: str) -> dict[str, object]:
    """The settings of a worker of distributed mode on three nodes.

    Args:
        name: The group of the workers, and the prefix of their topics.
    """
    kinds = ("offset", "config", "status")
    return {
        "bootstrap.servers": bootstrap, "group.id": name,
        **{f"{kind}.storage.topic": f"{name}-{kind}" for kind in kinds},
        **{f"{kind}.storage.replication.factor": 3 for kind in kinds},
        "offset.storage.partitions": 3, "status.storage.partitions": 3,
        "exactly.once.source.support": "enabled", "connector.client.config.override.policy": "All",
        "scheduled.rebalance.max.delay.ms": 0,
    }  # fmt: skip
