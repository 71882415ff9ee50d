"""Reads key stores and trust stores in the formats PEM, PKCS12 and JKS, with Kafka's rules for their settings.

As in Java, the types JKS and PKCS12 read files of both formats: keytool makes PKCS12 under any name of a file.
Source: `DefaultSslEngineFactory`, `sun.security.validator.TrustStoreUtil`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12

from minikafka.client.security import jks, pem
from minikafka.client.security.key_derivations import check_key, check_store
from minikafka.client.security.named_files import UnreadableFile, read_named_file
from minikafka.client.security.tls_settings import InvalidTlsSetting, KeyStore, TrustStore

__all__ = ["Identity", "read_identity", "read_trusted"]

STORE_SIZE_BYTES_MAX = 16 << 20
"""Larger files are refused before they are read; the trust store of an operating system takes 200 KiB."""
TYPES = ("JKS", "PKCS12", "PEM")
_PUBLIC_FORM = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key and the certificates that are sent with it, its own first."""

    key: PrivateKeyTypes = field(repr=False)
    chain: tuple[x509.Certificate, ...]


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a file of type JKS or PKCS12 has: the first key, or None, and the certificates that it makes trusted."""

    identity: Identity | None
    trusted: tuple[x509.Certificate, ...]


def read_identity(store: KeyStore) -> Identity | None:
    """The key and the certificates of a key store; None if the settings name none.

    Raises:
        InvalidTlsSetting: the settings contradict each other, or the store cannot be used.
    """
    problem = _problem_of_key_store(store)
    if problem is not None:
        raise InvalidTlsSetting(*problem)
    if store.key is not None:
        assert store.certificate_chain is not None
        key = _pem_key(store.key, store.key_password, "ssl.keystore.key")
        chain = _pem_certificates(store.certificate_chain, "ssl.keystore.certificate.chain", "it has no certificate")
        return _matched(key, chain, "ssl.keystore.certificate.chain")
    if store.location is None:
        return None
    name = "ssl.keystore.location"
    if _type(store.type, "ssl.keystore.type") == "PEM":
        text = _pem_text(store.location, name)
        key = _pem_key(text, store.key_password, name)
        return _matched(key, _pem_certificates(text, name, f"{store.location} has no certificate"), name)
    key_password = store.password if store.key_password is None else store.key_password
    contents = _contents(store.location, store.password, key_password, "ssl.keystore")
    if contents.identity is None:
        raise InvalidTlsSetting(name, f"{store.location} has no private key")
    return _matched(contents.identity.key, contents.identity.chain, name)


def read_trusted(store: TrustStore) -> tuple[x509.Certificate, ...] | None:
    """The trusted certificates of a trust store; None if the settings name none.

    Raises:
        InvalidTlsSetting: the settings contradict each other, or the store cannot be used.
    """
    problem = _problem_of_trust_store(store)
    if problem is not None:
        raise InvalidTlsSetting(*problem)
    if store.certificates is not None:
        return _pem_certificates(store.certificates, "ssl.truststore.certificates", "it has no certificate")
    if store.location is None:
        return None
    name, lacking = "ssl.truststore.location", f"{store.location} has no trusted certificate"
    if _type(store.type, "ssl.truststore.type") == "PEM":
        return _pem_certificates(_pem_text(store.location, name), name, lacking)
    trusted = _contents(store.location, store.password, None, "ssl.truststore").trusted
    if not trusted:
        raise InvalidTlsSetting(name, lacking)
    return trusted


# -- rules between settings -----------------------------------------------------------------------------------------


def _problem_of_key_store(store: KeyStore) -> tuple[str, str] | None:
    """Kafka's rules, in its order: the setting to change, and what is wrong."""
    is_pem = _type(store.type, "ssl.keystore.type") == "PEM"
    if store.key is not None:
        if not is_pem:
            return "ssl.keystore.key", f"is only for ssl.keystore.type=PEM, which is {store.type}"
        if store.certificate_chain is None:
            return "ssl.keystore.certificate.chain", "is missing: ssl.keystore.key needs it"
        if store.location is not None:
            return "ssl.keystore.location", "must not be set beside ssl.keystore.key"
    elif store.certificate_chain is not None:
        return "ssl.keystore.key", "is missing: ssl.keystore.certificate.chain needs it"
    if is_pem and (store.key is not None or store.location is not None):
        if store.password is not None:
            return "ssl.keystore.password", "must not be set for PEM; the password of the key is ssl.key.password"
    elif store.location is None and store.password is not None:
        return "ssl.keystore.location", "is missing: ssl.keystore.password is set"
    elif store.location is not None and store.password is None:
        return "ssl.keystore.password", f"is missing: {store.location} needs it"
    return None


def _problem_of_trust_store(store: TrustStore) -> tuple[str, str] | None:
    """Kafka's rules, in its order: the setting to change, and what is wrong."""
    is_pem = _type(store.type, "ssl.truststore.type") == "PEM"
    if store.certificates is not None:
        if not is_pem:
            return "ssl.truststore.certificates", f"is only for ssl.truststore.type=PEM, which is {store.type}"
        if store.location is not None:
            return "ssl.truststore.location", "must not be set beside ssl.truststore.certificates"
    if is_pem and (store.certificates is not None or store.location is not None):
        if store.password is not None:
            return "ssl.truststore.password", "must not be set for PEM"
    elif store.location is None and store.password is not None:
        return "ssl.truststore.location", "is missing: ssl.truststore.password is set"
    return None


def _type(given: str, setting: str) -> str:
    if given.upper() not in TYPES:
        raise InvalidTlsSetting(setting, f"{given} is not supported (allowed: {', '.join(TYPES)})")
    return given.upper()


# -- files ----------------------------------------------------------------------------------------------------------


def _read(location: str, setting: str) -> bytes:
    """The content of a file. Raises InvalidTlsSetting, which says why it cannot be read."""
    try:
        data = read_named_file(location, STORE_SIZE_BYTES_MAX)
    except UnreadableFile as error:
        raise InvalidTlsSetting(setting, f"{location} {error}") from None
    if not data:
        raise InvalidTlsSetting(setting, f"{location} is empty")
    return data


def _pem_text(location: str, setting: str) -> str:
    return _read(location, setting).decode("utf-8", "replace")


def _pem_key(text: str, password: str | None, setting: str) -> PrivateKeyTypes:
    block = pem.private_key_block(text)
    if not block:
        raise InvalidTlsSetting(setting, "has no private key in PEM format (a block PRIVATE KEY)")
    is_encrypted = b"ENCRYPTED" in block
    if is_encrypted and password is None:
        raise InvalidTlsSetting("ssl.key.password", f"is missing: the private key of {setting} is encrypted")
    if not is_encrypted and password is not None:
        raise InvalidTlsSetting("ssl.key.password", f"must not be set: the private key of {setting} is not encrypted")
    if block.startswith(b"-----BEGIN ENCRYPTED"):  # the old format, with headers, derives keys at once
        _check_derivation(block, setting)
    try:
        return serialization.load_pem_private_key(block, None if password is None else password.encode())
    except Exception as error:  # noqa: BLE001 (the library has several, and they may quote the input)
        if is_encrypted:
            raise InvalidTlsSetting("ssl.key.password", "is wrong, or the private key is damaged") from None
        raise InvalidTlsSetting(setting, f"its private key cannot be used ({type(error).__name__})") from None


def _check_derivation(block: bytes, setting: str) -> None:
    try:
        check_key(pem.content_of(block))
    except ValueError as error:
        raise InvalidTlsSetting(setting, f"its private key cannot be used: {error}") from None


@contextmanager
def _of_library(setting: str, problem: str) -> Iterator[None]:
    """Let what the library raises in the block be an InvalidTlsSetting."""
    try:
        yield
    except InvalidTlsSetting:
        raise
    except Exception as error:  # noqa: BLE001 (ValueError, TypeError, UnsupportedAlgorithm, InvalidVersion …)
        raise InvalidTlsSetting(setting, f"{problem}: {error}") from None


def _pem_certificates(text: str, setting: str, lacking: str) -> tuple[x509.Certificate, ...]:
    blocks = pem.certificate_blocks(text)
    if not blocks:
        raise InvalidTlsSetting(setting, f"{lacking} in PEM format (a block CERTIFICATE)")
    with _of_library(setting, "has a malformed certificate"):
        return tuple(x509.load_pem_x509_certificates(blocks))


def _matched(key: PrivateKeyTypes, chain: Sequence[x509.Certificate], setting: str) -> Identity:
    """The key with its certificates. Raises InvalidTlsSetting if the first certificate is of another key."""
    with _of_library(setting, "the first certificate cannot be used"):
        if key.public_key().public_bytes(*_PUBLIC_FORM) != chain[0].public_key().public_bytes(*_PUBLIC_FORM):
            subject = chain[0].subject.rfc4514_string()
            raise InvalidTlsSetting(setting, f"the first certificate ({subject}) does not belong to the private key")
    return Identity(key, tuple(chain))


def _contents(location: str, password: str | None, key_password: str | None, prefix: str) -> _Contents:
    """The contents of a file of type JKS or PKCS12, whichever it is; without `key_password` no private key is read."""
    data = _read(location, f"{prefix}.location")
    if data.lstrip().startswith(b"-----BEGIN"):
        raise InvalidTlsSetting(f"{prefix}.type", f"{location} is in PEM format: set {prefix}.type=PEM")
    with _of_library(f"{prefix}.location", f"{location} is no usable key store"):
        try:
            if jks.is_jks(data):
                return _jks_contents(data, password, key_password)
            return _pkcs12_contents(data, password, key_password)
        except jks.WrongPassword:
            wrong = f"is wrong for {location}, or the file was changed"
            raise InvalidTlsSetting(f"{prefix}.password", wrong) from None


def _jks_contents(data: bytes, password: str | None, key_password: str | None) -> _Contents:
    store = jks.read_jks(data, password)
    trusted = [x509.load_der_x509_certificate(der) for der in store.trusted]
    identity = None
    for entry in store.keys:
        chain = tuple(x509.load_der_x509_certificate(der) for der in entry.chain)
        trusted += chain[:1]
        if identity is None and key_password is not None and chain:
            try:
                key = entry.key(key_password)
            except jks.WrongPassword:
                raise InvalidTlsSetting("ssl.key.password", "is wrong for the private key of the key store") from None
            identity = Identity(serialization.load_der_private_key(key, None), chain)
    return _Contents(identity, tuple(trusted))


def _pkcs12_contents(data: bytes, password: str | None, key_password: str | None) -> _Contents:
    if key_password is not None and key_password != password:
        reason = "must equal ssl.keystore.password: a PKCS12 store has one password"
        raise InvalidTlsSetting("ssl.key.password", reason)
    check_store(data)
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        if "password" in str(error).lower():
            raise jks.WrongPassword from None
        raise ValueError("it is neither PKCS12 nor JKS, or damaged") from None
    others = [one.certificate for one in store.additional_certs]
    if store.key is None or store.cert is None:
        own = () if store.cert is None else (store.cert.certificate,)
        return _Contents(None, (*own, *others))
    chain = _chain(store.cert.certificate, others)
    for sent in chain[1:]:
        others.remove(sent)  # once: who also trusts it has it twice
    return _Contents(Identity(store.key, chain), (chain[0], *others))


def _chain(own: x509.Certificate, others: Sequence[x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """The certificate, its issuer, the issuer's issuer and so on, as far as the store has them."""
    chain = [own]
    while True:
        issuer = next((one for one in others if one.subject == chain[-1].issuer and one not in chain), None)
        if issuer is None:
            return tuple(chain)
        chain.append(issuer)
