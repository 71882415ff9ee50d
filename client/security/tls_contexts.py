"""Makes the contexts of Python's `ssl` for servers and clients from Kafka's settings.

A certificate in a trust store is trusted as it is, also one that is not self-signed, as in Java.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from minikafka.client.security.cipher_suites import TLS13_SUITES, openssl_name
from minikafka.client.security.key_stores import Identity, read_identity, read_trusted
from minikafka.client.security.tls_settings import InvalidTlsSetting, TlsSettings

__all__ = ["client_context", "identity_of_server", "server_context", "why_no_handshake"]

_ROUNDS_MAX = 10
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
T = TypeVar("T")
_DER, _PEM = serialization.Encoding.DER, serialization.Encoding.PEM


def server_context(settings: TlsSettings, identity: Identity | None = None) -> ssl.SSLContext:
    """The context of a listener. Reads files, which may block for a moment.

    Args:
        identity: The contents of the key store, if they have been read already.

    Raises:
        InvalidTlsSetting: a setting does not work, or there is no private key.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _restrict(context, settings)
    _identify(context, identity or identity_of_server(settings))
    mode = _allowed(settings.client_auth, _CLIENT_AUTH, "ssl.client.auth")
    _trust(context, settings)
    context.verify_mode = mode
    return context


def identity_of_server(settings: TlsSettings) -> Identity:
    """The key and certificates of a listener.

    Raises:
        InvalidTlsSetting: The key store cannot be used, or the settings name none.
    """
    identity = read_identity(settings.key_store)
    if identity is None:
        raise InvalidTlsSetting("ssl.keystore.location", "is missing: a listener with TLS needs a key store")
    return identity


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context of a client, which trusts the certificates of the system if there is no trust store.

    Reads files, which may block for a moment.

    Raises:
        InvalidTlsSetting: a setting does not work.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _restrict(context, settings)
    identity = read_identity(settings.key_store)
    if identity is not None:
        _identify(context, identity)
    algorithm = settings.endpoint_identification_algorithm.lower()
    setting = "ssl.endpoint.identification.algorithm"
    context.check_hostname = _allowed(algorithm, {"https": True, "": False}, setting)
    _trust(context, settings)
    return context


def why_no_handshake(client: ssl.SSLContext, server: ssl.SSLContext) -> str:
    """Why a client with one context cannot connect to a server with the other; "" if it can. Names are not compared."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    unfinished = [*ends]
    try:
        for _ in range(_ROUNDS_MAX):
            for end in ends:
                if end in unfinished:
                    try:
                        end.do_handshake()
                        unfinished.remove(end)
                    except ssl.SSLWantReadError:
                        pass
    except ssl.SSLCertVerificationError as error:
        return f"the certificate is refused: {error.verify_message}"
    except ssl.SSLError as error:
        return (error.reason or str(error)).lower().replace("_", " ")
    return "the handshake does not end" if unfinished else ""


def _allowed(value: str, values: dict[str, T], setting: str) -> T:
    if value not in values:
        names = ", ".join(name or "the empty text" for name in values)
        raise InvalidTlsSetting(setting, f"{value} is not supported (allowed: {names})")
    return values[value]


def _restrict(context: ssl.SSLContext, settings: TlsSettings) -> None:
    """Enable the protocols and suites of the settings, and no renegotiation."""
    name = "ssl.enabled.protocols"
    versions = [_allowed(version, _VERSIONS, name) for version in settings.enabled_protocols]
    if not versions:
        raise InvalidTlsSetting(name, f"must not be empty (allowed: {', '.join(_VERSIONS)})")
    newer = [name for name in settings.cipher_suites if name in TLS13_SUITES]
    older = [name for name in settings.cipher_suites if name not in TLS13_SUITES]
    if settings.cipher_suites:
        versions = _versions_with_suites(versions, newer, older)
        if older:
            _enable(context, older)
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _versions_with_suites(
    versions: Sequence[ssl.TLSVersion], newer: Sequence[str], older: Sequence[str]
) -> list[ssl.TLSVersion]:
    """The versions for which suites are named, as in Java."""
    name = "ssl.cipher.suites"
    left = [version for version in versions if (newer if version is ssl.TLSVersion.TLSv1_3 else older)]
    if not left:
        raise InvalidTlsSetting(name, "names no suite of a version in ssl.enabled.protocols")
    if ssl.TLSVersion.TLSv1_3 in left and set(newer) != set(TLS13_SUITES):
        reason = f"of the suites of TLS 1.3, either all or none can be enabled: {', '.join(TLS13_SUITES)}"
        raise InvalidTlsSetting(name, reason)
    return left


def _enable(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    """Enable these suites of TLS 1.2. Each is tried by itself: OpenSSL ignores unknown names beside known ones."""
    names = [openssl_name(suite) for suite in suites]
    for suite, name in zip(suites, names, strict=True):
        try:
            context.set_ciphers(name)
            is_known = any(cipher["name"] == name for cipher in context.get_ciphers())
        except ssl.SSLError:
            is_known = False
        if not is_known:
            raise InvalidTlsSetting("ssl.cipher.suites", f"{suite} is not a cipher suite that OpenSSL has")
    context.set_ciphers(":".join(names))


def _trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    trusted = read_trusted(settings.trust_store)
    if trusted is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=b"".join(_distinct(trusted)))
    except ssl.SSLError as error:
        of = "location" if settings.trust_store.certificates is None else "certificates"
        reason = f"OpenSSL refuses a certificate: {error.reason or error}"
        raise InvalidTlsSetting(f"ssl.truststore.{of}", reason) from None


def _distinct(certificates: Sequence[x509.Certificate]) -> dict[bytes, None]:
    return dict.fromkeys(certificate.public_bytes(_DER) for certificate in certificates)


def _identify(context: ssl.SSLContext, identity: Identity) -> None:
    """Give the context the key and certificates of the key store."""
    password = secrets.token_bytes(24).hex()
    with _as_file(_encrypted_pem(identity, password.encode())) as path:
        try:
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as error:
            reason = f"OpenSSL refuses the certificate or its key: {error.reason or error}"
            raise InvalidTlsSetting("ssl.keystore.location", reason) from None


def _encrypted_pem(identity: Identity, password: bytes) -> bytes:
    encryption = serialization.BestAvailableEncryption(password)
    key = identity.key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption)
    return key + b"".join(certificate.public_bytes(_PEM) for certificate in identity.chain)


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """The path of a file with this content while the block runs: Python's `ssl` reads keys from files only.

    On Linux the file is in memory, so that a read-only file system does not matter.
    """
    in_memory: Callable[[str], int] | None = getattr(os, "memfd_create", None)
    if in_memory is not None and Path("/proc/self/fd").is_dir():
        with os.fdopen(in_memory("tls"), "wb") as file:
            file.write(data)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "identity.pem"
        path.write_bytes(data)
        yield str(path)
