"""The files of a local cluster with TLS, SASL and ACLs: an authority, certificates, passwords and `client.properties`.

    DIR/secure/authority.pem        the certificate of the authority, which clients trust
    DIR/secure/node.pem             the key and the certificate of the nodes
    DIR/secure/client.properties    for clients: the user `alice`, who may use all topics, groups and transactional ids
    DIR/secure/admin.properties     for tools: the user `admin`, who may do everything

All of them have secrets but the first, so only their owner can read them. The key of the authority is not kept: it has
signed what it is for. Certificates that end soon are replaced at a start, together with the authority.

The files name each other, and nodes' files name them, by their paths. A directory that was moved or copied gets the
new paths at its next start.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import secrets
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minikafka.broker.settings.listeners import listener_prefix
from minikafka.cli.clusters.cluster_layout import HOST, ClusterError, properties_text, with_settings
from minikafka.cli.clusters.node_files import read_settings

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    from minikafka.client.blocking import Admin

LISTENER, MECHANISM = "SASL_SSL", "SCRAM-SHA-512"
AUTHORITY, NODE = "minikafka local authority", "minikafka local node"
USERS = ADMIN, CLIENT, BROKER = "admin", "alice", "broker"
INTERNAL_PREFIX = "__"
"""How the topics begin in which the cluster keeps groups and transactions."""
CHANGES_OF_TOPICS = ("create", "write", "delete", "alter", "alter_configs")
"""A client that creates such a topic before the cluster does chooses its settings: offsets that are soon deleted."""
VALID_FOR = datetime.timedelta(days=3650)
RENEWED_BEFORE = datetime.timedelta(days=30)
"""Certificates that are valid for a shorter time are replaced at a start."""
_AUTHORITY_FILE, _NODE_FILE = "authority.pem", "node.pem"
_TRUSTED, _OWN = "ssl.truststore.location", "ssl.keystore.location"
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@dataclass(frozen=True, slots=True)
class SecureFiles:
    """The files of a secured cluster in its directory, which may not exist yet."""

    directory: Path

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self.directory.resolve() / "secure"

    @property
    def client(self) -> Path:
        """The `client.properties` of the user alice."""
        return self.folder / "client.properties"

    @property
    def admin(self) -> Path:
        """The `admin.properties` of the user admin."""
        return self.folder / "admin.properties"

    @property
    def authority(self) -> Path:
        """The certificate that clients trust."""
        return self.folder / _AUTHORITY_FILE

    def exist(self) -> bool:
        """Whether the cluster is a secured one."""
        return self.admin.exists()

    def make(self, *, listeners: Sequence[str] = (LISTENER,), hosts: Sequence[str] = ()) -> dict[str, str]:
        """Write the files of a new cluster, and return the settings of its nodes.

        Args:
            listeners: the names of the listeners for clients and brokers; the first one is that of brokers.
            hosts: the names of the nodes' machines, besides those of this one.

        Raises ClusterError if the directory has a cluster already.
        """
        if any(self.directory.glob("node-*")):
            raise ClusterError(f"{self.directory} has a cluster without security: use a new directory for --secure")
        self.folder.mkdir(parents=True, mode=0o700)
        passwords = {user: secrets.token_urlsafe(18) for user in USERS}
        self._make_certificates(hosts)
        _write(self.admin, properties_text(self._client(_PLAIN, "PLAIN", ADMIN, passwords[ADMIN])))
        _write(self.client, properties_text(self._client(_SCRAM, MECHANISM, CLIENT, passwords[CLIENT])))
        return self._of_nodes(passwords, listeners)

    def _make_certificates(self, hosts: Sequence[str] = ()) -> None:
        authority, node = _certificates(hosts)
        _write(self.authority, authority)
        _write(self.folder / _NODE_FILE, node)

    @property
    def valid_until(self) -> datetime.datetime:
        """When the certificate of the nodes ends; that of the authority ends at the same time."""
        from cryptography import x509

        return x509.load_pem_x509_certificate((self.folder / _NODE_FILE).read_bytes()).not_valid_after_utc

    def renew(self) -> bool:
        """Replace certificates that have ended or end soon; no node may run. Returns whether there are new ones."""
        if self.valid_until - datetime.datetime.now(datetime.UTC) >= RENEWED_BEFORE:
            return False
        self._make_certificates()
        return True

    def settings_of(self, given: Mapping[str, str] | None, example: Mapping[str, str]) -> dict[str, str]:
        """The settings that the file of a node must get: all of security if it is new, or the paths if they are old.

        Args:
            given: the settings in the file of the node; None if it is new.
            example: those of another node of the cluster.
        """
        if not self.exist():
            return {}
        if given is None:
            names = self._of_nodes(dict.fromkeys(USERS, ""))
            given = {name: example[name] for name in names if name in example}
            return {**given, **self._new_paths(given)}
        return self._new_paths(given)

    def _new_paths(self, given: Mapping[str, str]) -> dict[str, str]:
        """Of settings, the present paths of files that were in this directory before it was moved or copied."""
        new = {_TRUSTED: self.authority, _OWN: self.folder / _NODE_FILE}
        return {
            name: str(path)
            for name, path in new.items()
            if (old := Path(given.get(name, ""))).parts[-2:] == path.parts[-2:]
            and old != path
            and (not old.exists() or old.parent == self._named_folder())
        }

    def _named_folder(self) -> Path:
        """The folder that `client.properties` names: another one if the directory was moved or copied."""
        return Path(read_settings(self.client).get(_TRUSTED, "")).parent

    def settle(self) -> bool:
        """Write the present paths into the files of clients. Returns whether they were others."""
        if not self.exist() or self._named_folder() == self.folder:
            return False
        for path in (self.admin, self.client):
            settings = {_TRUSTED: str(self.authority)}
            _write(path, with_settings(path.read_text(), settings))
        return True

    def take_back(self) -> None:
        """Remove the files, after a start that failed; and the directory, if it has nothing else."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            self.directory.rmdir()

    def _client(self, module: str, mechanism: str, user: str, password: str) -> dict[str, str]:
        return {
            "security.protocol": LISTENER,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
            "ssl.truststore.type": "PEM",
            _TRUSTED: str(self.authority),
        }

    def _of_nodes(self, passwords: Mapping[str, str], listeners: Sequence[str] = (LISTENER,)) -> dict[str, str]:
        users = " ".join(f'user_{user}="{passwords[user]}"' for user in (ADMIN, BROKER))
        plain = f'{_PLAIN} required username="{BROKER}" password="{passwords[BROKER]}" {users};'
        modules = {"plain": plain, MECHANISM.lower(): f"{_SCRAM} required;"}
        return {
            "inter.broker.listener.name": listeners[0],
            "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM}",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            **{
                f"{listener_prefix(listener)}{mechanism}.sasl.jaas.config": module
                for listener in listeners
                for mechanism, module in modules.items()
            },
            "ssl.keystore.type": "PEM",
            _OWN: str(self.folder / _NODE_FILE),
            "ssl.truststore.type": "PEM",
            _TRUSTED: str(self.authority),
            "authorizer.class.name": _AUTHORIZER,
            "super.users": f"User:{ADMIN};User:{BROKER};User:CN={NODE}",
            "listener.security.protocol.map": ",".join(["CONTROLLER:SSL", *(f"{one}:SASL_SSL" for one in listeners)]),
            "listener.name.controller.ssl.client.auth": "required",
            "allow.everyone.if.no.acl.found": "false",
        }

    def admin_options(self) -> dict[str, Any]:
        """The options of a client that is the user admin; none for a cluster without security."""
        return _options(self.admin) if self.exist() else {}

    def add_client(self, admin: Admin) -> None:
        """Set the password of the user alice, and allow her all operations on topics, groups and transactional ids.

        She may not create or change the topics of the cluster itself, whose names begin with two underscores.
        Raises KafkaError.
        """
        from minikafka.client import Acl, KafkaError

        password = _options(self.client)["sasl_jaas_config"].split('password="')[1].split('"')[0]
        admin.upsert_user_scram_credential(CLIENT, password, mechanism=MECHANISM)
        principal, kinds = f"User:{CLIENT}", ("topic", "group", "transactional_id")
        acls = [
            Acl("topic", INTERNAL_PREFIX, principal, operation, "deny", pattern="prefixed")
            for operation in CHANGES_OF_TOPICS
        ]
        acls += [Acl(kind, "*", principal, "all") for kind in kinds]
        for error in admin.create_acls(acls).values():
            if isinstance(error, KafkaError):
                raise error


def _options(path: Path) -> dict[str, Any]:
    return {name.replace(".", "_"): text for name, text in read_settings(path).items()}


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read, as a whole or not at all."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    new.replace(path)


def _certificates(hosts: Sequence[str]) -> tuple[str, str]:
    """The certificate of a new authority; and a key with a certificate for nodes of this machine and of others, as PEM
    texts."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _signed(AUTHORITY, authority_key, AUTHORITY, authority_key, None)
    names = x509.SubjectAlternativeName(list(_names(hosts)))
    certificate = _signed(NODE, key, AUTHORITY, authority_key, names)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    signed, trusted = certificate.public_bytes(pem).decode(), authority.public_bytes(pem).decode()
    return trusted, private.decode() + signed + trusted


def _names(hosts: Sequence[str]) -> Iterator[x509.GeneralName]:
    """The names of this machine, and of others."""
    from cryptography import x509

    for name in dict.fromkeys(("localhost", socket.gethostname(), *hosts)):
        yield x509.DNSName(name)
    for address in (HOST, "::1"):
        yield x509.IPAddress(ipaddress.ip_address(address))


def _signed(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    names: x509.SubjectAlternativeName | None,
) -> x509.Certificate:
    """A certificate for a key; without `names` it is that of an authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + VALID_FOR)
        .add_extension(x509.BasicConstraints(ca=names is None, path_length=None), critical=True)
    )
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
