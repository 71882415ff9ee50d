"""`TokenKeys`: the SCRAM keys by which delegation tokens log in (KIP-48), derived when a token is first used.

A token's password is its HMAC, which is no record: each node derives the keys itself. Source: Kafka's
`DelegationTokenManager.prepareScramCredentials`, which derives those of all tokens when they are created.
"""

import hashlib
from dataclasses import dataclass
from functools import partial
from random import Random

from minikafka.broker.security.keys_missing import KeysMissing
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import DelegationTokenRecord
from minikafka.controller.security.token_secrets import password_of
from minikafka.protocol.sasl.scram import ITERATIONS_MIN, ScramKeys, ScramMechanism, derive_keys
from minikafka.storage.steps import Runs

__all__ = ["KEYS_MAX", "TokenKeys"]

KEYS_MAX = 10_000
"""The most keys that are kept; the oldest are derived again when they are used."""
SALT_SIZE_BYTES = 24


@dataclass(frozen=True, slots=True)
class TokenLogin:
    """What a login by a token needs."""

    keys: ScramKeys
    token: DelegationTokenRecord


class TokenKeys:
    """The keys of the tokens of the metadata.

    Args:
        image: The metadata.
        secret: The key of the HMACs; None if the node has no tokens.
        random: For salts.
        disk: Derives keys in worker threads, as that takes milliseconds.
    """

    def __init__(self, image: Image, secret: bytes | None, random: Random, disk: Runs) -> None:
        self._image = image
        self._secret = secret
        self._random = random
        self._disk = disk
        self._keys: dict[tuple[str, ScramMechanism], ScramKeys] = {}

    def find(self, token_id: str, mechanism: ScramMechanism) -> TokenLogin | None:
        """Return the keys of a token, and what the metadata says of it; None if there is no such token.

        One that has ended stays until the active controller removes it. Raises KeysMissing.
        """
        token = self._image.tokens.get(token_id)
        if token is None or self._secret is None:
            return None
        keys = self._keys.get((token_id, mechanism))
        if keys is None:
            password = password_of(self._secret, token_id)
            # A digest, as for nonces: a salt must not tell the state of the generator.
            salt = hashlib.sha256(self._random.randbytes(32)).digest()[:SALT_SIZE_BYTES]
            raise KeysMissing(partial(self._derive, token_id, mechanism, password, salt))
        return TokenLogin(keys, token)

    async def _derive(self, token_id: str, mechanism: ScramMechanism, password: str, salt: bytes) -> None:
        keys = await self._disk.run(derive_keys, mechanism, password, salt, ITERATIONS_MIN)
        if len(self._keys) >= KEYS_MAX:
            del self._keys[next(iter(self._keys))]
        self._keys[token_id, mechanism] = keys
