"""`SaslLogin`: how a client logs in, from the options of SASL: a mechanism, and what proves who the client is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from minikafka.client.option_checks import TokenProvider
from minikafka.client.security.token_source import TokenSource
from minikafka.protocol.sasl.jaas import JaasError, Login, LoginModule, read_jaas
from minikafka.protocol.sasl.oauthbearer import oauthbearer_message
from minikafka.protocol.sasl.plain import plain_message
from minikafka.protocol.sasl.sasl_errors import SaslError
from minikafka.protocol.sasl.unsecured_token import unsecured_claims, unsecured_token

SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
MECHANISMS = get_args(SaslMechanism)
_MECHANISM_OF_MODULE = {LoginModule.PLAIN: "PLAIN", LoginModule.OAUTHBEARER: "OAUTHBEARER"}
_EXTENSION = "unsecuredLoginExtension_"


class InvalidLogin(ValueError):
    """Settings of SASL do not belong together.

    Attributes:
        setting: Kafka's name of the setting.
        reason: what is wrong; never contains a secret.
    """

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: {reason}")
        self.setting, self.reason = setting, reason

    def __reduce__(self) -> tuple[type[InvalidLogin], tuple[str, str]]:
        return type(self), (self.setting, self.reason)


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """How a client logs in.

    Attributes:
        mechanism: one of `MECHANISMS`.
        username: the user, or the id of a delegation token; "" with OAUTHBEARER.
        password: of the user, or the token's HMAC.
        by_token: whether they are those of a delegation token (KIP-48).
        tokens: the application's tokens of OAUTHBEARER; None: the client makes an unsecured one of `claims`.
        claims: the options of OAuthBearerLoginModule.
    """

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    by_token: bool = False
    tokens: TokenSource | None = field(default=None, repr=False)
    claims: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, hash=False)

    @property
    def extensions(self) -> dict[str, str]:
        """The extensions of an unsecured token (KIP-342)."""
        found = {name: value for name, value in self.claims.items() if name.startswith(_EXTENSION)}
        return {name.removeprefix(_EXTENSION): value for name, value in found.items()}

    def unsecured_token(self, now_ms: int) -> str:
        """An unsecured token of `claims`, which begins now."""
        return unsecured_token(unsecured_claims(self.claims, now_ms))

    def blocking_token(self, now_ms: int) -> str:
        """The token of a `TokenFile`, or an unsecured one that begins now; "" unless the mechanism is OAUTHBEARER.

        For code without an event loop. Raises SaslAuthenticationFailedError.
        """
        if self.mechanism != "OAUTHBEARER":
            return ""
        if self.tokens is None:
            return self.unsecured_token(now_ms)
        token = self.tokens.provider()
        assert isinstance(token, str)
        return token

    def check(self, *, by_jaas: bool) -> None:
        """Raise InvalidLogin for texts, perhaps of `sasl.jaas.config`, that no message of the mechanism can carry."""
        try:
            if self.mechanism == "PLAIN":
                plain_message(self.username, self.password)
            elif self.mechanism == "OAUTHBEARER" and self.tokens is None:
                oauthbearer_message(self.unsecured_token(0), self.extensions)
        except SaslError as error:
            of_user = "sasl.username" if "\0" in self.username else "sasl.password"
            raise InvalidLogin("sasl.jaas.config" if by_jaas else of_user, str(error)) from None


def sasl_login(
    mechanism: str | None,
    username: str | None,
    password: str | None,
    jaas: str | None,
    token_provider: TokenProvider | None = None,
) -> SaslLogin:
    """The login of these settings. Raises InvalidLogin if one is missing, or if they contradict each other."""
    login = _read(jaas)
    chosen = mechanism or _implied(login, token_provider)
    if chosen == "OAUTHBEARER":
        made = _oauth_login(login, token_provider)
    else:
        if token_provider is not None:
            raise InvalidLogin("sasl.oauth.token.provider", f"is for OAUTHBEARER, and the mechanism is {chosen}")
        made = _password_login(chosen, username, password, login)
    made.check(by_jaas=login is not None)
    return made


def _read(jaas: str | None) -> Login | None:
    try:
        return None if jaas is None else read_jaas(jaas)
    except JaasError as error:
        raise InvalidLogin("sasl.jaas.config", str(error)) from None


def _implied(login: Login | None, token_provider: TokenProvider | None) -> str:
    if token_provider is not None:
        return "OAUTHBEARER"
    implied = None if login is None else _MECHANISM_OF_MODULE.get(login.module)
    if implied is None:
        raise InvalidLogin("sasl.mechanism", f"is missing: must be one of {', '.join(MECHANISMS)}")
    return implied


def _check_module(mechanism: str, login: Login | None) -> None:
    wanted = LoginModule.of_mechanism(mechanism)
    if login is not None and login.module is not wanted:
        raise InvalidLogin("sasl.jaas.config", f"has the module {login.module.value}, but {mechanism} takes {wanted}")


def _oauth_login(login: Login | None, token_provider: TokenProvider | None) -> SaslLogin:
    _check_module("OAUTHBEARER", login)
    if token_provider is not None:
        return SaslLogin("OAUTHBEARER", tokens=TokenSource(token_provider))
    if login is None:
        raise InvalidLogin(
            "sasl.oauth.token.provider",
            "is missing: OAUTHBEARER takes a function that returns a token, or the file of one in "
            "sasl.oauthbearer.token.endpoint.url; sasl.jaas.config makes unsecured ones",
        )
    return SaslLogin("OAUTHBEARER", claims=login.options)


def _password_login(mechanism: str, username: str | None, password: str | None, login: Login | None) -> SaslLogin:
    _check_module(mechanism, login)
    if login is not None:
        if username is not None or password is not None:
            raise InvalidLogin("sasl.jaas.config", "has the user and the password: give it or sasl.username, not both")
        username, password = login.username, login.password
    for name, value in (("username", username), ("password", password)):
        if not value:
            where = f"sasl.{name}" if login is None else "sasl.jaas.config"
            raise InvalidLogin(where, f"is missing: {mechanism} needs a {name}" if login is None else f"has no {name}")
    assert username is not None
    assert password is not None
    return SaslLogin(mechanism, username, password, login is not None and login.by_token)
