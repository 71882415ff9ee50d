"""Reads JSON Web Key Sets (RFC 7517): the public keys that verify tokens. RS256 and ES256 are verified."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

__all__ = ["InvalidKeys", "Key", "KeySet", "check_size", "decoded", "read_keys"]

KEYS_MAX, KEY_BITS_MIN, KEY_BITS_MAX = 100, 2048, 8192
SIZE_BYTES_MAX = 1 << 19
_ES256_PART_BYTES = 32
PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


class InvalidKeys(ValueError):
    """A key set, or a key of it, cannot be used. The text says why."""


@dataclass(frozen=True, slots=True)
class Key:
    """A public key of a key set.

    Attributes:
        id: Its name, by which tokens choose it; "" without.
        algorithm: What it verifies: RS256 or ES256.
    """

    id: str
    algorithm: str
    public: PublicKey = field(repr=False)

    def verifies(self, data: bytes, signature: bytes) -> bool:
        """Whether the signature of `data` is of the private key."""
        try:
            if isinstance(self.public, rsa.RSAPublicKey):
                self.public.verify(signature, data, padding.PKCS1v15(), SHA256())
            elif len(signature) != 2 * _ES256_PART_BYTES:
                return False
            else:
                parts = signature[:_ES256_PART_BYTES], signature[_ES256_PART_BYTES:]
                encoded = encode_dss_signature(*(int.from_bytes(part, "big") for part in parts))
                self.public.verify(encoded, data, ec.ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class KeySet:
    """The keys of a key set that may verify tokens.

    Attributes:
        left_out: Why entries were left out that should be such keys, with their positions.
    """

    keys: tuple[Key, ...]
    left_out: tuple[str, ...]


def check_size(size_bytes: int) -> None:
    """Raise InvalidKeys if a key set is too large to be one."""
    if size_bytes > SIZE_BYTES_MAX:
        raise InvalidKeys(f"has more than {SIZE_BYTES_MAX} bytes")


def read_keys(text: bytes) -> KeySet:
    """Read a key set. Keys for other purposes and algorithms are left out, and so are damaged ones (RFC 7517, 5).

    Raises:
        InvalidKeys: It is not a list of at most `KEYS_MAX` objects.
    """
    check_size(len(text))
    try:
        entries: Any = json.loads(text)["keys"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidKeys(f"is no key set in JSON ({type(error).__name__})") from None
    if not isinstance(entries, list) or len(cast(list[object], entries)) > KEYS_MAX:
        raise InvalidKeys(f"has no list of keys, or more than {KEYS_MAX}")
    keys: list[Key] = []
    left_out: list[str] = []
    for position, entry in enumerate(cast(list[object], entries), 1):
        if not isinstance(entry, dict):
            raise InvalidKeys(f"has an entry {position} that is not a JSON object")
        try:
            key = _key(cast(dict[str, Any], entry))
        except InvalidKeys as error:
            left_out.append(f"entry {position} {error}")
        except (ValueError, TypeError, KeyError) as error:
            left_out.append(f"entry {position} is malformed ({type(error).__name__})")
        else:
            keys += [] if key is None else [key]
    return KeySet(tuple(keys), tuple(left_out))


def _key(entry: Mapping[str, Any]) -> Key | None:
    if entry.get("use", "sig") != "sig":
        return None
    name = str(entry.get("kid", ""))
    if entry["kty"] == "RSA" and entry.get("alg", "RS256") == "RS256":
        public = rsa.RSAPublicNumbers(_integer(entry["e"]), _integer(entry["n"])).public_key()
        if not KEY_BITS_MIN <= public.key_size <= KEY_BITS_MAX:
            raise InvalidKeys(f"has a key of {public.key_size} bits; allowed: {KEY_BITS_MIN} to {KEY_BITS_MAX}")
        return Key(name, "RS256", public)
    if entry["kty"] == "EC" and entry.get("crv") == "P-256" and entry.get("alg", "ES256") == "ES256":
        numbers = ec.EllipticCurvePublicNumbers(_integer(entry["x"]), _integer(entry["y"]), ec.SECP256R1())
        return Key(name, "ES256", numbers.public_key())
    return None


def decoded(text: str) -> bytes:
    """The bytes of a text in base64, as keys and signatures have it. Raises ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _integer(text: str) -> int:
    return int.from_bytes(decoded(text), "big")
