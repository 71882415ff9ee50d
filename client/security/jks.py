"""Reads Java's key stores (JKS): a sequence of entries, each a private key with its chain or a trusted certificate.

    u32 magic 0xFEEDFEED, u32 version 1 or 2, u32 number of entries
    entry: u32 kind, utf alias, u64 milliseconds since 1970
        kind 1, private key:  u32 size, EncryptedPrivateKeyInfo, u32 number of certificates, certificates
        kind 2, trusted:      certificate
    certificate: utf "X.509" (version 2 only), u32 size, DER
    SHA-1 of the password in UTF-16, a fixed text, and all of the above

A private key is encrypted with a keystream of SHA-1, as Sun designed it in 1996.
The file is untrusted: all sizes are compared with what is left of it.
Source: `sun.security.provider.JavaKeyStore` and `KeyProtector`.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass

from minikafka.protocol.counted import counted

__all__ = ["DamagedStore", "JavaKeyStore", "PrivateKeyEntry", "WrongPassword", "der_value", "is_jks", "read_jks"]

MAGIC = b"\xfe\xed\xfe\xed"
_DIGEST_SIZE = 20
_WHITENER = b"Mighty Aphrodite"
_PROTECTOR_OID = bytes.fromhex("060a2b060104012a02110101")
"""1.3.6.1.4.1.42.2.17.1.1, the algorithm of protected keys, in DER."""
_PRIVATE_KEY, _TRUSTED = 1, 2


class DamagedStore(ValueError):
    """The bytes are not a whole JKS store."""


class WrongPassword(ValueError):
    """The password does not fit."""


@dataclass(frozen=True, slots=True)
class PrivateKeyEntry:
    """A private key, encrypted, and the certificates of its chain in DER, its own first."""

    protected: bytes
    chain: tuple[bytes, ...]

    def key(self, password: str) -> bytes:
        """The private key as PKCS8 in DER.

        Raises:
            WrongPassword: the password is not that of the key.
            DamagedStore: the key is encrypted in another way.
        """
        secret, data = password.encode("utf-16-be"), _protected_data(self.protected)
        salt, encrypted, digest = data[:_DIGEST_SIZE], data[_DIGEST_SIZE:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
        stream, block = bytearray(), salt
        while len(stream) < len(encrypted):
            block = hashlib.sha1(secret + block).digest()
            stream += block
        plain = bytes(a ^ b for a, b in zip(encrypted, stream, strict=False))
        if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), digest):
            raise WrongPassword
        return plain


@dataclass(frozen=True, slots=True)
class JavaKeyStore:
    """The entries of a store, in the order of the file; certificates in DER."""

    keys: tuple[PrivateKeyEntry, ...]
    trusted: tuple[bytes, ...]


def is_jks(data: bytes) -> bool:
    """Whether a file begins as JKS stores do."""
    return data.startswith(MAGIC)


def read_jks(data: bytes, password: str | None) -> JavaKeyStore:
    """Read a store; without a password its digest is not checked, as in Java.

    Raises:
        DamagedStore: the file ends early, or has unknown contents.
        WrongPassword: the digest does not fit: the password is wrong, or the file was changed.
    """
    body, digest = data[:-_DIGEST_SIZE], data[-_DIGEST_SIZE:]
    reader = _Reader(body)
    if reader.take(4) != MAGIC or (version := reader.u32()) not in (1, 2):
        raise DamagedStore("it has another format")
    keys: list[PrivateKeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(reader.u32()):
        kind = reader.u32()
        reader.utf()
        reader.take(8)
        if kind == _PRIVATE_KEY:
            protected = reader.sized()
            keys.append(PrivateKeyEntry(protected, tuple(reader.certificate(version) for _ in range(reader.u32()))))
        elif kind == _TRUSTED:
            trusted.append(reader.certificate(version))
        else:
            raise DamagedStore(f"it has an entry of unknown kind {kind}")
    if reader.left:
        raise DamagedStore(f"has more after its last entry: {counted(reader.left, 'byte')}")
    if password is not None:
        expected = hashlib.sha1(password.encode("utf-16-be") + _WHITENER + body).digest()
        if not hmac.compare_digest(expected, digest):
            raise WrongPassword
    return JavaKeyStore(tuple(keys), tuple(trusted))


class _Reader:
    """Reads the big-endian values of a file; raises DamagedStore where it ends early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise DamagedStore("it ends early")
        self._at += size
        return self._data[self._at - size : self._at]

    def u32(self) -> int:
        return int(struct.unpack(">I", self.take(4))[0])

    def utf(self) -> bytes:
        return self.take(int(struct.unpack(">H", self.take(2))[0]))

    def sized(self) -> bytes:
        return self.take(self.u32())

    def certificate(self, version: int) -> bytes:
        if version == 2 and (kind := self.utf()) != b"X.509":
            raise DamagedStore(f"it has a certificate of unknown type {kind[:20]!r}")
        return self.sized()


def _protected_data(info: bytes) -> bytes:
    """The encrypted data of an EncryptedPrivateKeyInfo: SEQUENCE { SEQUENCE { OID, NULL }, OCTET STRING }."""
    whole = der_value(info, 0x30)[0]
    algorithm, rest = der_value(whole, 0x30)
    if not algorithm.startswith(_PROTECTOR_OID):
        raise DamagedStore("its private key is encrypted in an unknown way")
    data = der_value(rest, 0x04)[0]
    if len(data) < 2 * _DIGEST_SIZE:
        raise DamagedStore("its private key is too short")
    return data


def der_value(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """The content of the first DER value, which has this tag, and what follows it. Raises DamagedStore."""
    reader = _Reader(data)
    if reader.take(1)[0] != tag:
        raise DamagedStore("its private key is malformed")
    size = reader.take(1)[0]
    if size & 0x80:
        size = int.from_bytes(reader.take(size & 0x7F), "big")
    content = reader.take(size)
    return content, reader.take(reader.left)
