"""Clusters with everything on: clients log in over TLS, nodes show each other certificates, and ACLs decide.

    cluster = LocalCluster(folder, **RESERVED)
    secure(cluster)                 before its nodes start
    cluster.start()
    add_load_user(cluster)
    Producer(**Logins.of(cluster).load.minikafka)

The listener NODES of each node is for brokers, SASL_SSL is for clients. The load's user may read and write; an
administrator, who is a super user, may do everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minikafka.cli.clusters.cluster_layout import HOST, NodeLayout, with_settings
from minikafka.cli.clusters.secure_files import SecureFiles
from minikafka.cli.local_cluster import LocalCluster
from minikafka.client import Acl
from minikafka.client.blocking import Admin
from minikafka.protocol.errors import KafkaError
from support.certificates import Authority
from support.logins import Login, Logins, jaas

RESERVED: dict[str, Any] = {"metrics": True, "settings": {"metrics.listener": ""}}
"""Arguments of a cluster on one address: the ports of the metrics are those of the listener NODES."""
LOAD, LOAD_PASSWORD = "load", "load-secret"
ADMIN, ADMIN_PASSWORD = "admin", "admin-secret"
LISTENER, MECHANISM = "SASL_SSL", "SCRAM-SHA-512"
GRANTED = {
    "topic": ("read", "write"),
    "group": ("read",),
    "transactional_id": ("write", "describe"),
}
"""What the load's user may do with all resources of a kind."""


def secure(cluster: LocalCluster, hosts: Mapping[int, str] | None = None) -> None:
    """Write certificates and the files of users, and change the settings of nodes that do not run yet.

    Args:
        hosts: the addresses of nodes; otherwise all are at 127.0.0.1.
    """
    files, authority = SecureFiles(cluster.directory), Authority()
    files.folder.mkdir()
    for node_id, node in cluster.nodes.items():
        host = (hosts or {}).get(node_id, HOST)
        own = authority.issue(f"CN=node-{node_id}", hosts=(host,))
        own.write_authority_pem(files.folder / "authority.pem")
        own.write_pem(files.folder / f"node-{node_id}.pem")
        path = cluster.config(node_id)
        path.write_text(with_settings(path.read_text(), _settings(node, host, files.folder, cluster.node_ids)))
    trusted = {
        "security.protocol": LISTENER,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.folder / "authority.pem"),
    }
    load = {"sasl.mechanism": MECHANISM, "sasl.jaas.config": jaas("scram.Scram", LOAD, LOAD_PASSWORD)}
    admin = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("plain.Plain", ADMIN, ADMIN_PASSWORD)}
    Login({**trusted, **load}).write(files.client)
    Login({**trusted, **admin}).write(files.admin)


def _settings(node: NodeLayout, host: str, folder: Path, node_ids: list[int]) -> dict[str, str]:
    addresses = {LISTENER: node.port, "NODES": node.metrics_port}
    advertised = ",".join(f"{name}://{host}:{port}" for name, port in addresses.items())
    prefix = f"listener.name.{LISTENER.lower()}"
    plain = jaas("plain.Plain", "", "").removesuffix('username="" password="";')
    scram = jaas("scram.Scram", "", "").removesuffix(' username="" password="";')
    return {
        "listeners": f"{advertised},CONTROLLER://{host}:{node.controller_port}",
        "advertised.listeners": advertised,
        "listener.security.protocol.map": f"{LISTENER}:{LISTENER},NODES:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "NODES",
        "listener.name.nodes.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
        f"{prefix}.plain.sasl.jaas.config": f'{plain}user_{ADMIN}="{ADMIN_PASSWORD}";',
        f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config": f"{scram};",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / f"node-{node.node_id}.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "authority.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join([f"User:{ADMIN}", *(f"User:CN=node-{node_id}" for node_id in node_ids)]),
    }


def add_load_user(cluster: LocalCluster) -> None:
    """Give the load's user a password and its ACLs."""
    with Admin(**Logins.of(cluster).admin.minikafka) as admin:
        admin.upsert_user_scram_credential(LOAD, LOAD_PASSWORD, mechanism=MECHANISM)
        acls = [Acl(kind, "*", f"User:{LOAD}", name) for kind, names in GRANTED.items() for name in names]
        for error in admin.create_acls(acls).values():
            if isinstance(error, KafkaError):
                raise error
