"""How clients of a load reach a cluster: a `client.properties` of the Java client, and what others make of it.

    login = Login.of(bootstrap)                     a cluster without security
    login = Login.read(SecureFiles(folder).client)  one with TLS and a login
    Producer(**login.minikafka), confluent_kafka.Producer(login.confluent), …

Programs in other processes get the file, so that there is one place where a load takes its security from.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from minikafka.broker.settings.properties_file import read_properties
from minikafka.cli.clusters.cluster_layout import properties_text
from minikafka.cli.clusters.secure_files import SecureFiles
from minikafka.cli.local_cluster import LocalCluster
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from support.clients_raw import RawConnection

_JAAS = re.compile(r'(?P<module>\S+) required username="(?P<user>[^"]*)" password="(?P<password>[^"]*)";')


def jaas(module: str, user: str, password: str) -> str:
    """A login module of a client; `module` is "plain.Plain" or "scram.Scram"."""
    return (
        f"org.apache.kafka.common.security.{module}LoginModule required "
        f'username="{user}" password="{password}";'
    )


@dataclass(frozen=True)
class Login:
    """Settings of clients, by the names of the Java client: the address, and those of security if there are any."""

    java: Mapping[str, str]

    @classmethod
    def of(cls, bootstrap: str, settings: Mapping[str, str] | None = None) -> Self:
        return cls({"bootstrap.servers": bootstrap, **(settings or {})})

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls(read_properties(path.read_bytes()))

    def write(self, path: Path) -> Path:
        path.write_text(properties_text(self.java))
        return path

    def at(self, address: str) -> Login:
        """The same at another address."""
        return Login({**self.java, "bootstrap.servers": address})

    @property
    def bootstrap(self) -> str:
        return self.java["bootstrap.servers"]

    @property
    def authority(self) -> str:
        """The file of the authority that is trusted; "" without TLS."""
        return self.java.get("ssl.truststore.location", "")

    @property
    def _user(self) -> re.Match[str] | None:
        return _JAAS.fullmatch(self.java.get("sasl.jaas.config", ""))

    @property
    def minikafka(self) -> dict[str, Any]:
        return {name.replace(".", "_"): value for name, value in self.java.items()}

    @property
    def confluent(self) -> dict[str, Any]:
        given = {name: self.java[name] for name in _COMMON if name in self.java}
        if self.authority:
            given["ssl.ca.location"] = self.authority
        if _INLINE in self.java:
            given["ssl.ca.pem"] = self.java[_INLINE]
        if self._user:
            given |= {"sasl.username": self._user["user"], "sasl.password": self._user["password"]}
        return given

    @property
    def aiokafka(self) -> dict[str, Any]:
        context = ssl.create_default_context(cafile=self.authority) if self.authority else None
        return {**self._python, **({"ssl_context": context} if context else {})}

    @property
    def kafka_python(self) -> dict[str, Any]:
        return {**self._python, **({"ssl_cafile": self.authority} if self.authority else {})}

    @property
    def _python(self) -> dict[str, Any]:
        given = {name.replace(".", "_"): self.java[name] for name in _COMMON if name in self.java}
        if self._user:
            given |= {"sasl_plain_username": self._user["user"], "sasl_plain_password": self._user["password"]}
        return given

    def connect(self) -> RawConnection:
        """A connection to the one address on which requests may be sent; of the mechanisms, PLAIN only."""
        host, _, port = self.bootstrap.rpartition(":")
        connection = RawConnection((host, int(port)))
        if self.authority:
            context = ssl.create_default_context(cafile=self.authority)
            connection.socket = context.wrap_socket(connection.socket, server_hostname=host)
        if self._user:
            assert connection.ask(SaslHandshakeRequest(mechanism=self.java["sasl.mechanism"]), 1).error_code == 0
            plain = f"\0{self._user['user']}\0{self._user['password']}".encode()
            assert connection.ask(SaslAuthenticateRequest(auth_bytes=plain), 2).error_code == 0
        return connection


_INLINE = "ssl.truststore.certificates"
_COMMON = ("bootstrap.servers", "security.protocol", "sasl.mechanism")
"""Settings that have the same names in all clients."""


@dataclass(frozen=True)
class Logins:
    """The users of a load: those that write and read, and administrators, who may do everything."""

    load: Login
    admin: Login

    @classmethod
    def open(cls, bootstrap: str) -> Self:
        """Of a cluster without security."""
        return cls(Login.of(bootstrap), Login.of(bootstrap))

    @classmethod
    def of(cls, cluster: LocalCluster) -> Self:
        """Of a cluster whose directory has the files of a secured one, or none."""
        files = SecureFiles(cluster.directory)
        if not files.exist():
            return cls.open(cluster.bootstrap)
        return cls(*(Login.read(path).at(cluster.bootstrap) for path in (files.client, files.admin)))
