"""Makes certificates, key stores and trust stores for tests: an `Authority` signs, `Issued` writes files."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

PASSWORD = "store-secret"
_PEM = serialization.Encoding.PEM
_START, _END = datetime.datetime(2020, 1, 1), datetime.datetime(2120, 1, 1)
_ATTRIBUTES = {"CN": NameOID.COMMON_NAME, "O": NameOID.ORGANIZATION_NAME, "OU": NameOID.ORGANIZATIONAL_UNIT_NAME}


@dataclass(frozen=True)
class Issued:
    """A private key with its certificate and the certificate of the authority that signed it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    authority: x509.Certificate

    @property
    def chain_pem(self) -> str:
        return (self.certificate.public_bytes(_PEM) + self.authority.public_bytes(_PEM)).decode()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def authority_pem(self) -> str:
        return self.authority.public_bytes(_PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption).decode()

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        """Write the key and the chain, as `ssl.keystore.location` of type PEM has them."""
        path.write_text(self.key_pem(password) + self.chain_pem)
        return path

    def write_pkcs12(self, path: Path, password: str = PASSWORD) -> Path:
        """Write a key store of type PKCS12."""
        encryption = serialization.BestAvailableEncryption(password.encode())
        others = [self.authority]
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"own", self.key, self.certificate, others, encryption))
        return path

    def write_authority_pem(self, path: Path) -> Path:
        """Write the certificate of the authority, as `ssl.truststore.location` of type PEM has it."""
        path.write_text(self.authority_pem)
        return path


class Authority:
    """A certificate authority."""

    def __init__(self, name: str = "CN=test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _distinguished_name(name)
        public_key = self._key.public_key()
        self.certificate = _signed(self._name, public_key, self._name, self._key, hosts=(), is_authority=True)

    def issue(
        self,
        name: str,
        *,
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
        end: datetime.datetime = _END,
    ) -> Issued:
        """A new key with a certificate; `name` is as `CN=carol,OU=hr,O=acme`, `hosts` its alternative names."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _distinguished_name(name)
        certificate = _signed(subject, key.public_key(), self._name, self._key, hosts=hosts, end=end)
        return Issued(key, certificate, self.certificate)


def _distinguished_name(text: str) -> x509.Name:
    """The name of a text in RFC 2253 order, whose most specific part is first; in certificates it is last."""
    parts = [part.partition("=") for part in reversed(text.split(","))]
    return x509.Name([x509.NameAttribute(_ATTRIBUTES[kind], value) for kind, _, value in parts])


def _signed(
    subject: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    hosts: tuple[str, ...],
    is_authority: bool = False,
    end: datetime.datetime = _END,
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder(issuer, subject, public_key, x509.random_serial_number(), _START, end)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    if hosts:
        names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
