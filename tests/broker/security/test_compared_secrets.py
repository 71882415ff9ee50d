"""What clients send to prove who they are is compared in a time that does not tell how much of it is right."""

from __future__ import annotations

import hmac
from typing import Any

import pytest
from support.sasl_client import REFUSED_SCRAM, WRONG, Client, handshake, run, scram_final, token

from minikafka.broker.metrics.basic_login import BasicLogin

SHA_256_BYTES = 32


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The lengths of the texts that are compared by `hmac.compare_digest`."""
    lengths: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def counting(first: Any, second: Any) -> bool:
        lengths.append((len(first), len(second)))
        return compare(first, second)

    monkeypatch.setattr(hmac, "compare_digest", counting)
    return lengths


@pytest.mark.parametrize("user", ["alice", "nobody"])
@pytest.mark.parametrize("password", [b"x", b"secreu", b"a longer one than all others"])
def test_a_password_is_compared_by_its_digest_whether_there_is_such_a_user_or_not(
    user: str, password: bytes, compared: list[tuple[int, int]]
) -> None:
    async def main() -> None:
        client = Client()
        await client.send(handshake())
        assert await client.send(token(b"\0%b\0%b" % (user.encode(), password))) == WRONG

    run(main)
    assert compared == [(SHA_256_BYTES, SHA_256_BYTES)]


@pytest.mark.parametrize("password", ["secret", "other"])
def test_a_proof_of_scram_is_compared_whole(password: str, compared: list[tuple[int, int]]) -> None:
    async def main() -> None:
        client = Client()
        await client.send(handshake("SCRAM-SHA-256"))
        challenge = (await client.send(token(b"n,,n=alice,r=abc"))).removeprefix("0 ")
        compared.clear()
        answer = await client.send(token(scram_final(challenge.encode(), password)))
        assert (answer == REFUSED_SCRAM) is (password != "secret")

    run(main)
    assert compared == [(SHA_256_BYTES, SHA_256_BYTES)]


def test_the_password_of_the_metrics_is_compared_whole(compared: list[tuple[int, int]]) -> None:
    assert BasicLogin("prometheus", "secret").why_refused("Basic cHJvbWV0aGV1czpzZWNyZXU=")
    assert compared == [(len("prometheus:secreu"), len("prometheus:secret"))]
