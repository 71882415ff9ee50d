"""Nodes of every role as real processes: discovery by bootstrap servers, startup errors, manual start."""

from __future__ import annotations

import contextlib
import re
import socket
from pathlib import Path

import pytest
from support.clients import eventually
from support.clusters import ON_KAFKA, PATIENCE_S, make

from minikafka.cli.clusters.cluster_layout import ClusterError
from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(ON_KAFKA, reason="of our nodes' own files and words"),
]


def rewrite(cluster: LocalCluster, node_id: int, pattern: str, replacement: str) -> None:
    """Changes a line of a node's server.properties."""
    path = cluster.config(node_id)
    changed, count = re.subn(pattern, replacement, path.read_text())
    assert count == 1, f"{pattern} is there once"
    path.write_text(changed)


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_nodes_with_bootstrap_servers_only_form_a_cluster(tmp_path: Path) -> None:
    cluster = make(tmp_path, brokers=3, controllers=2)
    servers = ",".join(f"127.0.0.1:{cluster.nodes[node_id].controller_port}" for node_id in (1, 2))
    for node_id in cluster.node_ids:
        rewrite(cluster, node_id, "controller.quorum.voters=.*", f"controller.quorum.bootstrap.servers={servers}")
    for _ in range(2):
        cluster.start(timeout_s=PATIENCE_S)
        with Admin(cluster.bootstrap) as admin:  # a newly elected leader does not know its observers yet
            eventually(lambda: [one.node_id for one in admin.describe_quorum().observers] == [3], timeout_s=PATIENCE_S)
            assert [voter.node_id for voter in admin.describe_quorum().voters] == [1, 2]
        cluster.stop(timeout_s=PATIENCE_S)


def test_a_node_with_another_cluster_id_or_node_id_reports_why_it_does_not_start(tmp_path: Path) -> None:
    cluster = make(tmp_path, brokers=2, controllers=1)
    cluster.start(timeout_s=PATIENCE_S)
    cluster.stop(2, timeout_s=PATIENCE_S)
    meta = cluster.data(2) / "meta.properties"
    as_it_was = meta.read_text()
    meta.write_text(re.sub("cluster.id=.*", "cluster.id=AAAAAAAAAAAAAAAAAAAAAQ", as_it_was))
    with pytest.raises(ClusterError, match=r"node 2 belongs to cluster AAAAAAAAAAAAAAAAAAAAAQ, node 1 to|to cluster"):
        cluster.start(2, timeout_s=PATIENCE_S)
    meta.write_text(re.sub("node.id=.*", "node.id=7", as_it_was))
    with pytest.raises(ClusterError, match="belongs to node 7"):
        cluster.start(2, timeout_s=PATIENCE_S)
    meta.write_text(as_it_was)
    cluster.start(2, timeout_s=PATIENCE_S)
    cluster.stop(timeout_s=PATIENCE_S)


def test_a_node_without_a_quorum_stops_on_sigterm(tmp_path: Path) -> None:
    cluster = make(tmp_path, brokers=3, controllers=3)
    cluster.launch(1)
    eventually(lambda: listens(cluster.nodes[1].controller_port), timeout_s=PATIENCE_S)
    assert cluster.not_ready(1) == [1]
    cluster.stop(1, timeout_s=PATIENCE_S)
    assert cluster.exit_code(1) == 0
