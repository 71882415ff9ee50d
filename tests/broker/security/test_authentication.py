"""The order of requests on a SASL listener, as Apache Kafka 4.3.1 answered each of these sequences of bytes."""

from __future__ import annotations

from typing import Any

import pytest
import structlog
import trio
from support.sasl_client import (
    ALICE,
    BOB,
    CLOSED,
    FAILED,
    GIVEN,
    ILLEGAL,
    METADATA,
    NO_ACKS,
    PASSED,
    REFUSED_SCRAM,
    WRONG,
    Client,
    Steps,
    conversation,
    handshake,
    run,
    scram_final,
    token,
    versions,
)

from minikafka.controller.security.access import ANONYMOUS, NAME_BYTES_MAX, Principal
from minikafka.protocol.sasl.unsecured_token import unsecured_token

GOOD: Steps = [(handshake(), "0"), (token(), "0")]
FIRST: dict[str, Steps] = {
    "ApiVersions once": [(versions(), "0"), *GOOD, (METADATA, PASSED), (versions(), "0"), (versions(), "0")],
    "ApiVersions twice": [(versions(), "0"), (versions(), CLOSED)],
    "an unknown ApiVersions does not count": [(versions(9), "35"), (versions(), "0"), *GOOD],
    "another request first": [(METADATA, CLOSED)],
    "a token first": [(token(), CLOSED)],
    "two handshakes": [(handshake(), "0"), (handshake(), ILLEGAL)],
    "ApiVersions instead of a token": [(handshake(), "0"), (versions(), ILLEGAL)],
    "another request instead of a token": [(handshake(), "0"), (METADATA, ILLEGAL)],
    "a request that wants no answer instead of a token": [(handshake(), "0"), (NO_ACKS, CLOSED)],
    "an unknown mechanism": [(handshake("NOPE"), "33; closed")],
    "a mechanism in lower case": [(handshake("plain"), "33; closed")],
    "an unknown version of the handshake": [(b"\0\x11\0\x02\0\0\0\0\xff\xff\0\0", CLOSED)],
    "an unknown version of a token": [(handshake(), "0"), (b"\0\x24\0\x03\0\0\0\0\xff\xff\0\0\0", CLOSED)],
    "an unknown API": [(b"\x7f\x24\0\x03\0\0\0\0\xff\xff\0\0\0", CLOSED)],
    "a truncated header": [(b"\0\x11", CLOSED)],
    "a wrong password": [(handshake(), "0"), (token(b"\0alice\0no"), WRONG)],
    "an unknown user": [(handshake(), "0"), (token(b"\0zed\0no"), WRONG)],
    "another authorization id": [
        (handshake(), "0"),
        (
            token(b"bob\0alice\0secret"),
            f"{FAILED}: Client requested an authorization id that is different from username; closed",
        ),
    ],
    "the own authorization id": [(handshake(), "0"), (token(b"alice\0alice\0secret"), "0"), (METADATA, PASSED)],
    "a malformed token": [
        (handshake(), "0"),
        (token(b"x"), "58 Invalid SASL/PLAIN response: expected 3 tokens, got 1; closed"),
    ],
    "a bare token": [(handshake(version=0), "0"), (ALICE, "bare "), (METADATA, PASSED)],
    "a wrong bare token": [(handshake(version=0), "0"), (b"\x01", CLOSED)],
    "a request where a bare token is due": [(handshake(version=0), "0"), (token(), CLOSED)],
    "a bare token where a request is due": [(handshake(), "0"), (ALICE, CLOSED)],
    "a token of version 0": [(handshake(), "0"), (token(version=0), "0"), (METADATA, PASSED)],
    "both after success": [*GOOD, (handshake(), PASSED), (token(BOB), PASSED), (METADATA, PASSED)],
    "a token that is too large": [(handshake(), "0"), (token(b"\0alice\0" + b"x" * 1000), CLOSED)],
    "an unknown SCRAM user": [(handshake("SCRAM-SHA-256"), "0"), (token(b"n,,n=zed,r=abc"), REFUSED_SCRAM)],
    "another authorization id by SCRAM": [
        (handshake("SCRAM-SHA-256"), "0"),
        (
            token(b"n,a=bob,n=alice,r=abc"),
            f"{FAILED}: Client requested an authorization id that is different from username; closed",
        ),
    ],
    "a SCRAM user as a token": [
        (handshake("SCRAM-SHA-256"), "0"),
        (token(b"n,,n=alice,r=abc,tokenauth=true"), REFUSED_SCRAM),
    ],
    "an empty SCRAM message": [(handshake("SCRAM-SHA-256"), "0"), (token(b""), REFUSED_SCRAM)],
}


@pytest.mark.parametrize("name", FIRST)
def test_the_first_authentication_is_answered_as_by_kafka(name: str) -> None:
    async def main() -> None:
        await conversation(Client(), FIRST[name])

    run(main)


def bearer(claims: dict[str, object] | None = None, authorization: str = "") -> bytes:
    """A message with an unsecured token, valid for 1,000 s of the test's clock."""
    made = unsecured_token({"sub": "olga", "exp": 1000} if claims is None else claims)
    return f"n,{authorization},\x01auth=Bearer {made}\x01\x01".encode()


REFUSED_TOKEN = '{"status":"invalid_token"}'
BEARER: Steps = [(handshake("OAUTHBEARER"), "0")]
BY_TOKEN: dict[str, Steps] = {
    "a good one": [*BEARER, (token(bearer()), "0 for 1000000"), (METADATA, PASSED)],
    "its session ends with it": [*BEARER, (token(bearer()), "0 for 1000000"), (1000.0, ""), (METADATA, CLOSED)],
    "the own authorization id": [*BEARER, (token(bearer(authorization="a=olga")), "0 for 1000000")],
    "another authorization id": [
        *BEARER,
        (
            token(bearer(authorization="a=zed")),
            f"{FAILED}: Client requested an authorization id (zed) that is different from the token's principal name "
            "(olga); closed",
        ),
    ],
    "a refusal is told first": [
        *BEARER,
        (token(bearer({"sub": "olga"})), f"0 {REFUSED_TOKEN}"),
        (token(b"\x01"), f"58 {REFUSED_TOKEN}; closed"),
    ],
    "requests after a refusal": [*BEARER, (token(bearer({"sub": "olga"})), f"0 {REFUSED_TOKEN}"), (METADATA, ILLEGAL)],
    "another token after a refusal": [
        *BEARER,
        (token(bearer({"sub": "olga"})), f"0 {REFUSED_TOKEN}"),
        (token(bearer({"sub": "olga"})), f"0 {REFUSED_TOKEN}"),
        (token(bearer()), "0 for 999800"),
        (METADATA, PASSED),
    ],
    "another scheme": [*BEARER, (token(bearer().replace(b"Bearer", b"Basic")), CLOSED)],
    "malformed": [*BEARER, (token(b"garbage"), REFUSED_SCRAM.replace("SCRAM-SHA-256", "OAUTHBEARER"))],
}


@pytest.mark.parametrize("name", BY_TOKEN)
def test_tokens_are_answered_as_by_kafka(name: str) -> None:
    async def main() -> None:
        await conversation(Client(), BY_TOKEN[name])

    run(main)


@pytest.mark.parametrize("letter", ["a", "é"])
def test_a_token_of_too_long_a_name_is_refused(letter: str) -> None:
    longest = letter * (NAME_BYTES_MAX // len(letter.encode()))

    async def main() -> None:
        for name, answered in ((longest, "0 for 1000000"), (longest + "a", f"0 {REFUSED_TOKEN}")):
            client = Client(given=GIVEN | {"sasl.server.max.receive.size": "100000"})
            await conversation(client, [*BEARER, (token(bearer({"sub": name, "exp": 1000})), answered)])

    run(main)


LASTS = (token(), "0 for 3000")
AGAIN: Steps = [(handshake(), "0"), LASTS]
LATER: dict[str, Steps] = {
    "the session lasts": [(2.9, ""), (METADATA, PASSED)],
    "the session is over": [(3.0, ""), (METADATA, CLOSED)],
    "a token when the session is over": [(3.0, ""), (token(), CLOSED)],
    "again in time": [(2.0, ""), *AGAIN, (2.9, ""), (METADATA, PASSED), (0.2, ""), (METADATA, CLOSED)],
    "again, but not twice in a second": [
        *AGAIN,
        (0.9, ""),
        (handshake(), PASSED),
        (token(), PASSED),
        (METADATA, PASSED),
        (0.2, ""),
        *AGAIN,
    ],
    "again when the session is over": [(9.0, ""), *AGAIN, (METADATA, PASSED)],
    "the session ends between the two": [(2.5, ""), (handshake(), "0"), (0.6, ""), LASTS, (METADATA, PASSED)],
    "as another principal": [
        (handshake(), "0"),
        (token(BOB), "58 Cannot change principals during re-authentication from User.alice: User.bob; closed"),
    ],
    "a wrong password": [(handshake(), "0"), (token(b"\0alice\0no"), WRONG)],
    "by another mechanism": [(handshake("SCRAM-SHA-256"), "0"), (token(), CLOSED)],
    "by an unknown mechanism": [(handshake("NOPE"), CLOSED)],
    "another request instead of a token": [(handshake(), "0"), (METADATA, ILLEGAL)],
    "a second handshake": [(handshake(), "0"), (handshake(), ILLEGAL)],
    "by bare tokens": [(handshake(version=0), "0"), (ALICE, "bare "), (METADATA, PASSED)],
    "a message that is too large": [(handshake(), "0"), (token(b"\0alice\0" + b"x" * 1000), CLOSED)],
}


@pytest.mark.parametrize("name", LATER)
def test_another_authentication_is_answered_as_by_kafka(name: str) -> None:
    async def main() -> None:
        await conversation(Client(session_ms=3000), [*AGAIN, *LATER[name]])

    run(main)


def test_a_client_is_anonymous_until_it_has_proved_who_it_is() -> None:
    async def main() -> None:
        client = Client()
        await conversation(client, [(versions(), "0"), (handshake(), "0")])
        assert client.info.principal is ANONYMOUS
        await conversation(client, [(token(), "0"), (METADATA, PASSED)])
        assert client.requests.principals == [ANONYMOUS, Principal("User", "alice")]

    run(main)


@pytest.mark.parametrize("password", ["secret", "other"])
def test_scram_by_the_keys_of_the_metadata(password: str) -> None:
    async def main() -> None:
        client = Client()
        await client.send(handshake("SCRAM-SHA-256"))
        challenge = (await client.send(token(b"n,,n=alice,r=abc"))).removeprefix("0 ")
        assert client.info.principal is ANONYMOUS
        answer = await client.send(token(scram_final(challenge.encode(), password)))
        if password == "secret":
            assert answer.startswith("0 v=")
            assert client.info.principal == Principal("User", "alice")
        else:
            assert answer == REFUSED_SCRAM
            assert client.info.principal is ANONYMOUS

    run(main)


def test_challenges_differ() -> None:
    async def main() -> None:
        scram = Client().listener.mechanisms["SCRAM-SHA-256"]
        assert len({scram.begin().answer(b"n,,n=alice,r=abc") for _ in range(3)}) == 3

    run(main)


def test_requests_may_be_larger_only_after_authentication() -> None:
    async def main() -> None:
        large = METADATA + bytes(2000)
        assert await Client().send(large) == CLOSED
        client = Client()
        await conversation(client, [*GOOD, (large, PASSED)])

    run(main)


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("PLAIN", b"\0alice\0" + b"x" * 500_000),
        ("SCRAM-SHA-256", b"n,a=" + b"x" * 500_000 + b",,n=alice,r=abc"),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer " + b"x" * 500_000 + b"\x01\x01"),
    ],
)
def test_messages_that_a_mechanism_does_not_read_get_the_answer_to_invalid_credentials(
    mechanism: str, message: bytes
) -> None:
    async def main() -> None:
        client = Client(given=GIVEN | {"sasl.server.max.receive.size": "524288"})
        refused = REFUSED_SCRAM.replace("SCRAM-SHA-256", mechanism)
        with structlog.testing.capture_logs() as logs:
            await conversation(client, [(handshake(mechanism), "0"), (token(message), refused)])
        [failed] = logged(logs)
        assert "bytes; allowed: at most" in failed["reason"]

    run(main)


def test_a_failure_is_answered_late_and_logged_without_the_password() -> None:
    async def main() -> None:
        client = Client()
        await client.send(handshake())
        began_s = trio.current_time()
        with structlog.testing.capture_logs() as logs:
            await client.send(token(b"\0alice\0not-this"))
        assert trio.current_time() - began_s == pytest.approx(0.1)
        [failed] = logged(logs)
        assert (failed["client"], failed["mechanism"], failed["listener"]) == ("10.0.0.1", "PLAIN", "L")
        assert "not-this" not in str(logs)
        assert client.ended is not None
        assert client.ended.is_logged

    run(main)


def logged(logs: list[Any]) -> list[Any]:
    return [one for one in logs if one["event"] == "authentication failed"]


def test_a_refused_token_is_logged_once_whether_its_client_says_goodbye_or_not() -> None:
    async def main() -> None:
        with structlog.testing.capture_logs() as logs:
            await conversation(client := Client(), BY_TOKEN["a refusal is told first"])
            assert [one["reason"] for one in logged(logs)] == ["the token has no claim exp"]
            await conversation(Client(), BY_TOKEN["requests after a refusal"][:2])
            assert len(logged(logs)) == 2
        assert (client.listener.record.failed, client.listener.record.succeeded) == (1, 0)

    run(main)


def test_each_further_token_is_answered_late() -> None:
    """Otherwise one connection could try tokens as fast as they are refused."""

    async def main() -> None:
        began_s = trio.current_time()
        await conversation(Client(), BY_TOKEN["another token after a refusal"])
        assert trio.current_time() - began_s == pytest.approx(0.2)

    run(main)


def test_what_becomes_of_authentications_is_counted() -> None:
    async def main() -> None:
        client = Client(session_ms=3000)
        record = client.listener.record
        await conversation(client, [(handshake(), "0"), LASTS, (2.0, ""), *AGAIN])
        assert (record.succeeded, record.reauthenticated, record.expired) == (1, 1, 0)
        await conversation(client, [(3.0, ""), (METADATA, CLOSED)])
        assert (record.succeeded, record.reauthenticated, record.expired) == (1, 1, 1)
        client = Client(session_ms=3000)
        changed = f"{FAILED.split()[0]} Cannot change principals during re-authentication from User.alice: User.bob"
        as_another = [(handshake(), "0"), (token(BOB), f"{changed}; closed")]
        await conversation(client, [(handshake(), "0"), LASTS, (2.0, ""), *as_another])
        assert (client.listener.record.failed, client.listener.record.reauthentication_failed) == (0, 1)

    run(main)


def test_a_bare_token_is_counted_as_an_authenticate_request() -> None:
    """The first bytes of a frame say what a request is counted as, and a token's bytes are anything."""

    async def main() -> None:
        client = Client()
        handler = client.listener.handler()
        frame = bytearray(handshake(version=0))
        await handler.answer_now(frame, client.info, None)  # type: ignore[misc]
        frame = bytearray(ALICE)
        await handler.answer_now(frame, client.info, None)  # type: ignore[misc]
        assert frame[:4] == b"\0\x24\0\0"

    run(main)
