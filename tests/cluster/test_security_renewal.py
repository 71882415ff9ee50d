"""Certificates of all nodes and the password of a user are changed under load: nothing fails, and nothing is lost."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.certificates import Authority
from support.clients import eventually
from support.cluster_load import LOADS, load, read_back, wrongs
from support.clusters import PATIENCE_S, make
from support.logins import Login, Logins, jaas
from support.secured_clusters import LISTENER, LOAD, MECHANISM, RESERVED, add_load_user, secure

from minikafka.cli.clusters.cluster_layout import HOST
from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin
from minikafka.protocol.errors import SaslAuthenticationFailedError, SslAuthenticationError
from minikafka.protocol.messages.api_versions import ApiVersionsRequest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
NEW_PASSWORD = "another-secret"
GOES_ON = 200
KEYSTORE = f"listener.name.{LISTENER.lower()}.ssl.keystore.location"


def with_settings(login: Login, **settings: str) -> Login:
    return Login({**login.java, **{name.replace("_", "."): value for name, value in settings.items()}})


def renew_certificates(cluster: LocalCluster, admin: Admin, authority: Authority, folder: Path) -> None:
    for node_id in cluster.node_ids:
        issued = authority.issue(f"CN=node-{node_id}", hosts=(HOST,))
        path = issued.write_pem(folder / f"renewed-{node_id}.pem")
        issued.write_authority_pem(folder / "new-authority.pem")
        admin.alter_configs("broker", str(node_id), set={KEYSTORE: str(path)})


def reaches(login: Login, cluster: LocalCluster) -> Callable[[], bool]:
    """Whether a new connection to each node succeeds with a login."""

    def look() -> bool:
        for node_id in cluster.node_ids:
            with Admin(**login.at(cluster.address(node_id)).minikafka) as admin:
                admin.describe_cluster()
        return True

    return look


def fails_with(error: type[Exception], login: Login, cluster: LocalCluster) -> Callable[[], bool]:
    def look() -> bool:
        for node_id in cluster.node_ids:
            try:
                with Admin(**login.at(cluster.address(node_id)).minikafka) as admin:
                    admin.describe_cluster()
            except error:
                continue
            return False
        return True

    return look


def test_certificates_and_a_password_are_changed_under_load(tmp_path: Path) -> None:
    cluster = make(tmp_path / "three", brokers=3, **RESERVED)
    secure(cluster)
    authority = Authority("CN=new authority")
    with cluster, ExitStack() as working:
        add_load_user(cluster)
        logins = Logins.of(cluster)
        both = tmp_path / "both.pem"
        new_authority = authority.issue("CN=unused").write_authority_pem(tmp_path / "new-authority.pem")
        both.write_text(Path(logins.load.authority).read_text() + new_authority.read_text())
        old = with_settings(logins.load, ssl_truststore_location=str(both))
        with Admin(**with_settings(logins.admin, ssl_truststore_location=str(both)).minikafka) as admin:
            for client in LOADS:
                admin.create_topic(client, partitions=3, replication_factor=3, configs={"min.insync.replicas": "2"})
            ledgers = {client: working.enter_context(load(client, old, client)) for client in LOADS}
            connections = [
                working.enter_context(logins.admin.at(cluster.address(node_id)).connect())
                for node_id in cluster.node_ids
            ]
            renew_certificates(cluster, admin, authority, tmp_path)
            only_new = with_settings(logins.load, ssl_truststore_location=str(new_authority))
            eventually(fails_with(SslAuthenticationError, logins.load, cluster), timeout_s=PATIENCE_S)
            assert reaches(only_new, cluster)()
            admin.upsert_user_scram_credential(LOAD, NEW_PASSWORD, mechanism=MECHANISM)
            eventually(fails_with(SaslAuthenticationFailedError, only_new, cluster), timeout_s=PATIENCE_S)
        new = with_settings(only_new, sasl_jaas_config=jaas("scram.Scram", LOAD, NEW_PASSWORD))
        assert reaches(new, cluster)()
        for ledger in ledgers.values():
            ledger.wait_acknowledged(GOES_ON)
        for connection in connections:
            assert connection.ask(ApiVersionsRequest(), 0).error_code == 0, "old connections live on"
            assert isinstance(connection.socket, ssl.SSLSocket)
        working.close()
        for client, ledger in ledgers.items():
            assert wrongs(ledger, read_back(new, client)) == []
