"""Signed tokens: made here with the keys of RFC 7517's kind, and what must not pass."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.signed_tokens import ec_entry, key_set, rsa_entry, signed_token, text

from minikafka.broker.security.key_sets import InvalidKeys, Key, read_keys
from minikafka.broker.security.signed_tokens import SignedTokens
from minikafka.broker.settings.token_settings import TokenSettings
from minikafka.protocol.sasl.unsecured_token import Token, TokenError

NOW_S = 1_000_000
RSA, OTHER_RSA = (rsa.generate_private_key(65537, 2048) for _ in range(2))
EC, OTHER_EC = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
GOOD: dict[str, Any] = {"sub": "olga", "iat": NOW_S, "exp": NOW_S + 1000, "iss": "us", "aud": ["kafka", "x"]}
SETTINGS = TokenSettings(keys_url="http://keys", audiences=("kafka",), issuer="us")


def signed(key: Any, claims: dict[str, Any] = GOOD, **header: str) -> str:
    return signed_token(key, claims, **header)


class Known:
    """Keys that do not change."""

    def __init__(self, keys: tuple[Key, ...]) -> None:
        self._keys = keys

    def current(self) -> tuple[Key, ...]:
        return self._keys

    def missed(self) -> None:
        pass


def validated(token: str, settings: TokenSettings = SETTINGS, keys: bytes | None = None) -> Token:
    known = read_keys(key_set(rsa_entry(RSA), ec_entry(EC)) if keys is None else keys)
    return SignedTokens(settings, Known(known.keys), lambda: NOW_S * 1000).validate(token)


@pytest.mark.parametrize("key", [RSA, EC])
def test_a_token_of_a_known_key_says_who_the_client_is(key: Any) -> None:
    assert validated(signed(key)) == Token("olga", (NOW_S + 1000) * 1000)


def test_a_token_without_a_key_id_is_verified_with_each_key_of_its_algorithm() -> None:
    keys = key_set(rsa_entry(OTHER_RSA, kid="1"), rsa_entry(RSA, kid="2"), ec_entry(EC))
    data, _, signature = signed(RSA).rpartition(".")
    header = text(b'{"alg":"RS256"}')
    claims = data.split(".")[1]
    again = RSA.sign(f"{header}.{claims}".encode(), padding.PKCS1v15(), SHA256())
    assert validated(f"{header}.{claims}.{text(again)}", keys=keys).principal == "olga"
    with pytest.raises(TokenError):
        validated(f"{header}.{claims}.{signature}", keys=keys)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"exp": NOW_S - 31}, "expired"),
        ({"exp": None}, "no claim exp"),
        ({"iat": None}, "no claim iat"),
        ({"iat": NOW_S + 1001}, "after its end"),
        ({"iat": -1}, "before 1970"),
        ({"exp": "1000000000"}, "not a time"),
        ({"exp": 10**18}, "not a time"),
        ({"nbf": NOW_S + 1001}, "not valid yet"),
        ({"nbf": False}, "not a time"),
        ({"aud": ["kafka", 5]}, "claim aud"),
        ({"sub": " "}, "no text as its claim sub"),
        ({"sub": "x\ud800y"}, "half of a character"),
        ({"scope": ""}, "scope"),
        ({"scope": ["a", "a"]}, "scope"),
        ({"scope": ["a", " "]}, "scope"),
        ({"scope": [["a"]]}, "scope"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"nbf": "soon"}, "not a time"),
        ({"iss": "them"}, "another issuer"),
        ({"iss": None}, "another issuer"),
        ({"aud": ["x"]}, "another audience"),
        ({"aud": "kafkas"}, "another audience"),
        ({"aud": None}, "another audience"),
        ({"sub": ""}, "no text as its claim sub"),
        ({"sub": ["olga"]}, "no text as its claim sub"),
    ],
)
def test_claims_that_are_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenError, match=why):
        validated(signed(RSA, GOOD | changes))


def test_claims_that_pass() -> None:
    validated(signed(RSA, GOOD | {"exp": NOW_S - 29, "iat": NOW_S - 90}))
    validated(signed(RSA, GOOD | {"aud": "kafka", "nbf": NOW_S}))
    validated(signed(RSA, GOOD | {"aud": ["kafka", None], "nbf": None, "iat": NOW_S + 1000, "scope": 5}))
    assert validated(signed(RSA, GOOD | {"sub": " olga\n", "scope": ["a", "b"]})).principal == "olga"
    anyone = TokenSettings(keys_url="http://keys", subject_claim="name")
    assert validated(signed(RSA, {"name": "Olga", "iat": NOW_S, "exp": NOW_S + 9}), anyone).principal == "Olga"


def hmac_with_public_key() -> str:
    """A token whose secret is the public key: a verifier that takes the token's algorithm would be fooled."""
    public = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = text(b'{"alg":"HS256","kid":"r"}')
    data = f"{header}.{text(json.dumps(GOOD).encode())}"
    return f"{data}.{text(hmac.digest(public, data.encode(), hashlib.sha256))}"


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (signed(OTHER_RSA), "signature of the token is wrong"),
        (signed(OTHER_EC), "signature of the token is wrong"),
        (signed(RSA, kid="unknown"), "no key has the id"),
        (signed(RSA, kid="e"), "no key has the id"),
        (signed(RSA, alg="none"), "no key has the id"),
        (signed(RSA, alg="ES256", kid="e"), "signature of the token is wrong"),
        (signed(EC, alg="RS256", kid="r"), "signature of the token is wrong"),
        (signed(RSA, alg="RS512"), "no key has the id"),
        (signed(RSA, crit="x"), "extensions"),
        (".".join((text(b'{"alg":"none"}'), text(json.dumps(GOOD).encode()), "")), "no key has the id"),
        (hmac_with_public_key(), "no key has the id"),
        (signed(RSA).rpartition(".")[0] + ".", "signature of the token is wrong"),
        (signed(RSA).rpartition(".")[0] + ".*", "not base64"),
        (signed(EC)[:-10], "signature of the token is wrong"),
        ("a.b", "three parts"),
    ],
)
def test_signatures_that_are_refused(token: str, why: str) -> None:
    with pytest.raises(TokenError, match=why):
        validated(token)


@pytest.mark.parametrize("claims", ['{"sub": "olga", "sub": "eve", %s', '{"o": {"a": 1, "a": 2}, %s', '{"n": NaN, %s'])
def test_claims_that_readers_may_understand_differently_are_refused(claims: str) -> None:
    header = text(b'{"alg":"RS256"}')
    data = f"{header}.{text((claims % json.dumps(GOOD)[1:]).encode())}"
    signature = text(RSA.sign(data.encode(), padding.PKCS1v15(), SHA256()))
    with pytest.raises(TokenError, match="not JSON"):
        validated(f"{data}.{signature}")


def test_of_keys_with_one_id_the_first_verifies() -> None:
    keys = key_set(rsa_entry(OTHER_RSA), rsa_entry(RSA))
    assert validated(signed(OTHER_RSA), keys=keys).principal == "olga"
    with pytest.raises(TokenError, match="signature of the token is wrong"):
        validated(signed(RSA), keys=keys)


def test_a_changed_claim_is_refused() -> None:
    header, _, signature = signed(RSA).split(".")
    with pytest.raises(TokenError, match="signature of the token is wrong"):
        validated(f"{header}.{text(json.dumps(GOOD | {'sub': 'admin'}).encode())}.{signature}")


@pytest.mark.parametrize("entry", [b"1", b'"x"', b"null", b"[]"])
def test_an_entry_that_is_not_an_object_is_named(entry: bytes) -> None:
    with pytest.raises(InvalidKeys, match="has an entry 1 that is not a JSON object"):
        read_keys(b'{"keys": [%b]}' % entry)


DAMAGED: dict[str, tuple[Any, str]] = {
    "a point that is not on the curve": (ec_entry(EC, x="AA", y="AA"), r"is malformed \(ValueError\)"),
    "a short key": (rsa_entry(rsa.generate_private_key(65537, 1024)), "has a key of 1024 bits; allowed: 2048 to 8192"),
    "no type": ({"foo": 1}, r"is malformed \(KeyError\)"),
    "a number as text": ({"kty": "RSA", "n": 5, "e": "AQAB"}, r"is malformed \(TypeError\)"),
    "a character that base64 does not have": (rsa_entry(RSA, n="*"), r"is malformed \(Error\)"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_key_is_left_out_and_named_and_the_others_count(name: str) -> None:
    entry, why = DAMAGED[name]
    read = read_keys(key_set(entry, ec_entry(OTHER_EC, kid="new")))
    assert [key.id for key in read.keys] == ["new"]
    assert len(read.left_out) == 1
    assert re.fullmatch(f"entry 1 {why}", read.left_out[0])
