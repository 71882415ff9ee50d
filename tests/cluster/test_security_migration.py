"""Three nodes move from PLAINTEXT to SASL_SSL under load, by the steps and settings of docs/security-migration.md."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.certificates import Authority
from support.clients import eventually
from support.cluster_load import LOADS, Ledger, load, read_back, wrongs
from support.clusters import PATIENCE_S, Topic, check_nobody_crashed, make
from support.logins import Login, jaas
from support.pages import DOCS, blocks
from support.secured_clusters import RESERVED

from minikafka.broker.settings.properties_file import read_properties
from minikafka.cli.clusters.cluster_layout import HOST, NodeLayout, with_settings
from minikafka.cli.local_cluster import LocalCluster, under_replicated
from minikafka.client.blocking import Admin
from minikafka.protocol.errors import ClusterAuthorizationFailedError, UnsupportedSaslMechanismError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PAGE = DOCS / "security-migration.md"
PASSWORDS = {"broker": "among brokers", "alice": "alice-secret", "admin": "admin-secret"}
GOES_ON = 60
"""The number of further acknowledgements that shows that producers go on."""
PLACEMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
SETTINGS: dict[str, Any] = {"broker.session.timeout.ms": "5000", **RESERVED["settings"]}


class Migration:
    """The cluster, and what its clients need before and after."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster, self._folder = cluster, folder
        self._steps = [read_properties(one.text.encode()) for one in blocks(PAGE) if one.language == "properties"]
        issued = Authority().issue("CN=node")
        issued.write_pem(folder / "node.pem")
        issued.write_authority_pem(folder / "company-ca.pem")
        self.plain = Login.of(cluster.bootstrap)
        secured = ",".join(f"{HOST}:{node.metrics_port}" for node in cluster.nodes.values())
        self.secured, self.administrator = (
            Login.of(secured, {
                "security.protocol": "SASL_SSL",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(folder / "company-ca.pem"),
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": jaas("scram.Scram", user, PASSWORDS[user]),
            })
            for user in ("alice", "admin")
        )  # fmt: skip

    def roll(self, step: int, login: Login, *ledgers: Ledger) -> None:
        """Restart one node after the other with the settings of a step, while producers go on."""
        with Admin(**login.minikafka) as admin:
            for node_id in self.cluster.node_ids:
                self._set(node_id, step)
                self.cluster.restart(node_id)
                eventually(lambda: not under_replicated(admin), timeout_s=PATIENCE_S)
                for ledger in ledgers:
                    ledger.wait_acknowledged(GOES_ON)
                check_nobody_crashed(self.cluster)

    def restart_all(self, step: int) -> None:
        """Stop all nodes, then start them with the settings of a step."""
        self.cluster.stop()
        for node_id in self.cluster.node_ids:
            self._set(node_id, step)
        self.cluster.start()

    def _set(self, node_id: int, step: int) -> None:
        """Write the settings of a step into the file of a node."""
        path = self.cluster.config(node_id)
        path.write_text(with_settings(path.read_text(), self._here(self.cluster.nodes[node_id], self._steps[step])))

    def _here(self, node: NodeLayout, settings: Mapping[str, str]) -> dict[str, str]:
        """The settings of the page for a node of the test."""
        places = {
            "kafka-1:9092": f"{HOST}:{node.port}",
            "kafka-1:9093": f"{HOST}:{node.metrics_port}",
            "kafka-1:9094": f"{HOST}:{node.controller_port}",
            "/etc/kafka": str(self._folder),
        }
        found = dict(settings)
        for there, here in places.items():
            found = {name: value.replace(there, here) for name, value in found.items()}
        return found

    def make_users(self) -> None:
        with Admin(**self.plain.minikafka) as admin:
            for user, password in PASSWORDS.items():
                admin.upsert_user_scram_credential(user, password, mechanism="SCRAM-SHA-512")


def test_a_cluster_moves_to_sasl_ssl_under_load(tmp_path: Path) -> None:
    directory = tmp_path / "three"
    with make(directory, brokers=3, **{**RESERVED, "settings": SETTINGS}) as cluster, ExitStack() as later:
        migration = Migration(cluster, tmp_path)
        topics = [Topic(cluster, f"{when}-{client}", PLACEMENT).name for when in ("old", "new") for client in LOADS]
        with ExitStack() as earlier:
            ledgers = {f"old-{one}": earlier.enter_context(load(one, migration.plain, f"old-{one}")) for one in LOADS}
            migration.roll(0, migration.plain, *ledgers.values())
            migration.make_users()
            moved = {f"new-{one}": later.enter_context(load(one, migration.secured, f"new-{one}")) for one in LOADS}
            for ledger in (*ledgers.values(), *moved.values()):
                ledger.wait_acknowledged(GOES_ON)
        migration.roll(1, migration.secured, *moved.values())
        migration.roll(2, migration.secured, *moved.values())
        later.close()
        for topic, ledger in {**ledgers, **moved}.items():
            assert wrongs(ledger, read_back(migration.secured, topic)) == []
        assert set(topics) == {*ledgers, *moved}
        migration.restart_all(3)
        for topic, ledger in moved.items():
            assert wrongs(ledger, read_back(migration.secured, topic)) == []
        migration.roll(4, migration.administrator)
        migration.roll(5, migration.administrator)
        with Admin(**migration.secured.minikafka) as alice, pytest.raises(ClusterAuthorizationFailedError):
            alice.describe_acls()
        for node in cluster.nodes.values():
            controller = migration.secured.at(f"{HOST}:{node.controller_port}")
            with pytest.raises(UnsupportedSaslMechanismError, match="PLAIN"), Admin(**controller.minikafka):
                pass
        for node in cluster.nodes.values():
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((HOST, node.port), timeout=5)
