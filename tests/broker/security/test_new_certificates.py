"""New certificates without a restart: by IncrementalAlterConfigs, not by a changed file; open connections stay."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from support.node import NodeProcess
from support.tls import AUTHORITY, client_of, write_stores

LOCATION = "listener.name.outside.ssl.keystore.location"


class Outside:
    """A node with a listener OUTSIDE that has TLS; its settings are changed by way of another listener."""

    def __init__(self, node: NodeProcess, port: int, key_store: Path) -> None:
        self.node, self.port, self.key_store = node, port, key_store
        self.admin = AdminClient({"bootstrap.servers": node.bootstrap})

    def serial_number(self) -> str:
        """The serial number of the certificate that a new connection gets."""
        with self.connect() as tls:
            return serial_number(tls)

    def connect(self) -> ssl.SSLSocket:
        raw = socket.create_connection(("127.0.0.1", self.port), 30)
        return client_of().wrap_socket(raw, server_hostname="localhost")

    def set_location(self) -> None:
        """Set the location of the key store, to the value that it has."""
        self.set(LOCATION, str(self.key_store))

    def set(self, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(30)

    def wait_for_log(self, text: str) -> None:
        end = time.monotonic() + 30
        while text not in self.node.log_path.read_text():
            assert time.monotonic() < end, self.node.log_tail()
            time.sleep(0.01)


def serial_number(tls: ssl.SSLSocket) -> str:
    certificate = tls.getpeercert()
    assert certificate is not None
    return str(certificate["serialNumber"])


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    stores = {f"listener.name.outside.{name}": value for name, value in write_stores(tmp_path).items()}
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,OUTSIDE://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:SSL",
        **stores,
    }
    with NodeProcess(tmp_path / "data", settings=settings) as node:
        yield Outside(node, port, Path(stores[LOCATION]))


def test_certificates_are_renewed_by_setting_their_location_again(outside: Outside) -> None:
    with outside.connect() as staying:
        old = serial_number(staying)
        AUTHORITY.issue("CN=server").write_pkcs12(outside.key_store)
        assert outside.serial_number() == old, "the file alone"
        outside.set_location()
        outside.wait_for_log("certificates renewed")
        assert outside.serial_number() != old
        staying.sendall(b"\0\0\0\x0e\0\x12\0\0\0\0\0\7\0\4test")
        assert staying.recv(8)[4:] == b"\0\0\0\7", "the open connection stays"


def test_a_certificate_of_another_name_or_a_broken_file_is_not_taken(outside: Outside) -> None:
    old = outside.serial_number()
    AUTHORITY.issue("CN=other").write_pkcs12(outside.key_store)
    outside.set_location()
    outside.wait_for_log("the new certificate is of CN=other instead of CN=server")
    outside.key_store.write_bytes(b"rubbish")
    outside.set_location()
    outside.wait_for_log("it is neither PKCS12 nor JKS")
    assert outside.serial_number() == old


def test_a_setting_that_does_not_hold_is_named_in_the_log_without_its_value(outside: Outside) -> None:
    secret = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_eve="nope-4711";'
    outside.set("listener.name.outside.plain.sasl.jaas.config", secret)
    outside.wait_for_log("settings altered without effect")
    log = outside.node.log_path.read_text()
    assert "listener.name.outside.plain.sasl.jaas.config" in log
    assert "nope-4711" not in log
