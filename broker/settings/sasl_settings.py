"""`SaslSettings`: how the clients of one listener authenticate, read from the settings of a node.

    sasl.enabled.mechanisms                                         or listener.name.<listener>.sasl.enabled.mechanisms
    listener.name.<listener>.<mechanism>.sasl.jaas.config           required for each enabled mechanism
    connections.max.reauth.ms                                       or with the prefix of the listener or mechanism
    listener.name.<listener>.oauthbearer.sasl.server.callback.handler.class     required for OAUTHBEARER
    sasl.oauthbearer.…                                              or with the prefix of the listener or mechanism

Names of listeners and mechanisms are in lower case there. Source: `SaslChannelBuilder`, `JaasContext`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from minikafka.broker.settings.token_settings import UNSECURED_HANDLER, VALIDATOR_HANDLERS, TokenSettings
from minikafka.client.security.sasl_login import InvalidLogin, SaslLogin, sasl_login
from minikafka.protocol.sasl.file_urls import file_of_url
from minikafka.protocol.sasl.jaas import JaasError, Login, LoginModule, read_jaas
from minikafka.protocol.sasl.sasl_errors import SaslError
from minikafka.protocol.sasl.unsecured_token import check_validator
from minikafka.protocol.settings.registry import NODE_SETTINGS, SettingValue, listener_base_name

__all__ = [
    "MECHANISMS",
    "OF_MECHANISMS_ONLY",
    "SASL_PROTOCOLS",
    "InvalidSaslSetting",
    "MechanismSettings",
    "SaslSettings",
    "is_sasl_setting_of_listeners",
    "login_at_controllers",
    "login_between_brokers",
    "sasl_settings",
]

SASL_PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_ENABLED, _JAAS, _REAUTH = "sasl.enabled.mechanisms", "sasl.jaas.config", "connections.max.reauth.ms"
_HANDLER = "sasl.server.callback.handler.class"
_KEYS = "sasl.oauthbearer.jwks.endpoint.url"
_TOKENS = (
    _KEYS,
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
)
_OF_LISTENERS = (_ENABLED, _REAUTH, "sasl.server.max.receive.size", *_TOKENS)
_OF_MECHANISMS = (_JAAS, _REAUTH, _HANDLER, *_TOKENS)
OF_MECHANISMS_ONLY = (_JAAS, _HANDLER)
"""Settings that have no effect without the prefixes of a listener and a mechanism."""


def is_sasl_setting_of_listeners(name: str) -> bool:
    """Whether a name is a setting of this file, with the prefix of a listener, and of a mechanism if it needs one."""
    base = listener_base_name(name) or ""
    mechanism, _, setting = base.partition(".")
    return base in _OF_LISTENERS or (setting in _OF_MECHANISMS and mechanism.upper() in MECHANISMS)


class InvalidSaslSetting(ValueError):
    """A listener cannot authenticate its clients.

    Attributes:
        name: The setting.
        message: What is wrong with it; without its value.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name
        self.message = message


@dataclass(frozen=True, slots=True)
class MechanismSettings:
    """One mechanism of a listener.

    Attributes:
        name: The mechanism, as `SCRAM-SHA-256`.
        login: The login module, with the users and passwords of PLAIN.
        session_ms_max: After how long a client has to authenticate again; 0 for never (KIP-368).
        tokens: Which tokens are taken; None for other mechanisms than OAUTHBEARER.
    """

    name: str
    login: Login
    session_ms_max: int
    tokens: TokenSettings | None = None


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """The authentication of one listener.

    Attributes:
        mechanisms: By name, in the order in which clients are told them.
        message_bytes_max: The largest request before a client is authenticated.
        failure_delay_ms: How long a failed authentication is answered later.
    """

    mechanisms: Mapping[str, MechanismSettings]
    message_bytes_max: int
    failure_delay_ms: int


def sasl_settings(given: Mapping[str, str], listener: str) -> SaslSettings:
    """Read the settings of a listener.

    Args:
        given: The texts of the settings of a node.
        listener: The name of the listener.

    Raises:
        InvalidSaslSetting: A mechanism is unknown, or has no valid login module.
    """
    prefix = f"listener.name.{listener.lower()}."
    name, enabled = _value(given, _ENABLED, prefix)
    assert isinstance(enabled, tuple)
    if not enabled:
        raise InvalidSaslSetting(name, f"the listener {listener} needs a mechanism (allowed: {', '.join(MECHANISMS)})")
    for mechanism in enabled:
        if mechanism not in MECHANISMS:
            which = "GSSAPI (Kerberos)" if mechanism == "GSSAPI" else mechanism
            raise InvalidSaslSetting(
                name, f"{which} of the listener {listener} is not supported (allowed: {', '.join(MECHANISMS)})"
            )
    return SaslSettings(
        {mechanism: _mechanism(given, prefix, mechanism) for mechanism in enabled},
        _number(given, "sasl.server.max.receive.size", prefix),
        _number(given, "connection.failed.authentication.delay.ms"),
    )


def login_between_brokers(given: Mapping[str, str], listener: str) -> SaslLogin:
    """How brokers log in at each other's listener: by the login module of the listener's mechanism.

    Raises:
        InvalidSaslSetting: The mechanism is not enabled on the listener, or its login module has no user.
    """
    enabled = tuple(sasl_settings(given, listener).mechanisms)
    return _login_of_nodes(given, listener, "sasl.mechanism.inter.broker.protocol", enabled)


def login_at_controllers(given: Mapping[str, str], listener: str, *, is_controller: bool) -> SaslLogin:
    """How this node logs in at the listener of controllers: by the login module of the listener's mechanism.

    Args:
        is_controller: Whether this node has that listener itself, so that the mechanism must be enabled there.

    Raises:
        InvalidSaslSetting: The mechanism is unknown or not enabled, or there is no login module with a user.
    """
    enabled = tuple(sasl_settings(given, listener).mechanisms) if is_controller else MECHANISMS
    return _login_of_nodes(given, listener, "sasl.mechanism.controller.protocol", enabled)


def _login_of_nodes(given: Mapping[str, str], listener: str, setting: str, enabled: tuple[str, ...]) -> SaslLogin:
    mechanism = str(_value(given, setting)[1])
    if mechanism not in enabled:
        raise InvalidSaslSetting(
            setting, f"{mechanism} is not enabled on the listener {listener} (allowed: {', '.join(enabled)})"
        )
    module = f"listener.name.{listener.lower()}.{mechanism.lower()}.{_JAAS}"
    if module not in given:
        raise InvalidSaslSetting(module, f"is required: this node logs in by it at the listener {listener}")
    try:
        return sasl_login(mechanism, None, None, given[module])
    except InvalidLogin as error:
        raise InvalidSaslSetting(module, f"nodes log in by it, and it {error.reason}") from None


def _value(given: Mapping[str, str], setting: str, *prefixes: str) -> tuple[str, SettingValue]:
    """The name and value of a setting: with the first of the prefixes that is given, or without prefix."""
    names = [f"{prefix}{setting}" for prefix in prefixes]
    name = next((one for one in (*names, setting) if one in given), None)
    return (setting, NODE_SETTINGS[setting].kafkas_default) if name is None else (
        name, NODE_SETTINGS[setting].parse(given[name]))


def _number(given: Mapping[str, str], setting: str, *prefixes: str) -> int:
    _, value = _value(given, setting, *prefixes)
    assert isinstance(value, int), f"{setting} is {value!r}"
    return value


def _mechanism(given: Mapping[str, str], prefix: str, mechanism: str) -> MechanismSettings:
    own = f"{prefix}{mechanism.lower()}."
    name = f"{own}{_JAAS}"
    if name not in given:
        raise InvalidSaslSetting(name, f"is required, since {mechanism} is enabled")
    try:
        login = read_jaas(given[name])
    except JaasError as error:
        raise InvalidSaslSetting(name, str(error)) from None
    wanted = LoginModule.of_mechanism(mechanism)
    if login.module is not wanted:
        raise InvalidSaslSetting(name, f"has the login module of another mechanism than {mechanism}")
    handler = given.get(f"{own}{_HANDLER}")
    if mechanism != "OAUTHBEARER" and handler is not None:
        raise InvalidSaslSetting(f"{own}{_HANDLER}", "is not supported: minikafka runs no Java classes")
    tokens = _tokens(given, (own, prefix), handler, login) if mechanism == "OAUTHBEARER" else None
    return MechanismSettings(mechanism, login, max(0, _number(given, _REAUTH, own, prefix)), tokens)


def _tokens(
    given: Mapping[str, str], prefixes: tuple[str, str], handler: str | None, login: Login
) -> TokenSettings:
    if handler == UNSECURED_HANDLER:
        options = {name: value for name, value in login.options.items() if name.startswith("unsecuredValidator")}
        try:
            check_validator(options)
        except SaslError as error:
            raise InvalidSaslSetting(f"{prefixes[0]}{_JAAS}", str(error)) from None
        return TokenSettings(unsecured=options)
    if handler not in VALIDATOR_HANDLERS:
        raise InvalidSaslSetting(
            f"{prefixes[0]}{_HANDLER}",
            f"must say which tokens are taken (allowed: {VALIDATOR_HANDLERS[0]}, and for tests {UNSECURED_HANDLER})",
        )
    name, url = _value(given, _KEYS, *prefixes)
    _check_keys_url(name, str(url or ""))
    values = [_value(given, setting, *prefixes)[1] for setting in _TOKENS[1:]]
    refresh_ms, backoff_ms, backoff_ms_max, audiences, issuer, skew_s, scope_claim, subject_claim = values
    assert isinstance(refresh_ms, int)
    assert isinstance(backoff_ms, int)
    assert isinstance(backoff_ms_max, int)
    assert isinstance(skew_s, int)
    assert isinstance(audiences, tuple)
    return TokenSettings(
        None,
        str(url),
        max(0, refresh_ms),
        max(0, backoff_ms),
        max(0, backoff_ms_max),
        audiences,
        None if issuer is None else str(issuer),
        max(0, skew_s),
        str(scope_claim),
        str(subject_claim),
    )


def _check_keys_url(name: str, url: str) -> None:
    """Check the URL of a key set. Raises InvalidSaslSetting."""
    if file_of_url(url) is not None:
        return
    try:
        parts = urlsplit(url)
        is_right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_right = False
    if not is_right or not re.fullmatch(r"[\x21-\x3f\x41-\x7e]+", url):
        raise InvalidSaslSetting(
            name,
            "must be the URL of a file, of http or of https, without a user and without blanks, as "
            "file:///etc/kafka/jwks.json or https://login.example.org/keys",
        )
