"""The keys that verify tokens: read at the start, again in time, and when a token is of an unknown key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import structlog
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from support.signed_tokens import ec_entry, key_set, rsa_entry, signed_token

from minikafka.broker.security.key_sets import SIZE_BYTES_MAX, InvalidKeys
from minikafka.broker.security.keys_missing import KeysMissing
from minikafka.broker.security.signed_tokens import SignedTokens
from minikafka.broker.security.signing_keys import UNKNOWN_KEY_S, KeyReading, SigningKeys
from minikafka.broker.settings.token_settings import TokenSettings
from minikafka.protocol.sasl.unsecured_token import TokenError
from minikafka.storage.disks.memory_disk import MemoryDisk

RSA = rsa.generate_private_key(65537, 2048)
EC, OTHER_EC = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
URL = "http://127.0.0.1:1/keys"
TOKEN = signed_token(RSA, {"sub": "olga", "iat": 0, "exp": 1000})


class Provider:
    """A provider with a list of key sets; each is read once. An error in the list is raised."""

    def __init__(self, *contents: bytes | OSError, refresh_ms: int = 1000, backoff_ms: int = 100) -> None:
        self.now_s = 0.0
        self.contents = list(contents)
        settings = TokenSettings(keys_url=URL, refresh_ms=refresh_ms, backoff_ms=backoff_ms)
        self.keys = SigningKeys(settings, KeyReading(MemoryDisk(), self.read, lambda: self.now_s))
        self.tokens = SignedTokens(settings, self.keys, lambda: 0)

    def read(self, url: str) -> bytes:
        assert url == URL
        content = self.contents.pop(0)
        if isinstance(content, OSError):
            raise content
        return content

    def algorithms(self) -> list[str]:
        return [key.algorithm for key in answered(self.keys.current)]


def answered(ask: Callable[[], Any]) -> Any:
    """Ask as a login does: what it misses is read, then it asks again."""
    try:
        return ask()
    except KeysMissing as missing:
        refreshing = missing.derive()
        with pytest.raises(StopIteration):
            refreshing.__await__().send(None)
        return ask()


@pytest.mark.parametrize(
    "keys",
    [
        b"",
        b"[]",
        b'{"keys": 5}',
        b'{"keys": []}',
        b'{"keys": [{}]}',
        b'{"keys": [{"kty": "RSA", "n": "AQ", "e": "Aw"}]}',
        b'{"keys": [{"kty": "RSA", "n": 5, "e": "Aw"}]}',
        b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "AQ", "y": "AQ"}]}',
        b'{"keys": [{"kty": "oct", "k": "AQ"}]}',
        b"[" * 100_000,
        key_set(*[rsa_entry(RSA)] * 101),
        key_set(rsa_entry(RSA, use="enc")),
        key_set(rsa_entry(RSA, alg="RS512")),
        key_set(rsa_entry(rsa.generate_private_key(65537, 1024))),
    ],
)
def test_key_sets_that_are_refused(keys: bytes) -> None:
    with pytest.raises(InvalidKeys):
        Provider(keys)


def test_a_key_set_that_is_too_large_is_not_read_into_memory() -> None:
    disk = MemoryDisk()
    disk.write_atomically("/keys", b" " * (SIZE_BYTES_MAX + 1))
    reading = KeyReading(disk, lambda url: b"", lambda: 0.0)
    disk.read_bytes = None  # type: ignore[method-assign,assignment]
    with pytest.raises(InvalidKeys, match="has more than 524288 bytes"):
        reading.read("file:///keys")


@pytest.mark.parametrize(
    ("later", "events"),
    [
        (key_set(), ["no keys of tokens"]),
        (key_set({"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA"}), ["no keys of tokens"]),
        (key_set({"foo": "1"}), ["keys of tokens left out", "no keys of tokens"]),
        (key_set(ec_entry(OTHER_EC), {"foo": "1"}), ["keys of tokens left out"]),
        (key_set(ec_entry(OTHER_EC)), []),
    ],
)
def test_a_withdrawn_key_verifies_nothing_whatever_else_the_set_has(later: bytes, events: list[str]) -> None:
    provider = Provider(key_set(rsa_entry(RSA)), later)
    assert answered(lambda: provider.tokens.validate(TOKEN)).principal == "olga"
    provider.now_s = 1.0
    with structlog.testing.capture_logs() as logs, pytest.raises(TokenError, match="no key has the id"):
        answered(lambda: provider.tokens.validate(TOKEN))
    assert [one["event"] for one in logs] == events


@pytest.mark.parametrize("fault", [b"broken", b'{"keys": [1]}', b" " * (SIZE_BYTES_MAX + 1), OSError("gone")])
def test_keys_are_read_again_in_time_and_faults_keep_the_old_ones(fault: bytes | OSError) -> None:
    provider = Provider(key_set(rsa_entry(RSA)), fault, fault, key_set(ec_entry(EC)))
    assert provider.algorithms() == ["RS256"]
    provider.now_s = 1.0
    with structlog.testing.capture_logs() as logs:
        assert provider.algorithms() == ["RS256"]
        provider.now_s = 1.05
        assert provider.algorithms() == ["RS256"]
    assert [one["event"] for one in logs] == ["keys of tokens cannot be read"]
    provider.now_s = 1.15
    assert provider.algorithms() == ["RS256"]
    provider.now_s = 1.2
    assert provider.algorithms() == ["RS256"]
    provider.now_s = 1.4
    assert provider.algorithms() == ["ES256"]
    assert provider.contents == []


def test_one_login_waits_for_the_keys_and_those_beside_it_take_the_old_ones() -> None:
    provider = Provider(key_set(rsa_entry(RSA)), key_set(ec_entry(EC)))
    provider.now_s = 1.0
    with pytest.raises(KeysMissing) as missing:
        provider.keys.current()
    provider.keys._is_reading = True
    assert [key.algorithm for key in provider.keys.current()] == ["RS256"]
    provider.keys.missed()
    provider.keys._is_reading = False
    with pytest.raises(StopIteration):
        missing.value.derive().__await__().send(None)
    assert provider.algorithms() == ["ES256"]


def test_a_token_of_an_unknown_key_has_the_keys_read_again_but_not_often() -> None:
    provider = Provider(key_set(ec_entry(EC)), key_set(ec_entry(EC)), key_set(rsa_entry(RSA)), refresh_ms=3_600_000)
    for now_s in (1.0, UNKNOWN_KEY_S, UNKNOWN_KEY_S + 1):
        provider.now_s = now_s
        with pytest.raises(TokenError, match="no key has the id"):
            answered(lambda: provider.tokens.validate(TOKEN))
    assert len(provider.contents) == 1
    provider.now_s = 2 * UNKNOWN_KEY_S
    assert answered(lambda: provider.tokens.validate(TOKEN)).principal == "olga"


def test_keys_are_read_at_intervals_whatever_the_settings_say() -> None:
    provider = Provider(key_set(ec_entry(EC)), OSError("away"), OSError("away"), refresh_ms=0, backoff_ms=0)
    for interval in range(3):
        provider.now_s = interval * 0.101
        assert [provider.algorithms() for _ in range(3)] == [["ES256"]] * 3
        assert len(provider.contents) == 2 - interval
