"""Logins by delegation tokens at a SASL listener, and the keys that they need."""

from __future__ import annotations

from random import Random

import pytest
import structlog
import trio
from support.sasl_client import (
    CLOSED,
    METADATA,
    PASSED,
    REFUSED_SCRAM,
    Client,
    conversation,
    handshake,
    run,
    scram_final,
    token,
)

from minikafka.broker.security import token_keys
from minikafka.broker.security.keys_missing import KeysMissing
from minikafka.broker.security.token_keys import TokenKeys
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import DelegationTokenRecord, RemoveDelegationToken
from minikafka.controller.security.access import Principal
from minikafka.controller.security.token_secrets import password_of
from minikafka.protocol.sasl.scram import ITERATIONS_MIN, ScramMechanism, derive_keys
from minikafka.storage.disks.memory_disk import MemoryDisk

TOKEN_BARE = b"n=an-id,r=abc,tokenauth=true"
REFUSED_AGAIN = REFUSED_SCRAM.replace("during authentication", "during re-authentication")


def with_token(client: Client, ends_s: int) -> str:
    """Give the metadata a token that ends at a time of the test's clock; returns its password."""
    client.image.apply(
        DelegationTokenRecord("an-id", ("User", "alice"), ("User", "bob"), (), 0, 10**9, ends_s * 1000)
    )
    return password_of(b"the key", "an-id")


async def log_in(client: Client, password: str) -> str:
    """Log in by the token; returns the last answer."""
    await client.send(handshake("SCRAM-SHA-256"))
    told = await client.send(token(b"n,," + TOKEN_BARE))
    if not told.startswith("0 "):
        return told
    return await client.send(token(scram_final(told.removeprefix("0 ").encode(), password, TOKEN_BARE)))


@pytest.mark.parametrize(("session_ms", "lasts_ms"), [(0, 100_000), (3000, 3000), (200_000, 100_000)])
def test_a_client_logs_in_by_a_delegation_token_as_its_owner_until_it_ends(session_ms: int, lasts_ms: int) -> None:
    async def main() -> None:
        client = Client(session_ms)
        assert (await log_in(client, with_token(client, 100))).endswith(f" for {lasts_ms}")
        assert client.info.principal == Principal("User", "alice")
        assert client.info.principal.by_token
        await conversation(client, [(METADATA, PASSED), (lasts_ms / 1000, ""), (METADATA, CLOSED)])

    run(main)


def test_a_token_that_is_renewed_renews_the_session_and_one_that_is_removed_does_not() -> None:
    async def main() -> None:
        client = Client()
        password = with_token(client, 100)
        assert (await log_in(client, password)).endswith(" for 100000")
        await trio.sleep(90)
        with_token(client, 300)
        assert (await log_in(client, password)).endswith(" for 210000")
        client.image.apply(RemoveDelegationToken("an-id"))
        await conversation(client, [(9.0, ""), (METADATA, PASSED)])
        assert await log_in(client, password) == REFUSED_AGAIN

    run(main)


def test_a_session_ends_with_its_last_login_although_an_earlier_one_had_more_time() -> None:
    async def main() -> None:
        client = Client()
        assert (await log_in(client, with_token(client, 300))).endswith(" for 300000")
        await trio.sleep(10)
        assert (await log_in(client, with_token(client, 50))).endswith(" for 40000")
        await conversation(client, [(39.9, ""), (METADATA, PASSED), (0.1, ""), (METADATA, CLOSED)])

    run(main)


def test_who_logs_in_by_a_token_that_has_ended_is_not_served() -> None:
    """As in Kafka: the token stays until the active controller removes it, and its session has no time left."""

    async def main() -> None:
        client = Client()
        await trio.sleep(5)
        assert (await log_in(client, with_token(client, 4))).startswith("0 v=")
        assert await client.send(METADATA) == CLOSED

    run(main)


@pytest.mark.parametrize("password", ["other", "", "secret"])
def test_a_wrong_hmac_is_refused_and_not_logged(password: str) -> None:
    async def main() -> None:
        client = Client()
        hmac = with_token(client, 100)
        with structlog.testing.capture_logs() as logs:
            assert await log_in(client, password) == REFUSED_SCRAM
        assert hmac not in str(logs)

    run(main)

# -- the keys ----------------------------------------------------------------------------------------------------


def keys_of(image: Image, secret: bytes | None = b"the key") -> TokenKeys:
    return TokenKeys(image, secret, Random(1), MemoryDisk())


def test_keys_are_derived_once_for_each_mechanism() -> None:
    async def main() -> None:
        client = Client()
        password = with_token(client, 100)
        keys = keys_of(client.image)
        for mechanism in ScramMechanism:
            with pytest.raises(KeysMissing) as missing:
                keys.find("an-id", mechanism)
            await missing.value.derive()
            login = keys.find("an-id", mechanism)
            assert login is not None
            salt, iterations = login.keys.salt, login.keys.iterations
            assert iterations == ITERATIONS_MIN
            assert login.keys == derive_keys(mechanism, password, salt, iterations)

    run(main)


def test_keys_go_with_the_token() -> None:
    async def main() -> None:
        client = Client()
        with_token(client, 100)
        keys = keys_of(client.image)
        with pytest.raises(KeysMissing) as missing:
            keys.find("an-id", ScramMechanism.SHA_256)
        client.image.apply(RemoveDelegationToken("an-id"))
        await missing.value.derive()
        assert keys.find("an-id", ScramMechanism.SHA_256) is None
        assert keys.find("other", ScramMechanism.SHA_256) is None

    run(main)


def test_a_node_without_the_secret_key_knows_no_token() -> None:
    client = Client()
    with_token(client, 100)
    assert keys_of(client.image, None).find("an-id", ScramMechanism.SHA_256) is None


def test_of_many_keys_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_keys, "KEYS_MAX", 2)

    async def main() -> None:
        image = Image()
        keys = keys_of(image)
        for number in range(3):
            image.apply(DelegationTokenRecord(f"t{number}", ("User", "a"), ("User", "a"), (), 0, 9, 9))
            with pytest.raises(KeysMissing) as missing:
                keys.find(f"t{number}", ScramMechanism.SHA_256)
            await missing.value.derive()
        assert keys.find("t2", ScramMechanism.SHA_256)
        assert keys.find("t1", ScramMechanism.SHA_256)
        with pytest.raises(KeysMissing):
            keys.find("t0", ScramMechanism.SHA_256)

    run(main)
