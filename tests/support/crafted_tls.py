"""`CraftedClient`: a client of TLS that shakes hands by OpenSSL, and then makes its records itself, of any kind.

OpenSSL writes the secrets of a connection to a file; the keys are derived from them. Source: RFC 8446, RFC 5246.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

HEADER = 5
CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, DATA = 20, 21, 22, 23
KEY_BYTES = 32
"""Of AES-256, with SHA-384: what OpenSSL prefers."""


class CraftedClient:
    """The client's end of one connection, without its socket; `context` is of one version of TLS."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._log = Path(tempfile.mkstemp()[1])
        context.keylog_filename = str(self._log)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self._received = b""
        self._sequence = 0
        self._secret = self._key = self._iv = b""

    async def shake_hands(
        self, send: Callable[[bytes], Awaitable[None]], receive: Callable[[], Awaitable[bytes | bytearray]]
    ) -> None:
        """Shake hands by these functions. What the server sends afterwards is not decrypted."""
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await send(self._outgoing.read())
                data = await receive()
                assert data, "the server disconnected"
                self._received += data
                self._incoming.write(data)
        await send(self._outgoing.read())
        secrets = {line.split()[0]: line.split()[1:] for line in self._log.read_text().splitlines()}
        self._log.unlink()
        if self.is_newest:
            self._use(bytes.fromhex(secrets["CLIENT_TRAFFIC_SECRET_0"][1]))
        else:
            self._derive(*map(bytes.fromhex, secrets["CLIENT_RANDOM"]))

    @property
    def is_newest(self) -> bool:
        return self._tls.version() == "TLSv1.3"

    def record(self, content: bytes, kind: int = DATA, padding: int = 0) -> bytes:
        """The next record, encrypted; `padding` hides the size of its content, in TLS 1.3."""
        sequence, self._sequence = self._sequence.to_bytes(8, "big"), self._sequence + 1
        if not self.is_newest:
            about = sequence + bytes([kind, 3, 3]) + len(content).to_bytes(2, "big")
            sealed = sequence + AESGCM(self._key).encrypt(self._iv + sequence, content, about)
            return bytes([kind, 3, 3]) + len(sealed).to_bytes(2, "big") + sealed
        inner = content + bytes([kind]) + bytes(padding)
        header = bytes([DATA, 3, 3]) + (len(inner) + 16).to_bytes(2, "big")
        nonce = int.from_bytes(self._iv, "big") ^ int.from_bytes(sequence, "big")
        return header + AESGCM(self._key).encrypt(nonce.to_bytes(12, "big"), inner, header)

    def new_key(self, padding: int = 0, *, wants_another: bool) -> bytes:
        """A KeyUpdate; the records after it have the new key."""
        record = self.record(bytes([24, 0, 0, 1, wants_another]), HANDSHAKE, padding)
        self._use(_expanded(self._secret, b"traffic upd", len(self._secret)))
        return record

    def _use(self, secret: bytes) -> None:
        self._secret, self._sequence = secret, 0
        self._key, self._iv = _expanded(secret, b"key", KEY_BYTES), _expanded(secret, b"iv", 12)

    def _derive(self, random: bytes, master: bytes) -> None:
        """The keys of TLS 1.2. The first record of the server has its random bytes."""
        block = _expanded_before(master, b"key expansion" + self._received[HEADER + 6 : HEADER + 38] + random, 72)
        self._key, self._iv = block[:KEY_BYTES], block[2 * KEY_BYTES : 2 * KEY_BYTES + 4]
        self._sequence = 1


def _expanded(secret: bytes, label: bytes, size: int) -> bytes:
    """HKDF-Expand-Label of TLS 1.3, for at most one block."""
    name = b"tls13 " + label
    info = size.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
    return hmac.digest(secret, info + b"\1", hashlib.sha384)[:size]


def _expanded_before(secret: bytes, seed: bytes, size: int) -> bytes:
    """The pseudorandom function of TLS 1.2."""
    block, value = b"", seed
    while len(block) < size:
        value = hmac.digest(secret, value, hashlib.sha384)
        block += hmac.digest(secret, value + seed, hashlib.sha384)
    return block[:size]
