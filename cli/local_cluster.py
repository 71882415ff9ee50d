"""A cluster of processes on this machine, for the command line, tests, benchmarks and fault injection.

    with LocalCluster(Path("/tmp/three"), brokers=3) as cluster:
        Producer(bootstrap_servers=cluster.bootstrap_servers)
        cluster.kill(1)             # SIGKILL
        cluster.start(1)            # same port, same data
        cluster.pause(2)            # SIGSTOP
        cluster.resume(2)
        cluster.rolling_restart()

All methods block; no event loop is needed. No process is left behind: all nodes end when the `with` block is left,
when the last reference is dropped, or when the interpreter exits. A forked process that leaves the block of its parent
ends only what it has started itself. A `with` block whose start fails also takes back what the constructor wrote.
`cluster_layout` defines folders and ports.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from minikafka.broker.node.directory_kinds import why_no_cluster
from minikafka.broker.node.free_ports import free_port
from minikafka.cli.arguments.contexts import DEFAULT_PORT
from minikafka.cli.clusters.cluster_arguments import read, read_timeout
from minikafka.cli.clusters.cluster_layout import (
    HOST,
    ClusterError,
    NodeLayout,
    layout,
    layout_of,
    metrics_listener,
    ports,
    properties,
    voters,
)
from minikafka.cli.clusters.node_files import NodeFiles, Wanted, moved_from, read_settings, settings_in
from minikafka.cli.clusters.node_process import has_ended, pid_of_node, send
from minikafka.cli.clusters.secure_files import SecureFiles
from minikafka.cli.terminal.tables import numbers
from minikafka.protocol.counted import counted

if TYPE_CHECKING:
    from minikafka.client.blocking import Admin

BROKERS = 3
POLL_S = 0.01
READY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0
IN_SYNC_TIMEOUT_S = 60.0
LOG_TAIL_LINES = 30


class LocalCluster:
    """Nodes by id, from 1. Methods that take node ids act on all nodes if none is given.

    They raise ValueError for a node that the cluster has not.

    Args:
        directory: created if missing; an existing cluster is restarted, on its ports.
        brokers: number of brokers; None keeps the existing number, three in a new directory.
        controllers: number of controllers; None keeps the existing number, at most three in a new directory.
        isolated: run controllers as separate nodes instead of combined nodes.
        port: port of the first broker; 0 picks free ports, None is 9092. An existing cluster keeps its own.
        settings: node settings by Kafka's names, for every node; in an existing cluster they are changed.
        node_settings: settings of single nodes, by id; they take precedence.
        metrics: give each node a metrics listener, unless it has one.

    Attributes:
        was_ready: whether nodes that were waited for have all been ready; nothing is taken back after that.

    The `with` block raises ClusterError if a node already runs that this object has not started.

    Raises ClusterError, before anything is written, for an impossible layout, another port than that of an existing
    cluster, settings with which a node cannot start, or the directory of a node; TypeError or ValueError, which names
    the argument, for one that is not what it may be.
    """

    READY = re.compile(rb"^ready ", re.MULTILINE)
    """The line that a node logs once it accepts clients."""

    def __init__(
        self,
        directory: Path | str,
        *,
        brokers: int | None = None,
        controllers: int | None = None,
        isolated: bool = False,
        port: int | None = 0,
        settings: Mapping[str, object] | None = None,
        node_settings: Mapping[int, Mapping[str, object]] | None = None,
        metrics: bool = False,
    ) -> None:
        self.directory = read("directory", directory).resolve()
        brokers, controllers = read("brokers", brokers), read("controllers", controllers)
        isolated, port, metrics = read("isolated", isolated), read("port", port), read("metrics", metrics)
        settings, node_settings = read("settings", settings), read("node_settings", node_settings)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._log_starts: dict[int, int] = {}
        self._files = NodeFiles()
        self._entered_by = 0
        """The pid of the process that has entered the `with` block; 0 before."""
        self.was_ready = False
        if why := why_no_cluster(self.directory):
            raise ClusterError(why)
        existing = _existing(self.directory)
        grows = (brokers or 0) > sum(1 for node in existing.values() if node.port)
        if existing:
            self._check(existing, brokers, controllers, isolated)
            self._check_port(existing, port)
            port = next(node.port for node in existing.values() if node.port)
            controllers = sum(1 for node in existing.values() if node.controller_port)
            brokers = max(brokers or 0, sum(1 for node in existing.values() if node.port))
            isolated = isolated or not any(node.port and node.controller_port for node in existing.values())

        def nodes_from(base: int) -> list[NodeLayout]:
            wanted = BROKERS if brokers is None else brokers
            return layout(brokers=wanted, controllers=controllers, isolated=isolated, port=base, metrics=metrics)

        port = DEFAULT_PORT if port is None else port
        nodes = nodes_from(port or free_port(lambda base: ports(nodes_from(base))))
        nodes = [node for node in nodes if node.node_id in existing or not existing or grows]
        kept = {node.node_id: _kept(existing.get(node.node_id), node) for node in nodes}
        self.nodes = dict(sorted({**existing, **kept}.items()))
        self.chosen(*(node_settings or {}))
        self._write(_texts(settings or {}), {n: _texts(some) for n, some in (node_settings or {}).items()})
        weakref.finalize(self, _kill_all, self._processes)

    # -- Description ----------------------------------------------------------------------------------------------

    @property
    def node_ids(self) -> list[int]:
        return list(self.nodes)

    @property
    def broker_ids(self) -> list[int]:
        return [node.node_id for node in self.nodes.values() if node.port]

    @property
    def controller_ids(self) -> list[int]:
        """The voters of the quorum."""
        return [node.node_id for node in self.nodes.values() if node.controller_port]

    @property
    def bootstrap(self) -> str:
        """`host:port` of all brokers, with commas."""
        return ",".join(self.address(node_id) for node_id in self.broker_ids)

    @property
    def bootstrap_servers(self) -> str:
        """The same as `bootstrap`, by the name of the argument of clients."""
        return self.bootstrap

    @property
    def admin_options(self) -> dict[str, Any]:
        """The options of a client that may do everything; none for a cluster without security."""
        return SecureFiles(self.directory).admin_options()

    @property
    def warnings(self) -> list[str]:
        """The warnings that nodes will log when they start, such as misspelled settings, of settings just written."""
        return self._files.warnings

    def address(self, node_id: int) -> str:
        """`host:port` of a broker. Raises ValueError for a node that is not a broker."""
        self.chosen(node_id)
        if not self.nodes[node_id].port:
            raise ValueError(f"node {node_id} is no broker: it has no address for clients")
        return f"{HOST}:{self.nodes[node_id].port}"

    def metrics_url(self, node_id: int) -> str:
        """The URL at which a node serves its metrics; "" if it serves none."""
        listener = read_settings(self.config(node_id)).get("metrics.listener")
        return f"{listener.rstrip('/')}/metrics" if listener else ""

    def folder(self, node_id: int) -> Path:
        """The folder of a node."""
        self.chosen(node_id)
        return self.directory / f"node-{node_id}"

    def config(self, node_id: int) -> Path:
        """A node's server.properties."""
        return self.folder(node_id) / "server.properties"

    def data(self, node_id: int) -> Path:
        """A node's log.dirs."""
        return self.folder(node_id) / "data"

    def pid(self, node_id: int) -> int:
        """The pid of a node, also if it was started by hand; 0 if it does not run."""
        self.chosen(node_id)
        if (process := self._processes.get(node_id)) is not None and process.poll() is None:
            return process.pid
        if by_hand := pid_of_node(self.folder(node_id) / "pid", self.config(node_id), self.data(node_id)):
            self._processes.pop(node_id, None)  # How the process before this one ended says nothing of this one.
        return by_hand

    def chosen(self, *node_ids: int) -> list[int]:
        """The given node ids, or all. Raises ValueError for a node that the cluster does not have."""
        for node_id in node_ids:
            if node_id not in self.node_ids:
                raise ValueError(f"{self.directory} has no node {node_id!r}: it has {numbers(self.node_ids)}")
        return list(node_ids) or self.node_ids

    def running(self, node_id: int) -> bool:
        """Whether a node's process exists, paused or not."""
        return self.pid(node_id) > 0

    def exit_code(self, node_id: int) -> int | None:
        """Exit code of the last process (-N for signal N); None while it runs, or if this object did not start it."""
        self.pid(node_id)
        process = self._processes.get(node_id)
        return None if process is None else process.poll()

    def log_tail(self, node_id: int, lines: int = LOG_TAIL_LINES) -> str:
        """The last lines of a node's server.log."""
        path = self.folder(node_id) / "server.log"
        text = path.read_text(errors="replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    # -- Actions --------------------------------------------------------------------------------------------------

    def command(self, node_id: int) -> list[str]:
        """The command line that runs a node."""
        return [sys.executable, "-m", "minikafka.cli.main", "server", "--config", str(self.config(node_id))]

    def start(self, *node_ids: int, timeout_s: float = READY_TIMEOUT_S) -> Self:
        """Start nodes and wait until they are ready. Raises ClusterError, with the end of the log, if one is not."""
        timeout_s = read_timeout("start", timeout_s)
        self.launch(*node_ids)
        self.wait_ready(*node_ids, timeout_s=timeout_s)
        return self

    def launch(self, *node_ids: int) -> None:
        """Start nodes without waiting. Raises ClusterError, before any is started, if one runs already."""
        for node_id in (chosen := self.chosen(*node_ids)):
            if self.running(node_id):
                raise ClusterError(f"node {node_id} of {self.directory} is already running (pid {self.pid(node_id)})")
        for node_id in chosen:
            log = self.folder(node_id) / "server.log"
            self._log_starts[node_id] = log.stat().st_size if log.exists() else 0
            with log.open("ab") as output:
                self._processes[node_id] = subprocess.Popen(
                    self.command(node_id),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,  # Ctrl-C on the terminal must only reach this process
                )
            (self.folder(node_id) / "pid").write_text(f"{self._processes[node_id].pid}\n")

    def wait_ready(self, *node_ids: int, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Wait until launched nodes are ready. Raises ClusterError, with the end of the log, if one is not."""
        deadline = time.monotonic() + read_timeout("wait_ready", timeout_s)
        while waiting := self.not_ready(*node_ids):
            if time.monotonic() > deadline:
                raise self._failure(waiting[0], f"is not ready after {timeout_s:.0f} s")
            time.sleep(POLL_S)

    def not_ready(self, *node_ids: int) -> list[int]:
        """The launched nodes that are not ready yet. Raises ClusterError if one has ended."""
        waiting = [node_id for node_id in self.chosen(*node_ids) if not self._is_ready(node_id)]
        for node_id in waiting:
            if self.exit_code(node_id) is not None:
                raise self._failure(node_id, "exited")
        self.was_ready = self.was_ready or not waiting
        return waiting

    def stop(self, *node_ids: int, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send SIGTERM and wait; broker-only nodes first, as their controlled shutdown needs the controllers.

        Raises ClusterError for nodes that take longer than `timeout_s`, after killing them.
        """
        timeout_s = read_timeout("stop", timeout_s)
        chosen = self.chosen(*node_ids)
        late = []
        for is_controller in (False, True):
            wave = [n for n in chosen if bool(self.nodes[n].controller_port) == is_controller]
            pids = self._pids(wave)
            self._signal(signal.SIGTERM, wave)
            self._signal(signal.SIGCONT, wave)
            late += self._wait_ended(pids, timeout_s)
        if late:
            self.kill(*late)
            raise ClusterError(f"node {late[0]} did not stop within {timeout_s:.0f} s:\n{self.log_tail(late[0])}")

    def release(self) -> None:
        """Let the nodes that this object has started run on after this object is gone."""
        self._processes.clear()

    def kill(self, *node_ids: int) -> None:
        """Send SIGKILL, which has the effect of a crash, and wait until the processes have ended."""
        pids = self._pids(self.chosen(*node_ids))
        self._signal(signal.SIGKILL, pids)
        self._wait_ended(pids, STOP_TIMEOUT_S)

    def pause(self, *node_ids: int) -> None:
        """Send SIGSTOP: connections stay open, but nothing is answered."""
        self._signal(signal.SIGSTOP, self.chosen(*node_ids))

    def resume(self, *node_ids: int) -> None:
        """Send SIGCONT."""
        self._signal(signal.SIGCONT, self.chosen(*node_ids))

    def restart(self, *node_ids: int) -> Self:
        """Stop nodes, then start them, all at the same time."""
        self.stop(*node_ids)
        return self.start(*node_ids)

    def rolling_restart(self) -> None:
        """Restart one node after the other, waiting for all replicas to be in sync. Raises ClusterError."""
        for node_id in self.node_ids:
            self.restart(node_id)
            self.wait_in_sync()

    def wait_in_sync(self, timeout_s: float = IN_SYNC_TIMEOUT_S) -> None:
        """Wait until every partition has a leader and all replicas in sync. Raises ClusterError."""
        from minikafka.client.blocking import Admin

        deadline = time.monotonic() + read_timeout("wait_in_sync", timeout_s)
        with Admin(self.bootstrap, **self.admin_options) as admin:
            while behind := under_replicated(admin):
                if time.monotonic() > deadline:
                    names = f"{behind[0]} and {len(behind) - 1} more" if len(behind) > 1 else behind[0]
                    raise ClusterError(f"not in sync after {timeout_s:.0f} s: {names}")
                time.sleep(0.05)

    def __enter__(self) -> Self:
        others = [node_id for node_id in self.node_ids if node_id not in self._processes and self.running(node_id)]
        if others:
            self.take_back()
            raise ClusterError(
                f"node {others[0]} of {self.directory} is already running (pid {self.pid(others[0])}), and another "
                "program may use it: stop it there or by `minikafka cluster stop`, or use a directory of its own"
            )
        self._entered_by = os.getpid()
        if any(map(self.running, self.node_ids)):
            return self
        try:
            return self.start()
        except BaseException:
            self.kill()
            if not self.was_ready:
                self.take_back()
            raise

    def __exit__(self, *_: object) -> None:
        if os.getpid() == self._entered_by:
            self.kill()
        else:
            _kill_all(self._processes)

    # -- Internals ------------------------------------------------------------------------------------------------

    def _check(
        self, existing: Mapping[int, NodeLayout], brokers: int | None, controllers: int | None, isolated: bool
    ) -> None:
        """Check the requested layout against the existing one: only adding brokers is possible. Raises ClusterError."""
        broker_count = sum(1 for node in existing.values() if node.port)
        existing_voters = [node for node in existing.values() if node.controller_port]
        is_isolated = not any(node.port for node in existing_voters)
        grows = brokers is not None and brokers > broker_count
        if brokers is not None and brokers < broker_count:
            held = counted(broker_count, "broker")
            raise ClusterError(f"{self.directory} holds {held}; use a new directory for {brokers}")
        resized = controllers is not None and controllers != len(existing_voters)
        if resized or (isolated and not is_isolated) or (grows and is_isolated):
            raise ClusterError(
                f"{self.directory} holds a quorum of {len(existing_voters)} ({voters(existing_voters)}); "
                "use a new directory for another quorum"
            )

    def _check_port(self, existing: Mapping[int, NodeLayout], port: int | None) -> None:
        """Raise ClusterError for another port than that of the first broker; other nodes and clients know the ports."""
        first = next(node for node in existing.values() if node.port)
        if port not in (None, 0, first.port):
            raise ClusterError(
                f"{self.directory} holds a cluster whose first broker is at port {first.port}, not {port}: leave out "
                "--port to start it there, or use a new directory"
            )

    def take_back(self) -> None:
        """Undo what the constructor wrote: new folders, with all that nodes have written there, and changed settings.

        No node of a new folder may run.
        """
        self._files.take_back()

    def _write(self, settings: Mapping[str, str], of_nodes: Mapping[int, Mapping[str, str]]) -> None:
        files, secure = {}, SecureFiles(self.directory)
        given = {node_id: settings_in(self.config(node_id)) for node_id in self.nodes}
        example = next(filter(None, given.values()), {})
        for node_id, node in self.nodes.items():
            of_security = secure.settings_of(given[node_id], example)
            chosen = {**of_security, **settings, **of_nodes.get(node_id, {})}
            if node.metrics_port and "metrics.listener" not in (given[node_id] or {}):
                chosen.setdefault("metrics.listener", metrics_listener(node))
            if before := moved_from(self.config(node_id)):
                chosen.setdefault("log.dirs", str(self.data(node_id)))
                self.warnings.append(f"node {node_id}: log.dirs was {before}, and is {chosen['log.dirs']} from now on")
            listener = chosen.get("inter.broker.listener.name", "PLAINTEXT")
            basis = properties(node, self.nodes.values(), self.folder(node_id), listener)
            files[self.config(node_id)] = Wanted(basis, chosen)
        self._files.write(files)
        if secure.settle():
            self.warnings.append(f"the files in {secure.folder} name each other by their new paths from now on")

    def _is_ready(self, node_id: int) -> bool:
        return self.READY.search(self._log_of_this_start(node_id)) is not None

    def _log_of_this_start(self, node_id: int) -> bytes:
        with (self.folder(node_id) / "server.log").open("rb") as log:
            log.seek(self._log_starts.get(node_id, 0))
            return log.read()

    def _failure(self, node_id: int, what: str) -> ClusterError:
        lines = self._log_of_this_start(node_id).decode(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return ClusterError("\n".join([f"node {node_id} {what}; {self.folder(node_id) / 'server.log'} ends:", *lines]))

    def _signal(self, number: signal.Signals, node_ids: Collection[int]) -> None:
        for node_id in node_ids:
            send(partial(self.pid, node_id), number)

    def _pids(self, node_ids: Sequence[int]) -> dict[int, int]:
        """The processes of the nodes that run."""
        return {node_id: pid for node_id in node_ids if (pid := self.pid(node_id))}

    def _wait_ended(self, pids: Mapping[int, int], timeout_s: float) -> list[int]:
        """Wait until the processes of nodes have ended. Returns the nodes that still run after `timeout_s`.

        The process itself is waited for: a node takes its pid file away before it has quite ended.
        """
        deadline = time.monotonic() + timeout_s
        while running := [node_id for node_id, pid in pids.items() if not self._ended(node_id, pid)]:
            if time.monotonic() > deadline:
                return running
            time.sleep(POLL_S)
        for node_id in pids:
            (self.folder(node_id) / "pid").unlink(missing_ok=True)
        return []

    def _ended(self, node_id: int, pid: int) -> bool:
        process = self._processes.get(node_id)
        if process is not None and process.pid == pid:
            return process.poll() is not None
        return has_ended(pid)


def under_replicated(admin: Admin) -> list[str]:
    """`topic-partition` of all partitions without a leader or with replicas out of sync."""
    from minikafka.client.connections.cluster_metadata import Topic

    topics = admin.describe_topics(None)
    return [
        f"{topic.name}-{one.index}"
        for topic in topics.values()
        if isinstance(topic, Topic)
        for one in topic.partitions
        if one.leader < 0 or len(one.in_sync_replicas) < len(one.replicas)
    ]


def _existing(directory: Path) -> dict[int, NodeLayout]:
    """The nodes of a directory, by id. Raises ClusterError for a file of something else."""
    found = {}
    for path in directory.glob("node-*/server.properties"):
        settings = read_settings(path)
        try:
            node = layout_of(settings)
        except ClusterError as error:
            raise ClusterError(f"{path}: {error}") from None
        found[node.node_id] = node
    return dict(sorted(found.items()))


def _kept(existing: NodeLayout | None, new: NodeLayout) -> NodeLayout:
    """The layout of a node: an existing node keeps its ports, and gets a metrics port if it has none."""
    return new if existing is None else replace(existing, metrics_port=existing.metrics_port or new.metrics_port)


def _texts(settings: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in settings.items()}


def _kill_all(processes: dict[int, subprocess.Popen[bytes]]) -> None:
    """Kill the processes that this process has started: `poll` says of those of a parent that they have ended."""
    for process in processes.values():
        if process.poll() is None:
            process.kill()
        process.wait()
