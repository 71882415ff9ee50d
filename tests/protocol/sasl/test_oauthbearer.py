"""OAUTHBEARER messages and unsecured tokens, as Kafka takes and refuses them."""

from __future__ import annotations

import base64
import json

import pytest

from minikafka.protocol.sasl.message_sizes import MESSAGE_BYTES_MAX, TOKEN_BYTES_MAX
from minikafka.protocol.sasl.oauthbearer import (
    OAuthBearerMessage,
    SchemeError,
    oauthbearer_message,
    parse_oauthbearer,
    refusal_text,
)
from minikafka.protocol.sasl.sasl_errors import SaslError
from minikafka.protocol.sasl.unsecured_token import (
    Token,
    TokenError,
    unsecured_claims,
    unsecured_token,
    validate_unsecured,
)

NOW_MS = 1_000_000_000
NOW_S = NOW_MS / 1000
GOOD = {"sub": "olga", "iat": NOW_S, "exp": NOW_S + 1000}


def test_a_message_is_read_as_it_was_written() -> None:
    message = oauthbearer_message("a.b-c_d.", {"traceId": "x = y"})
    assert message == b"n,,\x01auth=Bearer a.b-c_d.\x01traceId=x = y\x01\x01"
    assert parse_oauthbearer(message) == OAuthBearerMessage("a.b-c_d.", "", {"traceId": "x = y"})
    assert parse_oauthbearer(b"n,a=ol=2Cga,\x01auth=bearer  abc\x01\x01") == OAuthBearerMessage("abc", "ol,ga", {})
    assert "abc" not in repr(OAuthBearerMessage("abc"))


@pytest.mark.parametrize(
    "message",
    [b"", b"garbage", b"n,,\x01x=y\x01\x01", b"n,,\x01auth=Bearer abc\x01", b"y,,\x01auth=Bearer abc\x01\x01",
     b"n,,\x01auth=Bearer a=b\x01\x01", b"n,,\x01auth=Bearer\tabc\x01\x01", b"n,,\x01auth=b\x01auth=c\x01\x01",
     b"n,,\x01auth=Bearer abc\x01a1=b\x01\x01", b"n,,\x01auth=Bearer \x01\x01", b"n,,\x01\x01"],
)
def test_messages_that_kafka_refuses(message: bytes) -> None:
    with pytest.raises(SaslError):
        parse_oauthbearer(message)


def bearer_of(size_bytes: int) -> bytes:
    message = oauthbearer_message("a")
    return message.replace(b"Bearer a", b"Bearer a" + b"a" * (size_bytes - len(message)))


def test_messages_that_are_too_large_are_refused_before_they_are_matched() -> None:
    parse_oauthbearer(bearer_of(TOKEN_BYTES_MAX))
    with pytest.raises(SaslError, match="the OAUTHBEARER message has 65537 bytes; allowed: at most 65536"):
        parse_oauthbearer(bearer_of(TOKEN_BYTES_MAX + 1))
    with pytest.raises(SaslError, match="the authorization id in the OAUTHBEARER message has"):
        parse_oauthbearer(b"n,a=" + b"x" * MESSAGE_BYTES_MAX + b",\x01auth=Bearer a\x01\x01")


def test_another_scheme_is_told_apart() -> None:
    with pytest.raises(SchemeError):
        parse_oauthbearer(b"n,,\x01auth=Basic abc\x01\x01")


@pytest.mark.parametrize(
    ("token", "extensions"),
    [("", {}), ("a b", {}), ("a\x01b", {}), ("abc", {"auth": "x"}), ("abc", {"a1": "x"}), ("abc", {"a": ""}),
     ("abc", {"a": "x\x01"})],
)
def test_what_a_message_cannot_carry(token: str, extensions: dict[str, str]) -> None:
    with pytest.raises(SaslError):
        oauthbearer_message(token, extensions)


def test_refusals_are_json() -> None:
    assert refusal_text("invalid_token") == '{"status":"invalid_token"}'
    assert refusal_text("insufficient_scope", "a b") == '{"status":"insufficient_scope","scope":"a b"}'


def test_the_claims_of_a_client() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginNumberClaim_level": "3",
        "unsecuredLoginListClaim_scope": "|a|b",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_traceId": "x",
    }
    claims = unsecured_claims(options, NOW_MS)
    assert claims == {"iat": NOW_S, "exp": NOW_S + 60, "sub": "alice", "level": 3, "scope": ["a", "b"]}
    required = {"unsecuredValidatorRequiredScope": "a b"}
    assert validate_unsecured(unsecured_token(claims), required, NOW_MS) == Token("alice", NOW_MS + 60_000)


@pytest.mark.parametrize(
    "options",
    [{}, {"unsecuredLoginStringClaim_sub": ""}, {"unsecuredLoginLifetimeSeconds": "secret"},
     {"unsecuredLoginLifetimeSeconds": "inf"}, {"unsecuredLoginNumberClaim_secret": "secret"}],
)
def test_claims_that_cannot_be_made(options: dict[str, str]) -> None:
    with pytest.raises(SaslError) as error:
        unsecured_claims(options, NOW_MS)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "olga", "iat": NOW_S},
        {"exp": NOW_S + 9},
        {"sub": "olga", "exp": NOW_S - 1},
        {"sub": "olga", "exp": NOW_S},
        {"sub": "olga", "iat": NOW_S + 50, "exp": NOW_S + 90},
        {"sub": "olga", "iat": NOW_S + 5, "exp": NOW_S + 2},
        {"sub": "olga", "exp": "9999999999"},
        {"sub": "olga", "exp": True},
        {"sub": "olga", "exp": 1e300},
        {"sub": "olga", "exp": float("nan")},
        {"sub": 5, "exp": NOW_S + 99},
        {"sub": "", "exp": NOW_S + 99},
        {"sub": "a\ud800", "exp": NOW_S + 99},
        {**GOOD, "scope": 5},
    ],
)
def test_claims_that_kafka_refuses(claims: dict[str, object]) -> None:
    with pytest.raises(TokenError) as error:
        validate_unsecured(unsecured_token(claims), {}, NOW_MS)
    assert error.value.status == "invalid_token"


def encoded(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "token",
    [
        f"{encoded({'alg': 'RS256'})}.{encoded(GOOD)}.",
        f"{encoded({'alg': 'None'})}.{encoded(GOOD)}.",
        f"{encoded({})}.{encoded(GOOD)}.",
        f"{encoded({'alg': 'none'})}.{encoded(GOOD)}.abc",
        f"{encoded({'alg': 'none'})}.{encoded(GOOD)}",
        f"{encoded({'alg': 'none'})}.{encoded([1])}.",
        f"{encoded({'alg': 'none'})}.{encoded(GOOD)}.a.b",
        f"{encoded({'alg': 'none'})}.!!!!.",
        "abc",
        "a..",
        "eA.eQ.",
        f"{encoded({'alg': 'none'})}.{base64.b64encode(b'[' * 60_000).decode().rstrip('=')}.",
    ],
)
def test_tokens_that_kafka_refuses(token: str) -> None:
    with pytest.raises(TokenError):
        validate_unsecured(token, {}, NOW_MS)


def test_the_options_of_the_validator() -> None:
    late = {"sub": "olga", "name": "Olga", "exp": NOW_S - 1, "roles": "a b"}
    options = {
        "unsecuredValidatorAllowableClockSkewMs": "2000",
        "unsecuredValidatorPrincipalClaimName": "name",
        "unsecuredValidatorScopeClaimName": "roles",
        "unsecuredValidatorRequiredScope": "b",
    }
    assert validate_unsecured(unsecured_token(late), options, NOW_MS) == Token("Olga", NOW_MS - 1000)
    with pytest.raises(TokenError) as error:
        validate_unsecured(unsecured_token(late), {**options, "unsecuredValidatorRequiredScope": "a c"}, NOW_MS)
    assert (error.value.status, error.value.scope) == ("insufficient_scope", "a c")
