"""Bounds what it costs to derive, from a password, the key by which a private key or a key store is encrypted.

    derivation           OID, SEQUENCE { OCTET STRING salt, INTEGER … }
        PBKDF2, PBES1, PKCS12    iterations
        scrypt                   N, r, p: N * r * p steps, 128 * N * r bytes
    PKCS12               SEQUENCE { INTEGER 3, contents, SEQUENCE { digest, OCTET STRING salt, INTEGER iterations } }

The numbers are whatever the file says. The library holds Python's lock while it derives a key, so that a node would
stand still, and with 2^31 iterations it raises an exception that is no `Exception`.
Source: RFC 8018, RFC 7292, RFC 7914; Java's `PKCS12KeyStore` has a bound as well.
"""

from __future__ import annotations

import re
from contextlib import suppress
from math import prod

from minikafka.client.security.jks import DamagedStore, der_value
from minikafka.protocol.counted import counted

__all__ = ["ITERATIONS_MAX", "STEPS_MAX", "CostlyDerivation", "check_key", "check_store"]

ITERATIONS_MAX = 2_000_000
"""The most iterations of a file together: about half a second. keytool uses 10,000, OpenSSL 2,048."""
STEPS_MAX = 1 << 20
"""The most steps of scrypt, which need 128 MiB; OpenSSL uses 131,072."""
_PKCS = rb"\x2a\x86\x48\x86\xf7\x0d\x01"
_ITERATED = re.compile(rb"%b(?:\x05[\x01\x03\x04\x06\x0a\x0b\x0c]|\x0c\x01[\x01-\x06])" % _PKCS, re.DOTALL)
"""PBES1, PBKDF2 (pkcs-5), and the derivations of PKCS12."""
_SCRYPT = re.compile(rb"\x2b\x06\x01\x04\x01\xda\x47\x04\x0b")
_SEQUENCE, _OCTETS, _INTEGER = 0x30, 0x04, 0x02


class CostlyDerivation(ValueError):
    """A key takes too long to derive, or too much memory."""


def check_key(info: bytes) -> None:
    """Check an EncryptedPrivateKeyInfo.

    Raises:
        CostlyDerivation: its key costs too much.
        DamagedStore: it is malformed.
    """
    _check(info, [])


def check_store(store: bytes) -> None:
    """Check the derivations of a PKCS12 store that are not encrypted themselves. Raises as `check_key`."""
    mac: list[int] = []
    with suppress(DamagedStore):  # Without a MAC, or no store: who reads it says so.
        mac = _numbers_of_mac(store)
    _check(store, mac[:1])


def _check(data: bytes, iterations: list[int]) -> None:
    iterations += [number for found in _ITERATED.finditer(data) for number in _parameters(data[found.end() :])[:1]]
    if sum(map(abs, iterations)) > ITERATIONS_MAX:
        asked = counted(sum(map(abs, iterations)), "iteration")
        raise CostlyDerivation(f"it is encrypted with {asked}; allowed: at most {ITERATIONS_MAX:,}")
    for found in _SCRYPT.finditer(data):
        steps = prod(map(abs, _parameters(data[found.end() :])[:3]))
        if steps > STEPS_MAX:
            raise CostlyDerivation(f"it is encrypted with {steps:,} steps of scrypt; allowed: at most {STEPS_MAX:,}")


def _parameters(data: bytes) -> list[int]:
    """The numbers of a derivation whose parameters `data` begins with."""
    return _numbers(der_value(data, _SEQUENCE)[0])


def _numbers_of_mac(store: bytes) -> list[int]:
    _, rest = der_value(der_value(store, _SEQUENCE)[0], _INTEGER)
    _, rest = der_value(rest, _SEQUENCE)
    _, rest = der_value(der_value(rest, _SEQUENCE)[0], _SEQUENCE)
    return _numbers(rest)


def _numbers(data: bytes) -> list[int]:
    """The numbers that follow a salt."""
    _, rest = der_value(data, _OCTETS)
    numbers: list[int] = []
    while rest[:1] == bytes([_INTEGER]):
        content, rest = der_value(rest, _INTEGER)
        numbers.append(int.from_bytes(content, "big", signed=True))
    return numbers
