"""SCRAM: the examples of RFC 5802's successors, both sides against each other, and what Kafka refuses."""

from __future__ import annotations

import base64
import re

import pytest

from minikafka.protocol.errors import SaslAuthenticationFailedError
from minikafka.protocol.sasl.message_sizes import MESSAGE_BYTES_MAX
from minikafka.protocol.sasl.sasl_errors import SaslError
from minikafka.protocol.sasl.scram import (
    ProofLengthError,
    ScramClient,
    ScramMechanism,
    ScramServer,
    derive_keys,
    parse_client_first,
    salted_password,
)

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


def test_the_exchange_of_rfc_7677() -> None:
    """Section 3: user `user`, password `pencil`."""
    client = ScramClient(SHA_256, "user", "rOprNGfwEbeRWgbNEkqO")
    assert client.first == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    keys = derive_keys(SHA_256, "pencil", base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    server = ScramServer(SHA_256, parse_client_first(client.first), keys, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    nonce = b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert server.challenge == b"r=" + nonce + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    salt, iterations = client.derivation(server.challenge)
    final = client.final(server.challenge, salted_password(SHA_256, "pencil", salt, iterations))
    assert final == b"c=biws,r=" + nonce + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    signature = server.verify(final)
    assert signature == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    client.verify(signature)


def exchange(
    mechanism: ScramMechanism, username: str, password: str, stored: str, *, by_token: bool = False
) -> tuple[ScramClient, bytes, ScramServer]:
    """Both sides, and the client's final message."""
    client = ScramClient(mechanism, username, "client", by_token=by_token)
    first = parse_client_first(client.first)
    assert (first.username, first.by_token) == (username, by_token)
    server = ScramServer(mechanism, first, derive_keys(mechanism, stored, b"salt", 4096), "server")
    salt, iterations = client.derivation(server.challenge)
    return client, client.final(server.challenge, salted_password(mechanism, password, salt, iterations)), server


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_both_sides_understand_each_other(mechanism: ScramMechanism) -> None:
    client, final, server = exchange(mechanism, "a,b=c", "päss", "päss", by_token=True)
    client.verify(server.verify(final))


def test_a_wrong_password_is_refused() -> None:
    _, final, server = exchange(SHA_512, "alice", "secret", "other")
    with pytest.raises(SaslError, match="wrong password"):
        server.verify(final)


def test_a_server_that_does_not_know_the_password_is_refused() -> None:
    client, final, server = exchange(SHA_256, "alice", "secret", "secret")
    stranger = ScramServer(SHA_256, parse_client_first(client.first), derive_keys(SHA_256, "x", b"s", 4096), "server")
    assert stranger.challenge != server.challenge
    for answer in (b"v=" + base64.b64encode(b"x" * 32), b"v="):
        with pytest.raises(SaslError, match="signature is wrong"):
            client.verify(answer)
    with pytest.raises(SaslError, match="refuses: other-error"):
        client.verify(b"e=other-error")
    with pytest.raises(SaslError, match="malformed"):
        client.verify(b"v=***")
    client.verify(server.verify(final))


def test_a_signature_before_the_proof_is_refused() -> None:
    with pytest.raises(SaslError, match="signature is wrong"):
        ScramClient(SHA_256, "alice", "client").verify(b"v=")


def test_an_answer_of_another_exchange_is_refused() -> None:
    _, final, server = exchange(SHA_256, "alice", "secret", "secret")
    with pytest.raises(SaslError, match="nonce"):
        server.verify(final.replace(b"r=clientserver", b"r=clientother"))
    with pytest.raises(SaslError, match="malformed"):
        server.verify(b"zzz")


@pytest.mark.parametrize("proof", [b"", b"YWJj", base64.b64encode(b"x" * 31), base64.b64encode(b"x" * 33)])
def test_a_proof_of_a_wrong_length_is_told_apart(proof: bytes) -> None:
    _, final, server = exchange(SHA_256, "alice", "secret", "secret")
    with pytest.raises(ProofLengthError):
        server.verify(re.sub(rb"p=.*", b"p=" + proof, final))


@pytest.mark.parametrize(
    "message",
    [b"", b"garbage", b"y,,n=alice,r=abc", b"p=tls-unique,,n=alice,r=abc", b"n,,n=a=b,r=abc", b"n,,n=alice,r=",
     b"n,,n=alice,r=abc,", b"n,,n=,r=abc", "n,,n=jürgen,r=abc".encode(), b"n,,n=alice,r=abc\n", b"n,,n=al\0ice,r=abc"],
)
def test_first_messages_that_kafka_refuses(message: bytes) -> None:
    with pytest.raises(SaslError, match="malformed SCRAM client first message"):
        parse_client_first(message)


def test_messages_that_are_too_large_are_refused_before_they_are_matched() -> None:
    """Matching takes a microsecond for each letter: half a second for what a client may send."""
    first = b"n,,n=alice,r="
    assert len(parse_client_first(first + b"x" * (MESSAGE_BYTES_MAX - len(first))).nonce) > 16_000
    with pytest.raises(SaslError, match="the SCRAM client first message has 16385 bytes; allowed: at most 16384"):
        parse_client_first(first + b"x" * (MESSAGE_BYTES_MAX + 1 - len(first)))
    client, final, server = exchange(SHA_256, "alice", "secret", "secret")
    with pytest.raises(SaslError, match="the SCRAM client final message has"):
        server.verify(final.replace(b"c=biws", b"c=" + b"AAAA" * 5000))
    with pytest.raises(SaslError, match="the SCRAM server first message has"):
        client.derivation(server.challenge + b",x=" + b"y" * MESSAGE_BYTES_MAX)


def test_first_messages_that_kafka_takes() -> None:
    assert parse_client_first(b"n,,m=x,n=al=2Cce=3D,r=abc").username == "al,ce="
    assert parse_client_first(b"n,,n=alice,r=abc,x=y").extensions == {"x": "y"}
    parse_client_first(b"n,a=alice,n=alice,r=abc").check_authorization()
    with pytest.raises(SaslAuthenticationFailedError, match="authorization id that is different"):
        parse_client_first(b"n,a=bob,n=alice,r=abc").check_authorization()


def test_a_mandatory_extension_and_those_of_the_final_message_are_not_signed() -> None:
    client = ScramClient(SHA_256, "alice", "abc")
    keys = derive_keys(SHA_256, "secret", b"salt", 4096)
    server = ScramServer(SHA_256, parse_client_first(b"n,,m=x," + client.first.removeprefix(b"n,,")), keys, "def")
    final = client.final(server.challenge, salted_password(SHA_256, "secret", b"salt", 4096))
    client.verify(server.verify(final.replace(b",p=", b",x=y,p=")))


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b"r=other,s=c2FsdA==,i=4096", "nonce"),
        (b"r=clientserver,s=c2FsdA==,i=4095", "asks for 4095 iterations"),
        (b"r=clientserver,s=c2FsdA==,i=1000001", "asks for 1000001 iterations"),
        (b"r=clientserver,s=c2FsdA==,i=99999999999999", "malformed"),
        (b"r=clientserver,s=***,i=4096", "malformed"),
    ],
)
def test_challenges_that_clients_refuse(challenge: bytes, why: str) -> None:
    with pytest.raises(SaslError, match=why):
        ScramClient(SHA_256, "alice", "client").derivation(challenge)


def test_names_and_what_keys_hide() -> None:
    assert [member.mechanism for member in ScramMechanism] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert ScramMechanism.of_mechanism("SCRAM-SHA-512") is SHA_512
    assert ScramMechanism.of_mechanism("SCRAM-SHA-1") is None
    assert repr(derive_keys(SHA_256, "x", b"s", 4096)) == "ScramKeys(iterations=4096)"
