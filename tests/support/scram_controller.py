"""A controller by itself whose listener has SASL over TLS, and a broker that logs in there by SCRAM."""

from __future__ import annotations

import socket
from pathlib import Path

from click.testing import CliRunner

from minikafka.cli.main import cli
from support.controller_process import free_port
from support.node import NodeProcess
from support.tls import client_of, write_stores

MODULES = "org.apache.kafka.common.security"
PREFIX = "listener.name.controller"
STORE = "ssl.keystore.location"


class Apart:
    """Node 1, a controller, and node 2, a broker."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.address = folder, free_port(), f"127.0.0.1:{free_port()}"
        stores = write_stores(folder)
        self.key_store = Path(stores[STORE]).rename(folder / "server.p12")
        user = 'username="node" password="among-us"'
        shared = {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{self.address}",
            "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
            f"{PREFIX}.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required {user};",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:node;User:admin;User:ANONYMOUS",
            **{f"{PREFIX}.{name}": value for name, value in stores.items()},
            f"{PREFIX}.{STORE}": str(self.key_store),
        }
        of_controller = {
            **shared,
            "node.id": "1",
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{self.address}",
            f"{PREFIX}.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
            f"{PREFIX}.plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_admin="admin-secret";',
        }
        of_broker = {
            **shared,
            "node.id": "2",
            "process.roles": "broker",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
        }
        self.controller = NodeProcess(folder / "controller", settings=of_controller, port=free_port())
        self.broker = NodeProcess(folder / "broker", settings=of_broker, port=self.port, start_timeout_s=120)
        self._format(of_controller)

    def _format(self, settings: dict[str, str]) -> None:
        config = self.folder / "server.properties"
        given = settings | {"log.dirs": str(self.controller.data_dir)}
        config.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        user = "--add-scram=SCRAM-SHA-512=[name=node,password=among-us]"
        command = ["storage", "format", "--config", str(config), "--cluster-id", "5L6g3nShT-eMCtK--X86sw", user]
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 0, done.output

    def serial_number(self) -> object:
        """The serial number of the certificate that the controller shows."""
        host, port = self.address.split(":")
        with socket.create_connection((host, int(port)), 30) as raw:
            certificate = client_of().wrap_socket(raw, server_hostname="localhost").getpeercert()
        return (certificate or {})["serialNumber"]
