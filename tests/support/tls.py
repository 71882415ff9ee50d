"""TLS for tests: settings and contexts of a server `CN=server` and its clients; one authority signs for all."""

from __future__ import annotations

import ssl
from functools import cache
from pathlib import Path

from minikafka.broker.security.certificate_principals import distinguished_name
from minikafka.client.security.tls_contexts import client_context, server_context
from minikafka.client.security.tls_settings import TlsSettings
from minikafka.controller.security.access import ANONYMOUS, Principal
from support.certificates import Authority, Issued

AUTHORITY = Authority()


def own(issued: Issued) -> dict[str, str]:
    """The settings of a key store with this certificate, inline."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": issued.key_pem(),
        "ssl.keystore.certificate.chain": issued.chain_pem,
    }


def trusting(issued: Issued) -> dict[str, str]:
    """The settings of a trust store with the authority of this certificate, inline."""
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": issued.authority_pem}


@cache
def certificate_of(name: str) -> Issued:
    return AUTHORITY.issue(name)


SERVER = certificate_of("CN=server")


def client_of(name: str | None = None) -> ssl.SSLContext:
    """The context of a client with a certificate of this name, or without one."""
    settings = trusting(SERVER) if name is None else trusting(SERVER) | own(certificate_of(name))
    return client_context(TlsSettings.from_names(settings))


class TestTls:
    """The TLS of a listener."""

    __test__ = False
    speaks = "security.protocol=SSL"

    def __init__(self, **settings: str) -> None:
        names = {name.replace("_", "."): value for name, value in settings.items()}
        given = {"ssl.client.auth": "requested", **own(SERVER), **trusting(SERVER), **names}
        self.context = server_context(TlsSettings.from_names(given))

    def principal_of(self, certificate: bytes | None) -> Principal:
        return ANONYMOUS if certificate is None else Principal("User", distinguished_name(certificate))


def write_stores(folder: Path, name: str = "CN=server") -> dict[str, str]:
    """Write the stores of `name` into a folder; returns the settings that name them."""
    return {
        "ssl.keystore.location": str(certificate_of(name).write_pkcs12(folder / f"{name}.p12")),
        "ssl.keystore.password": "store-secret",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(SERVER.write_authority_pem(folder / "authority.pem")),
    }
