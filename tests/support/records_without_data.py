"""Records of TLS that carry no data: each kind, without end, of a `CraftedClient` that has shaken hands."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from minikafka.client.security.tls_contexts import client_context
from minikafka.client.security.tls_settings import TlsSettings
from support.crafted_tls import ALERT, CHANGE_CIPHER_SPEC, HANDSHAKE, CraftedClient
from support.tls import SERVER, trusting


def crafted(version: str) -> CraftedClient:
    settings = TlsSettings.from_names(trusting(SERVER) | {"ssl.enabled.protocols": version})
    return CraftedClient(client_context(settings))


def new_keys(client: CraftedClient) -> Iterator[bytes]:
    while True:
        yield client.new_key(wants_another=False)


def new_keys_for_both(client: CraftedClient) -> Iterator[bytes]:
    while True:
        yield client.new_key(wants_another=True)


def large_new_keys(client: CraftedClient) -> Iterator[bytes]:
    while True:
        yield client.new_key(padding=10_000, wants_another=False)


def empty_data(client: CraftedClient) -> Iterator[bytes]:
    while True:
        yield client.record(b"")


def warnings(client: CraftedClient) -> Iterator[bytes]:
    while True:
        yield client.record(b"\x01\x5a", ALERT)


def hellos(client: CraftedClient) -> Iterator[bytes]:
    """Each record has a thousand requests for another handshake, which OpenSSL would answer one by one."""
    while True:
        yield client.record(b"\x01\0\0\0" * 1000, HANDSHAKE)


def plain_hellos(client: CraftedClient) -> Iterator[bytes]:
    while True:
        yield b"\x16\x03\x03\0\4\x01\0\0\0"


def changed_ciphers(client: CraftedClient) -> Iterator[bytes]:
    while True:
        yield client.record(b"\x01", CHANGE_CIPHER_SPEC)


def plain_changed_ciphers(client: CraftedClient) -> Iterator[bytes]:
    while True:
        yield b"\x14\x03\x03\0\1\1"


KINDS: dict[str, tuple[str, Callable[[CraftedClient], Iterator[bytes]]]] = {
    "new keys": ("TLSv1.3", new_keys),
    "new keys for both": ("TLSv1.3", new_keys_for_both),
    "large new keys": ("TLSv1.3", large_new_keys),
    "empty data": ("TLSv1.3", empty_data),
    "empty data, 1.2": ("TLSv1.2", empty_data),
    "warnings": ("TLSv1.3", warnings),
    "warnings, 1.2": ("TLSv1.2", warnings),
    "other handshakes": ("TLSv1.3", hellos),
    "other handshakes, 1.2": ("TLSv1.2", hellos),
    "other handshakes, not encrypted": ("TLSv1.3", plain_hellos),
    "changed ciphers": ("TLSv1.3", plain_changed_ciphers),
    "changed ciphers, 1.2": ("TLSv1.2", changed_ciphers),
}
