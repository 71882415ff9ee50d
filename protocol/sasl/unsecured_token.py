"""Unsigned JSON Web Tokens (RFC 7515, appendix A.5), which everybody can make: for tests, as in Kafka.

Source: Kafka's `OAuthBearerUnsecuredLoginCallbackHandler`, `OAuthBearerUnsecuredJws` and `OAuthBearerValidationUtils`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from minikafka.protocol.sasl.oauthbearer import INVALID_TOKEN
from minikafka.protocol.sasl.sasl_errors import SaslError

__all__ = [
    "Token",
    "TokenError",
    "check_validator",
    "decoded_part",
    "parts_of",
    "text_claim",
    "time_of",
    "unsecured_claims",
    "unsecured_token",
    "validate_unsecured",
]

LOGIN_LIFETIME_S = 3600
"""The validity, in seconds, of a token that a client makes without the option `unsecuredLoginLifetimeSeconds`."""


class TokenError(SaslError):
    """A token is not valid.

    Attributes:
        status: `invalid_token` or `insufficient_scope`.
        scope: The scope that the token would need.
    """

    def __init__(self, reason: str, status: str = INVALID_TOKEN, scope: str = "") -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope


@dataclass(frozen=True, slots=True)
class Token:
    """The content of a valid token that a server uses.

    Attributes:
        principal: The name of the client.
        expires_ms: When the token ends, in milliseconds since 1970.
    """

    principal: str
    expires_ms: int


# -- clients -----------------------------------------------------------------------------------------------------


def unsecured_token(claims: Mapping[str, object]) -> str:
    """The token with these claims."""
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def unsecured_claims(options: Mapping[str, str], now_ms: int) -> dict[str, object]:
    """The claims that the options of Kafka's OAuthBearerLoginModule ask for.

    Args:
        options: Of them, those that begin with `unsecuredLogin`: `unsecuredLoginStringClaim_sub=alice`.
        now_ms: For the claims `iat` and `exp`, unless the options name them.

    Raises:
        SaslError: There is no principal claim, or an option is no number.
    """
    now_s = now_ms / 1000
    lifetime_s = _number(options.get("unsecuredLoginLifetimeSeconds", str(LOGIN_LIFETIME_S)), "LoginLifetimeSeconds")
    claims: dict[str, object] = {"iat": now_s, "exp": now_s + lifetime_s}
    for name, value in options.items():
        kind, _, claim = name.partition("Claim_")
        if not claim:
            continue
        match kind:
            case "unsecuredLoginString":
                claims[claim] = value
            case "unsecuredLoginNumber":
                claims[claim] = _number(value, "LoginNumberClaim_…")
            case "unsecuredLoginList":
                # The first character separates the items: |a|b
                claims[claim] = value[1:].split(value[0]) if value else []
            case _:
                pass
    principal = options.get("unsecuredLoginPrincipalClaimName", "sub")
    if not claims.get(principal):
        raise SaslError(f"unsecured tokens need a principal: set unsecuredLoginStringClaim_{principal}")
    return claims


def _number(text: str, option: str) -> float:
    try:
        number = float(text)
        whole = int(number)
    except (ValueError, OverflowError):
        raise SaslError(f"the option unsecured{option} is not a number") from None
    return whole if whole == number else number


def _encoded(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


# -- servers -----------------------------------------------------------------------------------------------------


def parts_of(token: str) -> tuple[str, str, str]:
    """The header, claims and signature of a token, all still encoded.

    Raises:
        TokenError: It has not three parts, or the first two are empty.
    """
    parts = token.split(".")
    if len(parts) != 3 or not parts[0] or not parts[1]:
        raise TokenError("the token does not have the three parts of a signed token")
    return parts[0], parts[1], parts[2]


def decoded_part(part: str) -> dict[str, Any]:
    """The JSON object in the header or the claims of a token.

    Raises:
        TokenError: There is none, or a member of an object is named twice: readers would differ about its value.
    """
    try:
        text = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True).decode()
        value: Any = json.loads(text, object_pairs_hook=_members, parse_constant=_no_constant)
    except (ValueError, binascii.Error, RecursionError):
        raise TokenError("a part of the token is not JSON in base64") from None
    if not isinstance(value, dict):
        raise TokenError("a part of the token is not a JSON object")
    return cast(dict[str, Any], value)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member is named twice")
    return members


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def check_validator(options: Mapping[str, str]) -> None:
    """Check the options of `validate_unsecured`. Raises SaslError."""
    _skew_ms(options)


def _skew_ms(options: Mapping[str, str]) -> int:
    return int(_number(options.get("unsecuredValidatorAllowableClockSkewMs", "0"), "ValidatorAllowableClockSkewMs"))


def validate_unsecured(token: str, options: Mapping[str, str], now_ms: int) -> Token:
    """Validate an unsigned token.

    Args:
        options: Of the server's OAuthBearerLoginModule, those that begin with `unsecuredValidator`.

    Raises:
        TokenError: The token is malformed, has a signature or another algorithm than `none`, has no principal or no
            end, is over or from the future, or lacks a scope.
    """
    header, claims_part, signature = parts_of(token)
    if decoded_part(header).get("alg") != "none" or signature:
        raise TokenError("the token is signed; this listener validates unsecured tokens only")
    claims = decoded_part(claims_part)
    principal_name = options.get("unsecuredValidatorPrincipalClaimName", "sub")
    principal = text_claim(claims, principal_name)
    if not principal.strip():
        raise TokenError(f"the token has no text as its claim {principal_name}")
    expires_ms = _check_times(claims, now_ms, _skew_ms(options))
    _check_scope(claims, options)
    return Token(principal, expires_ms)


def text_claim(claims: Mapping[str, Any], name: str, *, trimmed: str = "") -> str:
    """A claim that names somebody, without the characters `trimmed` at its ends.

    Raises:
        TokenError: It is no text, empty, or has half of a character (a lone surrogate), which cannot be encoded.
    """
    value = claims.get(name)
    text = value.strip(trimmed) if trimmed and isinstance(value, str) else value
    if not isinstance(text, str) or not text:
        raise TokenError(f"the token has no text as its claim {name}")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise TokenError(f"the token's claim {name} has half of a character")
    return text


def _check_times(claims: Mapping[str, Any], now_ms: int, skew_ms: int) -> int:
    """Check that a token is valid now, and return when it ends; `iat` may be missing, `exp` may not.

    Raises:
        TokenError: It is not.
    """
    issued_s, expires_s = time_of(claims, "iat"), time_of(claims, "exp")
    if expires_s is None:
        raise TokenError("the token has no claim exp")
    if now_ms - skew_ms >= expires_s * 1000:
        raise TokenError("the token is expired")
    if issued_s is not None and (issued_s * 1000 > now_ms + skew_ms or issued_s >= expires_s):
        raise TokenError("the token is issued in the future, or after its end")
    return round(expires_s * 1000)


_TIME_S_MAX = 1e12
"""More seconds than this would overflow in milliseconds on the wire."""


def time_of(claims: Mapping[str, Any], name: str) -> float | None:
    """The time in a claim, in seconds since 1970; None without it.

    Raises:
        TokenError: It is no number, or too large for milliseconds on the wire.
    """
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_TIME_S_MAX < value < _TIME_S_MAX:
        raise TokenError(f"the token's claim {name} is not a time in seconds")
    return float(value)


def _scopes_of(claims: Mapping[str, Any], name: str) -> set[str]:
    """The scopes that a token grants: a list, or a text with blanks between them.

    Raises:
        TokenError: The claim is something else.
    """
    value: object = claims.get(name, ())
    if isinstance(value, str):
        return set(value.split())
    if isinstance(value, Iterable) and not isinstance(value, dict):
        return {str(scope) for scope in cast(Iterable[object], value)}
    raise TokenError(f"the token's claim {name} is not a list or text of scopes")


def _check_scope(claims: Mapping[str, Any], options: Mapping[str, str]) -> None:
    required = options.get("unsecuredValidatorRequiredScope", "").split()
    granted = _scopes_of(claims, options.get("unsecuredValidatorScopeClaimName", "scope"))
    if not granted.issuperset(required):
        scope = " ".join(required)
        raise TokenError(f"the token lacks a scope of {scope}", "insufficient_scope", scope)
