"""Makes signed JSON Web Tokens and the key sets that verify them, for tests."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256


def text(data: bytes) -> str:
    """Base64 as tokens have it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value: int) -> str:
    """An integer as key sets have it."""
    return text(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def rsa_entry(key: rsa.RSAPrivateKey, **more: str) -> dict[str, str]:
    """An entry of a key set; `more` replaces its fields."""
    numbers = key.public_key().public_numbers()
    return {"kty": "RSA", "kid": "r", "use": "sig", "n": number(numbers.n), "e": number(numbers.e), **more}


def ec_entry(key: ec.EllipticCurvePrivateKey, **more: str) -> dict[str, str]:
    """An entry of a key set; `more` replaces its fields."""
    numbers = key.public_key().public_numbers()
    x, y = (text(one.to_bytes(32, "big")) for one in (numbers.x, numbers.y))
    return {"kty": "EC", "kid": "e", "crv": "P-256", "x": x, "y": y, **more}


def key_set(*entries: dict[str, str]) -> bytes:
    return json.dumps({"keys": entries}).encode()


def signed_token(key: Any, claims: Mapping[str, Any], **header: str) -> str:
    """A token with these claims, signed with RS256 or ES256; `header` replaces fields of its header."""
    is_rsa = isinstance(key, rsa.RSAPrivateKey)
    head = {"alg": "RS256", "kid": "r"} if is_rsa else {"alg": "ES256", "kid": "e"}
    data = f"{text(json.dumps(head | header).encode())}.{text(json.dumps(dict(claims)).encode())}"
    if is_rsa:
        signature = key.sign(data.encode(), padding.PKCS1v15(), SHA256())
    else:
        parts = decode_dss_signature(key.sign(data.encode(), ec.ECDSA(SHA256())))
        signature = b"".join(part.to_bytes(32, "big") for part in parts)
    return f"{data}.{text(signature)}"
