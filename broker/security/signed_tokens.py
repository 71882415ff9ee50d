"""Validates signed JSON Web Tokens (RFC 7519) with the keys of a JSON Web Key Set (RFC 7517), for OAUTHBEARER.

A token names its algorithm, but the key decides which one may verify it, and `none` is no algorithm.
Source: Kafka's `BrokerJwtValidator`, `VerificationKeyResolverFactory`.
"""

import binascii
from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from minikafka.broker.security.key_sets import Key, decoded
from minikafka.broker.settings.token_settings import TokenSettings
from minikafka.protocol.sasl.unsecured_token import Token, TokenError, decoded_part, parts_of, text_claim, time_of

__all__ = ["SignedTokens"]

KEYS_TRIED_MAX = 10
"""The most keys that may have signed a token which names none: each takes up to a millisecond."""
_TRIMMED = "".join(map(chr, range(0x21)))


class Keys(Protocol):
    """The keys that may have signed tokens; in a node `SigningKeys`."""

    def current(self) -> tuple[Key, ...]:
        """The keys now. Raises KeysMissing if they have to be read again first."""
        ...

    def missed(self) -> None:
        """A token is of none of the keys. Raises KeysMissing if the provider may have new keys."""
        ...


class SignedTokens:
    """Validates the tokens of a listener.

    Args:
        keys: The keys that may have signed them.
        now_ms: The wall clock, in milliseconds since 1970.
    """

    def __init__(self, settings: TokenSettings, keys: Keys, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._keys = keys
        self._now_ms = now_ms

    def validate(self, token: str) -> Token:
        """Return who a token is of.

        Raises:
            TokenError: It is malformed, not signed by one of the keys, over or from the future, or of another issuer or
                for another audience than the settings say, or has no subject.
            KeysMissing: The keys have to be read again first.
        """
        header_part, claims_part, signature_part = parts_of(token)
        self._check_signature(header_part, claims_part, signature_part)
        claims, settings = decoded_part(claims_part), self._settings
        expires_ms = _check_times(claims, self._now_ms(), settings.skew_s * 1000)
        if settings.issuer is not None and claims.get("iss") != settings.issuer:
            raise TokenError("the token is of another issuer")
        if settings.audiences and not _audiences(claims.get("aud")) & set(settings.audiences):
            raise TokenError("the token is for another audience")
        _check_scope(claims.get(settings.scope_claim), settings.scope_claim)
        return Token(_principal(claims, settings.subject_claim), expires_ms)

    def _check_signature(self, header_part: str, claims_part: str, signature_part: str) -> None:
        header = decoded_part(header_part)
        if "crit" in header or header.get("b64") is False:
            raise TokenError("the token has extensions that are not understood")
        try:
            signature = decoded(signature_part)
        except (ValueError, binascii.Error):
            raise TokenError("the signature of the token is not base64") from None
        data = f"{header_part}.{claims_part}".encode()
        chosen = header.get("kid")
        keys = [
            key
            for key in self._keys.current()
            if key.algorithm == header.get("alg") and (chosen is None or key.id == chosen)
        ]
        # As in Kafka, the first of those that have one id.
        keys = keys[: KEYS_TRIED_MAX if chosen is None else 1]
        if not keys:
            self._keys.missed()
            raise TokenError("no key has the id and the algorithm of the token (allowed: RS256, ES256)")
        if not any(key.verifies(data, signature) for key in keys):
            raise TokenError("the signature of the token is wrong")


def _check_times(claims: Mapping[str, Any], now_ms: int, skew_ms: int) -> int:
    """Check when a token is valid, and return when it ends. As in Kafka, it may be issued in the future."""
    issued_s, expires_s, begins_s = (time_of(claims, name) for name in ("iat", "exp", "nbf"))
    if issued_s is None or expires_s is None:
        raise TokenError(f"the token has no claim {'exp' if expires_s is None else 'iat'}")
    if now_ms - skew_ms >= expires_s * 1000:
        raise TokenError("the token is expired")
    if not 0 <= issued_s <= expires_s:
        raise TokenError("the token is issued after its end, or before 1970")
    if begins_s is not None and (begins_s * 1000 > now_ms + skew_ms or begins_s > expires_s):
        raise TokenError("the token is not valid yet, or never")
    return round(expires_s * 1000)


def _audiences(value: object) -> set[str]:
    listed = cast(list[object], value) if isinstance(value, list) else [value]
    if not all(isinstance(one, str | None) for one in listed):
        raise TokenError("the token's claim aud is not a text or a list of texts")
    return {one for one in listed if isinstance(one, str)}


def _check_scope(value: object, name: str) -> None:
    """Check that a text, or each of a list, says something; as in Kafka, values of other kinds are not looked at."""
    listed = cast(list[object], value) if isinstance(value, list) else [value] if isinstance(value, str) else []
    scopes = [one.strip() for one in listed if isinstance(one, str)]
    if len(scopes) < len(listed) or not all(scopes) or len(set(scopes)) < len(scopes):
        raise TokenError(f"the token's claim {name} is not a text or a list of different texts")


def _principal(claims: Mapping[str, Any], name: str) -> str:
    # As in Java, what has to go are blanks and control characters, but not other spaces.
    return text_claim(claims, name, trimmed=_TRIMMED)
