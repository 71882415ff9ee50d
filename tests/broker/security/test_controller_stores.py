"""A controller that serves no clients: certificates that were set while it ran are shown from its first connection."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
from support.controller_process import free_port
from support.node import NodeProcess
from support.tls import AUTHORITY, SERVER, client_of

from minikafka.client.blocking import Admin

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def serial_number(port: int) -> object:
    with socket.create_connection(("127.0.0.1", port), 30) as raw:
        certificate = client_of().wrap_socket(raw, server_hostname="localhost").getpeercert()
    return (certificate or {})["serialNumber"]


def set_store(port: int, store: Path, authority: Path) -> object:
    """Set the key store of controller 100, and return the new serial number once it is shown."""
    old, end = serial_number(port), time.monotonic() + 30
    controllers = {"bootstrap_controllers": f"127.0.0.1:{port}", "security_protocol": "SSL"}
    with Admin(**controllers, ssl_truststore_type="PEM", ssl_truststore_location=str(authority)) as admin:
        admin.alter_configs("broker", "100", set={"listener.name.controller.ssl.keystore.location": str(store)})
    while (new := serial_number(port)) == old:
        assert time.monotonic() < end
        time.sleep(0.05)
    return new


def test_a_controller_keeps_the_store_that_was_set_last(tmp_path: Path) -> None:
    port, stores = free_port(), [tmp_path / f"{number}.p12" for number in range(3)]
    for store in stores:
        AUTHORITY.issue("CN=server").write_pkcs12(store)
    authority = SERVER.write_authority_pem(tmp_path / "authority.pem")
    settings = {
        "node.id": "100",
        "process.roles": "controller",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.quorum.voters": f"100@127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:SSL",
        "ssl.keystore.location": str(stores[0]),
        "ssl.keystore.password": "store-secret",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority),
    }
    with NodeProcess(tmp_path / "controller", settings=settings, port=port) as controller:
        set_store(port, stores[1], authority)
        last = set_store(port, stores[2], authority)
        stores[0].unlink()
        stores[1].unlink()
        controller.kill()
        lines = len(controller.log_path.read_text())
        controller.start()
        assert serial_number(port) == last
        set_store(port, AUTHORITY.issue("CN=server").write_pkcs12(tmp_path / "3.p12"), authority)
        new_lines = controller.log_path.read_text()[lines:]
        assert new_lines.count("certificates renewed") == 1, "the log was not taken for news"
        assert "changed stores not used" not in new_lines
        assert "certificates not renewed" not in new_lines
