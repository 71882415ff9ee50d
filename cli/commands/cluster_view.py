"""The status table of `minikafka cluster`: nodes, leaders and under-replicated partitions, refreshed every second.

It is redrawn in place on standard error. If that is not a terminal, only messages are printed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from minikafka.cli.terminal.redraw import Redrawing, is_terminal
from minikafka.cli.terminal.tables import table
from minikafka.protocol.counted import counted
from minikafka.protocol.visible import visible

if TYPE_CHECKING:
    from minikafka.cli.local_cluster import LocalCluster
    from minikafka.client import QuorumDescription
    from minikafka.client.blocking import Admin
    from minikafka.client.connections.cluster_metadata import Topic

REFRESH_INTERVAL_S = 1.0
LISTED_PARTITIONS_MAX = 5
API_TIMEOUT_MS = 2_000


class View:
    """Prints messages only, for a standard error that is not a terminal."""

    def __init__(self, out: TextIO) -> None:
        self.out = out

    def message(self, text: str) -> None:
        """Print a line that stays on the screen."""
        print(visible(text, lines=True), file=self.out, flush=True)

    def update(self) -> None:
        """Refresh the table if it is older than REFRESH_INTERVAL_S."""


class TerminalView(View):
    """Shows a table below the messages."""

    def __init__(self, out: TextIO, nodes: LocalCluster, admin: Admin) -> None:
        super().__init__(out)
        self._nodes = nodes
        self._admin = admin
        self._screen = Redrawing(out)
        self._refreshed_at = 0.0

    def message(self, text: str) -> None:
        self._screen.show([])
        super().message(text)
        self._refreshed_at = 0.0

    def update(self) -> None:
        now = time.monotonic()
        if now - self._refreshed_at >= REFRESH_INTERVAL_S:
            self._screen.show(self._status())
            self._refreshed_at = time.monotonic()

    def _status(self) -> list[str]:
        """The lines of the table, without quorum and partitions if no broker responds."""
        from minikafka.protocol.errors import KafkaError

        pids = {node_id: self._nodes.pid(node_id) for node_id in self._nodes.node_ids}
        try:
            quorum = self._admin.describe_quorum()
            topics = [one for one in self._admin.describe_topics(None).values() if not isinstance(one, KafkaError)]
        except KafkaError as error:
            return [*nodes_table(self._nodes, pids, None, []), "", f"no broker responds: {error}"]
        return [*nodes_table(self._nodes, pids, quorum, topics), "", *partitions_summary(topics)]


@contextmanager
def view(nodes: LocalCluster) -> Iterator[View]:
    """Create the view: a table if standard error is a terminal, otherwise messages only."""
    if not is_terminal(sys.stderr):
        yield View(sys.stderr)
        return
    from minikafka.client.blocking import Admin

    with Admin(nodes.bootstrap, default_api_timeout_ms=API_TIMEOUT_MS, **nodes.admin_options) as admin:
        yield TerminalView(sys.stderr, nodes, admin)


def nodes_table(
    nodes: LocalCluster, pids: dict[int, int], quorum: QuorumDescription | None, topics: Iterable[Topic]
) -> list[str]:
    """A row for each node: roles, pid, quorum state, partitions led and in sync."""
    partitions = [one for topic in topics for one in topic.partitions]
    rows: list[list[object]] = []
    for node_id, node in nodes.nodes.items():
        voting = "leader" if quorum and node_id == quorum.leader_id else "voter" if node.controller_port else "observer"
        leads = sum(one.leader == node_id for one in partitions)
        has = sum(node_id in one.replicas for one in partitions)
        in_sync = sum(node_id in one.in_sync_replicas for one in partitions)
        port = node.port or node.controller_port
        rows.append([node_id, node.roles, port, pids[node_id] or "down", voting, leads, f"{in_sync}/{has}"])
    return table(("node", "roles", "port", "pid", "quorum", "leads", "in sync"), rows)


def partitions_summary(topics: Iterable[Topic]) -> list[str]:
    """Counts of all, under-replicated and leaderless partitions, with some of their names."""
    partitions = [(f"{topic.name}-{one.index}", one) for topic in topics for one in topic.partitions]
    leaderless = [name for name, one in partitions if one.leader < 0]
    under_replicated = [name for name, one in partitions if len(one.in_sync_replicas) < len(one.replicas)]
    return [
        counted(len(partitions), "partition"),
        f"{len(under_replicated):,} under-replicated{_listed(under_replicated)}",
        f"{len(leaderless):,} without leader{_listed(leaderless)}",
    ]


def _listed(names: Sequence[str]) -> str:
    more = " …" if len(names) > LISTED_PARTITIONS_MAX else ""
    return f" ({' '.join(names[:LISTED_PARTITIONS_MAX])}{more})" if names else ""
