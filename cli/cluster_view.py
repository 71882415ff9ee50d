"""What `minikafka cluster` shows on a terminal: nodes, leaders, partitions that lack replicas, renewed each second.

Written over and over on standard error with the two escape sequences that every terminal knows (cursor up, clear to
the end), so that nothing need be installed. Where standard error is no terminal only sentences come.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from minikafka.cli.tables import counted, table

if TYPE_CHECKING:
    from minikafka.cli.local_cluster import LocalCluster
    from minikafka.client import QuorumDescription
    from minikafka.client.blocking import Admin
    from minikafka.client.connections.cluster_metadata import Topic

RENEW_INTERVAL_S = 1.0
NAMED_PARTITIONS_MAX = 5
ANSWER_TIMEOUT_MS = 2_000


class View:
    """Sentences only, for a standard error that is no terminal."""

    def __init__(self, out: TextIO) -> None:
        self.out = out

    def say(self, sentence: str) -> None:
        """A sentence that stays."""
        print(sentence, file=self.out, flush=True)

    def update(self) -> None:
        """Time has passed."""


class TerminalView(View):
    """A table below the sentences."""

    def __init__(self, out: TextIO, nodes: LocalCluster, admin: Admin) -> None:
        super().__init__(out)
        self._nodes = nodes
        self._admin = admin
        self._lines_shown = 0
        self._renewed_at = 0.0

    def say(self, sentence: str) -> None:
        self._show([])
        super().say(sentence)
        self._renewed_at = 0.0

    def update(self) -> None:
        now = time.monotonic()
        if now - self._renewed_at >= RENEW_INTERVAL_S:
            self._show(self._look())
            self._renewed_at = time.monotonic()

    def _look(self) -> list[str]:
        """The lines of the moment; what cannot be had is left out."""
        from minikafka.protocol.errors import KafkaError

        pids = {node_id: self._nodes.pid(node_id) for node_id in self._nodes.node_ids}
        try:
            quorum = self._admin.describe_quorum()
            topics = [one for one in self._admin.describe_topics(None).values() if not isinstance(one, KafkaError)]
        except KafkaError as error:
            return [*nodes_table(self._nodes, pids, None, []), "", f"no broker answers: {error}"]
        return [*nodes_table(self._nodes, pids, quorum, topics), "", *partitions_summary(topics)]

    def _show(self, lines: Sequence[str]) -> None:
        up = f"\x1b[{self._lines_shown}A" if self._lines_shown else ""
        self.out.write(f"{up}\x1b[J" + "".join(f"{line}\n" for line in lines))
        self.out.flush()
        self._lines_shown = len(lines)


@contextmanager
def view(nodes: LocalCluster) -> Iterator[View]:
    """The table on a terminal, sentences elsewhere."""
    if not sys.stderr.isatty():
        yield View(sys.stderr)
        return
    from minikafka.client.blocking import Admin

    with Admin(nodes.bootstrap, default_api_timeout_ms=ANSWER_TIMEOUT_MS) as admin:
        yield TerminalView(sys.stderr, nodes, admin)


def nodes_table(
    nodes: LocalCluster, pids: dict[int, int], quorum: QuorumDescription | None, topics: Iterable[Topic]
) -> list[str]:
    """A row for each node: what it is, whether it runs, what it leads."""
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
    """How many partitions there are, and which lack something."""
    partitions = [(f"{topic.name}-{one.index}", one) for topic in topics for one in topic.partitions]
    leaderless = [name for name, one in partitions if one.leader < 0]
    lacking = [name for name, one in partitions if len(one.in_sync_replicas) < len(one.replicas)]
    return [
        counted(len(partitions), "partition"),
        f"{len(lacking):,} under-replicated{_named(lacking)}",
        f"{len(leaderless):,} without leader{_named(leaderless)}",
    ]


def _named(names: Sequence[str]) -> str:
    more = " …" if len(names) > NAMED_PARTITIONS_MAX else ""
    return f" ({' '.join(names[:NAMED_PARTITIONS_MAX])}{more})" if names else ""
