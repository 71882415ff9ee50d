"""Clusters whose voters come and go (KIP-853): each node a process, formatted as an operator does."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from minikafka.broker.node.format import Voters, feature_levels, first_voters, format_directories
from minikafka.broker.settings.node_config import load_config
from minikafka.broker.settings.properties_file import read_properties
from minikafka.cli.clusters.cluster_layout import HOST, NodeLayout, properties, properties_text
from minikafka.cli.local_cluster import LocalCluster, free_port
from minikafka.controller.metadata.formatted_levels import Formatted
from minikafka.protocol.names import uuid_text
from minikafka.storage.directories.directory_ids import new_directory_id
from minikafka.storage.disks.checkpoint_files import META_PROPERTIES
from minikafka.storage.disks.disk import RealDisk

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
ROLES = ("controller", "broker", "broker,controller")


class DynamicCluster(LocalCluster):
    """Nodes whose voters are in the metadata log.

    Args:
        directory: a new one.
        roles: of each node, by id.
        voters: the first voters; other controllers follow the log until they are added.
        settings: for every node.
    """

    def __init__(
        self,
        directory: Path,
        roles: Mapping[int, str],
        *,
        voters: Sequence[int],
        settings: Mapping[str, object] | None = None,
    ) -> None:
        base = free_port(lambda base: [base + offset for one in roles for offset in (one, 100 + one)])
        nodes = [
            NodeLayout(one, base + one if "broker" in what else 0, base + 100 + one if "controller" in what else 0)
            for one, what in roles.items()
        ]
        self._initial = ",".join(
            f"{one}@{HOST}:{base + 100 + one}:{uuid_text(new_directory_id(random.SystemRandom()))}" for one in voters
        )
        servers = ",".join(f"{HOST}:{node.controller_port}" for node in nodes if node.controller_port)
        for node in nodes:
            folder = directory / f"node-{node.node_id}"
            folder.mkdir(parents=True)
            chosen = {name: str(value) for name, value in (settings or {}).items()}
            given = {**properties(node, nodes, folder), **chosen}
            del given["controller.quorum.voters"]
            given["controller.quorum.bootstrap.servers"] = servers
            (folder / "server.properties").write_text(properties_text(given))
        super().__init__(directory)
        for node_id in self.node_ids:
            self.format(node_id, self._initial if node_id in voters else None)

    def format(self, node_id: int, voters: str | None = None) -> None:
        """Format the data directory of a node that does not run; one that was wiped is another voter then."""
        config = load_config(properties=read_properties(self.config(node_id).read_bytes()))
        how, generator = Voters(initial=voters, none_yet=voters is None), random.SystemRandom()
        format_directories(
            RealDisk(),
            config,
            CLUSTER_ID,
            formatted=Formatted(feature_levels(None, {}, voters=how, fixed=False)),
            voters=first_voters(config, how, generator),
            ignore_formatted=False,
            now_ms=1_700_000_000_000,
            random=generator,
        )

    def directory_id(self, node_id: int) -> str:
        """Of a node's metadata directory."""
        path = self.data(node_id) / META_PROPERTIES
        return read_properties(path.read_bytes())["directory.id"]

    def controller_address(self, node_id: int) -> str:
        """`host:port` of a controller."""
        return f"{HOST}:{self.nodes[node_id].controller_port}"
