"""`FaultyCluster`: a cluster of processes whose network, disks and clocks can fail too.

Each node has an address and a small file system of its own (`support.networks`, tmpfs), which need root; without it the
nodes share 127.0.0.1 and the disk of the machine, and `cannot` says which faults are not possible. The metadata log is
elsewhere: a node of a quorum ends if it cannot write that.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from chaos.nemesis import CLOCKS, DISKS, LINKS, NETWORK

from minikafka.cli.clusters.cluster_layout import HOST, with_settings
from minikafka.cli.local_cluster import LocalCluster
from support import skewed_node
from support.clusters import COMMON
from support.networks import CLIENTS, Network, why_no_network
from support.oracle_cluster import OracleCluster
from support.secured_clusters import RESERVED, add_load_user, secure

DISK_MIB = 512
SPARED_BYTES = 4 << 20
"""What nodes may write meanwhile: an allocation that fails is undone as a whole."""


class FaultyCluster(LocalCluster):
    """Three nodes, each a broker and a controller. To be used as a context.

    Args:
        secured: TLS, SASL and ACLs (`support.secured_clusters`).

    Attributes:
        cannot: The kinds of faults that are not possible, by `chaos.nemesis`, with the reason.
    """

    def __init__(
        self, directory: Path, *, settings: Mapping[str, object] | None = None, secured: bool = False, **rest: Any
    ) -> None:
        reserved = RESERVED if secured else {}
        given = {**COMMON, **(settings or {}), **reserved.get("settings", {})}
        super().__init__(directory, brokers=3, **{**reserved, **rest, "settings": given})
        self._secured = secured
        self.cannot: dict[str, str] = {}
        self._network: Network | None = None
        self._ahead_s: dict[int, int] = {}
        self._mounted: list[Path] = []

    def __enter__(self) -> Self:
        try:
            self._make_disks()
            self._make_network()
            if self._secured:
                secure(self, {node_id: self._host(node_id) for node_id in self.node_ids})
            super().__enter__()
            if self._secured:
                add_load_user(self)
            return self
        except BaseException:
            self._close()
            raise

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        self.kill()
        if self._network:
            self._network.close()
        for path in self._mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=True)
        self._mounted.clear()

    # -- processes -------------------------------------------------------------------------------------------------

    def address(self, node_id: int) -> str:
        return f"{self._host(node_id)}:{self.nodes[node_id].port}"

    def _host(self, node_id: int) -> str:
        return self._network.address(node_id) if self._network else HOST

    def data(self, node_id: int) -> Path:
        disk = self._disk(node_id)
        return disk / "data" if disk in self._mounted else super().data(node_id)

    def command(self, node_id: int) -> list[str]:
        command = super().command(node_id)
        if self._ahead_s.get(node_id):
            ahead = str(self._ahead_s[node_id])
            command = [sys.executable, skewed_node.__file__, ahead, "server", "--config", str(self.config(node_id))]
        return [*self._network.inside(node_id), *command] if self._network else command

    def set_clock(self, node_id: int, ahead_s: int) -> None:
        """Set how much the clock of a node is ahead, from its next start on."""
        self._ahead_s[node_id] = ahead_s

    def heal(self) -> None:
        """Undo all faults: afterwards all nodes run, with right clocks, a whole network, and room on their disks."""
        self._ahead_s.clear()
        if self._network:
            self._network.mend()
        self.empty_disk(*self.node_ids)
        self.resume()
        dead = [node_id for node_id in self.node_ids if not self.running(node_id)]
        if dead:
            self.start(*dead)

    # -- the network -----------------------------------------------------------------------------------------------

    def isolate(self, *node_ids: int) -> None:
        """Cut nodes off from all others, each for itself; clients still reach them."""
        for link in self._links(node_ids):
            self._net.cut(*link)

    def rejoin(self, *node_ids: int) -> None:
        """Undo `isolate`."""
        self._net.mend(*self._links(node_ids))

    def cut_link(self, one: int, other: int) -> None:
        """Cut two nodes off from each other."""
        self._net.cut(one, other)

    def mend_link(self, one: int, other: int) -> None:
        """Undo `cut_link`."""
        self._net.mend((one, other))

    def cut_clients(self, *node_ids: int) -> None:
        """Cut nodes off from all clients; nodes reach each other."""
        for node_id in node_ids:
            self._net.cut(node_id, CLIENTS)

    def mend_clients(self, *node_ids: int) -> None:
        """Undo `cut_clients`."""
        self._net.mend(*((node_id, CLIENTS) for node_id in node_ids))

    @property
    def _net(self) -> Network:
        assert self._network is not None, self.cannot
        return self._network

    def _links(self, node_ids: tuple[int, ...]) -> list[tuple[int, int]]:
        return [pair for pair in itertools.combinations(self.node_ids, 2) if set(pair) & set(node_ids)]

    def _make_network(self) -> None:
        reason = why_no_network()
        if reason:
            self.cannot |= {NETWORK: reason, LINKS: reason}
            return
        self._network = Network(self.node_ids)
        voters = ",".join(f"{n}@{self._network.address(n)}:{one.controller_port}" for n, one in self.nodes.items())
        for node_id, node in self.nodes.items():
            host = self._network.address(node_id)
            settings = {
                "listeners": f"PLAINTEXT://{host}:{node.port},CONTROLLER://{host}:{node.controller_port}",
                "advertised.listeners": f"PLAINTEXT://{host}:{node.port}",
                "controller.quorum.voters": voters,
            }
            self._set(node_id, settings)

    def _set(self, node_id: int, settings: Mapping[str, str]) -> None:
        path = self.config(node_id)
        path.write_text(with_settings(path.read_text(), settings))

    # -- disks -----------------------------------------------------------------------------------------------------

    def fill_disk(self, *node_ids: int) -> None:
        """Leave no room on the disks of nodes."""
        for node_id in node_ids:
            disk = self._disk(node_id)
            with contextlib.suppress(OSError), (disk / "ballast").open("wb") as ballast:
                os.posix_fallocate(ballast.fileno(), 0, max(_free_bytes(disk) - SPARED_BYTES, 1))
            with contextlib.suppress(OSError), (disk / "ballast").open("ab") as ballast:
                while True:  # what became free meanwhile
                    ballast.write(bytes(4096))
                    ballast.flush()

    def empty_disk(self, *node_ids: int) -> None:
        """Undo `fill_disk`."""
        for node_id in node_ids:
            (self._disk(node_id) / "ballast").unlink(missing_ok=True)

    def _disk(self, node_id: int) -> Path:
        return self.folder(node_id) / "disk"

    def _make_disks(self) -> None:
        for node_id in self.node_ids:
            disk = self._disk(node_id)
            disk.mkdir(exist_ok=True)
            mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(disk)]
            reason = "small file systems need root" if os.geteuid() else _error_of(mount)
            if reason:
                self.cannot[DISKS] = reason
                return
            self._mounted.append(disk)
            metadata = self.folder(node_id) / "metadata"
            self._set(node_id, {"log.dirs": str(self.data(node_id)), "metadata.log.dir": str(metadata)})


class FaultyKafka(FaultyCluster, OracleCluster):
    """Nodes of Apache Kafka. It ends when its disk is full, and its clock cannot be set."""

    def __init__(self, directory: Path, **arguments: Any) -> None:
        super().__init__(directory, **arguments)
        self.cannot |= {CLOCKS: "not with Apache Kafka's nodes", DISKS: "Apache Kafka ends when its only disk is full"}


def _free_bytes(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


def _error_of(command: list[str]) -> str:
    """What a command says that fails; empty if it succeeds."""
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return ran.stderr.strip() if ran.returncode else ""
