"""`TokenSettings`: which tokens of OAUTHBEARER a listener takes, and where the keys are that have signed them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["UNSECURED_HANDLER", "VALIDATOR_HANDLERS", "TokenSettings"]

_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
UNSECURED_HANDLER = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
VALIDATOR_HANDLERS = (
    f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
)
"""Kafka's names of the classes that validate signed tokens, of now and of earlier versions."""


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Which tokens a listener takes.

    Attributes:
        unsecured: The options of the validator of unsecured tokens; None: only signed tokens are taken.
        keys_url: Where the key set is (`sasl.oauthbearer.jwks.endpoint.url`): a URL of a file, of http or of https.
        refresh_ms: After how long the key set is read again.
        backoff_ms, backoff_ms_max: After how long it is read again if it could not be read, at first and at most.
        audiences: Of these audiences one must be the token's; empty: any.
        issuer: The token's issuer; None: any.
        skew_s: By how much clocks may differ.
        scope_claim: The claim with the token's scopes.
        subject_claim: The claim with the name of the client.
    """

    unsecured: Mapping[str, str] | None = field(default=None, repr=False)
    keys_url: str = ""
    refresh_ms: int = 3_600_000
    backoff_ms: int = 100
    backoff_ms_max: int = 10_000
    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    skew_s: int = 30
    scope_claim: str = "scope"
    subject_claim: str = "sub"
