"""SCRAM (RFC 5802): the messages of both sides, the keys of a password, and what each side verifies.

    client                                              server
    `ScramClient.first`   n,,n=alice,r=NONCE ────────►  `parse_client_first`: whose keys?
    `derive_keys` (slow)  ◄──── r=NONCE+…,s=SALT,i=4096  `ScramServer.challenge`
    `final`               c=biws,r=…,p=PROOF ────────►  `ScramServer.verify`
    `verify`              ◄───────────── v=SIGNATURE

A client of a delegation token sends the token's id as its name, and the extension `tokenauth=true` (KIP-48).
Source: Kafka's `ScramMessages`, `ScramFormatter`, `ScramSaslServer` and `ScramSaslClient`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from minikafka.protocol.errors import SaslAuthenticationFailedError
from minikafka.protocol.sasl.message_sizes import MESSAGE_BYTES_MAX, check_size
from minikafka.protocol.sasl.sasl_errors import SaslError

__all__ = [
    "ITERATIONS_KEPT_MAX",
    "ITERATIONS_MIN",
    "ClientFirst",
    "ScramClient",
    "ScramKeys",
    "ScramMechanism",
    "ScramServer",
    "derive_keys",
    "parse_client_first",
    "salted_password",
    "stored_keys",
]

ITERATIONS_MIN = 4096
"""Fewer are refused by clients: such keys are too easy to guess."""
ITERATIONS_MAX = 1_000_000
"""More are refused by clients: a hostile server must not keep them busy. A second at most; Kafka's servers ask for up
to 16,384."""

ITERATIONS_KEPT_MAX = 16_384
"""The most that a server keeps, as Kafka's."""


class ScramMechanism(Enum):
    """A hash function that SCRAM is used with; the value is the mechanism's code in Kafka's requests."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def mechanism(self) -> str:
        """The name of the SASL mechanism, as `SCRAM-SHA-256`."""
        return f"SCRAM-SHA-{self.name[4:]}"

    @property
    def hash_name(self) -> str:
        """The name of the hash function for `hashlib`."""
        return f"sha{self.name[4:]}"

    @classmethod
    def of_mechanism(cls, mechanism: str) -> ScramMechanism | None:
        """The member for the name of a SASL mechanism; None if it is another mechanism."""
        return next((member for member in cls if member.mechanism == mechanism), None)


@dataclass(frozen=True, slots=True)
class ScramKeys:
    """The keys of a password that a server stores. The password cannot be recovered from them.

    Attributes:
        iterations: The rounds of the derivation from the password.
    """

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Derive the secret that a client proves from its password. Takes milliseconds, so call it in a thread."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def stored_keys(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramKeys:
    """Compute what a server keeps from the result of `salted_password`."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted, b"Client Key", name)
    server_key = hmac.digest(salted, b"Server Key", name)
    return ScramKeys(salt, hashlib.new(name, client_key).digest(), server_key, iterations)


def derive_keys(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> ScramKeys:
    """Compute what a server keeps from a password. Takes milliseconds, so call it in a thread."""
    return stored_keys(mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations)


# -- messages ----------------------------------------------------------------------------------------------------

_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_SASLNAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?P<extensions>(?:,[A-Za-z]+={_VALUE})*)"
_RESERVED = rf"(?:m={_VALUE},)?"

_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<authorization>{_SASLNAME}))?,{_RESERVED}(?P<bare>n=(?P<name>{_SASLNAME}),r=(?P<nonce>{_NONCE})"
    rf"{_EXTENSIONS})"
)
_SERVER_FIRST = re.compile(
    rf"{_RESERVED}r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<without_proof>c={_BASE64},r=(?P<nonce>{_NONCE})){_EXTENSIONS},p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}")
_NO_CHANNEL_BINDING = b"biws"
"""Base64 of "n,,"."""


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """A client's first message.

    Attributes:
        username: The user, or the id of a delegation token.
        authorization_id: As whom the client wants to act; "" as itself.
        nonce: The client's random text.
        extensions: By name; `tokenauth` says that the client has a delegation token.
        bare: The message without its header and a mandatory extension `m=`, for the signatures; as in Kafka.
    """

    username: str
    authorization_id: str
    nonce: str
    extensions: Mapping[str, str]
    bare: bytes

    @property
    def by_token(self) -> bool:
        """Whether the name is the id of a delegation token."""
        return self.extensions.get("tokenauth", "").lower() == "true"

    def check_authorization(self) -> None:
        """Check that the client wants to act as itself.

        Raises:
            SaslAuthenticationFailedError: It names somebody else.
        """
        if self.authorization_id not in ("", self.username):
            raise SaslAuthenticationFailedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )


def parse_client_first(message: bytes) -> ClientFirst:
    """Read a client's first message.

    Raises:
        SaslError: It is malformed or too large, or asks for channel binding.
    """
    found = _matched(_CLIENT_FIRST, message, "client first")
    return ClientFirst(
        _from_saslname(found["name"]),
        _from_saslname(found["authorization"] or ""),
        found["nonce"],
        dict(pair.split("=", 1) for pair in found["extensions"].split(",")[1:]),
        found["bare"].encode(),
    )


def _matched(pattern: re.Pattern[str], message: bytes, name: str) -> re.Match[str]:
    check_size(f"the SCRAM {name} message", len(message), MESSAGE_BYTES_MAX)
    found = pattern.fullmatch(message.decode("latin-1"))
    if found is None:
        raise SaslError(f"malformed SCRAM {name} message")
    return found


def _from_saslname(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _to_saslname(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _text64(data: bytes) -> bytes:
    return base64.b64encode(data)


# -- the server ---------------------------------------------------------------------------------------------------


class ScramServer:
    """The server's side of an exchange, once it knows the keys of the user.

    Args:
        first: The client's first message.
        keys: The keys of its user.
        nonce: A random text, new for each exchange.

    Attributes:
        challenge: The server's first message.
    """

    def __init__(self, mechanism: ScramMechanism, first: ClientFirst, keys: ScramKeys, nonce: str) -> None:
        self._mechanism = mechanism
        self._first = first
        self._keys = keys
        self._nonce = first.nonce + nonce
        salt = _text64(keys.salt).decode()
        self.challenge = f"r={self._nonce},s={salt},i={keys.iterations}".encode()

    def verify(self, message: bytes) -> bytes:
        """Verify the client's final message, and return the server's final message.

        Raises:
            SaslError: The message is malformed, too large or of another exchange, or the client does not know the
                password.
            ProofLengthError: The proof has another length than the hash.
        """
        # As in Kafka, c= may be anything: there is no channel binding that an attacker could have removed. Nor are
        # extensions of this message signed.
        found = _matched(_CLIENT_FINAL, message, "client final")
        if found["nonce"] != self._nonce:
            raise SaslError("Invalid client nonce in the final client message.")
        name = self._mechanism.hash_name
        signed = b",".join((self._first.bare, self.challenge, found["without_proof"].encode()))
        signature = hmac.digest(self._keys.stored_key, signed, name)
        proof = base64.b64decode(found["proof"])
        if len(proof) != len(signature):
            raise ProofLengthError
        client_key = _xor(proof, signature)
        if not hmac.compare_digest(hashlib.new(name, client_key).digest(), self._keys.stored_key):
            raise SaslError("wrong password")
        return b"v=" + _text64(hmac.digest(self._keys.server_key, signed, name))


class ProofLengthError(SaslError):
    """The proof of a client has a wrong length. Kafka hangs up then, since it fails itself."""

    def __init__(self) -> None:
        super().__init__("the client's proof has a wrong length")


def _xor(first: bytes, second: bytes) -> bytes:
    return bytes(left ^ right for left, right in zip(first, second, strict=True))


# -- the client ---------------------------------------------------------------------------------------------------


class ScramClient:
    """The client's side of an exchange.

    Args:
        username: The user, or the id of a delegation token.
        nonce: A random text of printable ASCII characters without comma, new for each exchange.
        by_token: Whether to log in by a delegation token.

    Attributes:
        first: The client's first message.
    """

    def __init__(self, mechanism: ScramMechanism, username: str, nonce: str, *, by_token: bool = False) -> None:
        self._mechanism = mechanism
        self._nonce = nonce
        extensions = ",tokenauth=true" if by_token else ""
        self._first_bare = f"n={_to_saslname(username)},r={nonce}{extensions}".encode()
        self._signature = b""
        self.first = b"n,," + self._first_bare

    def derivation(self, challenge: bytes) -> tuple[bytes, int]:
        """Return salt and iterations of the server's first message, for `salted_password`.

        Raises:
            SaslError: The message is malformed or of another exchange, or its iterations are out of bounds.
        """
        found = _matched(_SERVER_FIRST, challenge, "server first")
        if not found["nonce"].startswith(self._nonce):
            raise SaslError("the server's nonce does not begin with the client's")
        iterations = int(found["iterations"])
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise SaslError(
                f"the server asks for {iterations} iterations; allowed: {ITERATIONS_MIN} to {ITERATIONS_MAX}"
            )
        return base64.b64decode(found["salt"]), iterations

    def final(self, challenge: bytes, salted: bytes) -> bytes:
        """Return the client's final message.

        Args:
            challenge: The server's first message, which `derivation` has read.
            salted: The result of `salted_password`.
        """
        name = self._mechanism.hash_name
        nonce = _matched(_SERVER_FIRST, challenge, "server first")["nonce"]
        without_proof = b"c=" + _NO_CHANNEL_BINDING + b",r=" + nonce.encode()
        signed = b",".join((self._first_bare, challenge, without_proof))
        keys = stored_keys(self._mechanism, salted, b"", 0)
        proof = _xor(hmac.digest(salted, b"Client Key", name), hmac.digest(keys.stored_key, signed, name))
        self._signature = hmac.digest(keys.server_key, signed, name)
        return without_proof + b",p=" + _text64(proof)

    def verify(self, message: bytes) -> None:
        """Verify the server's final message, after `final`.

        Raises:
            SaslError: The server refuses, or does not know the password's keys itself.
        """
        found = _matched(_SERVER_FINAL, message, "server final")
        if found["error"]:
            raise SaslError(f"the server refuses: {found['error']}")
        signature = base64.b64decode(found["signature"])
        if not self._signature or not hmac.compare_digest(signature, self._signature):
            raise SaslError("the server does not know this user's password: its signature is wrong")
