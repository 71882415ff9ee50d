"""Names of cipher suites: Java's, as `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`, and those that OpenSSL has for them."""

from __future__ import annotations

import re

__all__ = ["TLS13_SUITES", "openssl_name"]

TLS13_SUITES = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The suites of TLS 1.3 that OpenSSL enables; both use these names."""

_JAVA = re.compile(r"TLS_(?P<exchange>\w+)_WITH_(?P<cipher>\w+)_(?P<hash>SHA\d*)")


def openssl_name(name: str) -> str:
    """OpenSSL's name of a suite of TLS 1.2; a name that is not Java's is returned unchanged."""
    found = _JAVA.fullmatch(name)
    if not found:
        return name
    exchange, cipher, digest = found["exchange"], found["cipher"], found["hash"]
    prefix = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    cipher = re.sub(r"(AES|CAMELLIA)_(\d+)", r"\1\2", cipher)
    if cipher == "CHACHA20_POLY1305":
        return f"{prefix}CHACHA20-POLY1305"
    return f"{prefix}{cipher.replace('_CBC', '').replace('_', '-')}-{digest}"
