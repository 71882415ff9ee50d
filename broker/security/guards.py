"""`guards_of`: the authentication of each listener of a node that needs one. Uses trio: its clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import trio

from minikafka.broker.connections.routes import Route
from minikafka.broker.security.authentication import ListenerAuthentication, Requests
from minikafka.broker.security.authentication_record import AuthenticationRecord
from minikafka.broker.security.mechanisms import Credentials, mechanism_of
from minikafka.broker.security.sasl_session import Mechanism
from minikafka.broker.settings.listeners import Listener
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.broker.settings.sasl_settings import SASL_PROTOCOLS, InvalidSaslSetting, sasl_settings
from minikafka.broker.settings.token_settings import TokenSettings
from minikafka.controller.line_rate import LineRate
from minikafka.protocol.sasl.unsecured_token import Token, validate_unsecured

if TYPE_CHECKING:
    from minikafka.broker.security.signing_keys import KeyReading

__all__ = ["guard_of", "guards_of", "token_validator"]

FAILURES_OF_ADDRESS_MAX = 10
"""The most failed authentications of an address that are logged in a second."""


def guards_of(
    config: NodeConfig,
    listeners: tuple[Listener, ...],
    requests: Requests,
    routes: Mapping[int, Route[Any]],
    credentials: Credentials,
    now_ms: Callable[[], int],
) -> dict[str, ListenerAuthentication]:
    """The authentication of those listeners that have SASL, by the name of the listener.

    Args:
        requests: Answers the requests of authenticated clients.
        now_ms: The wall clock, in milliseconds since 1970.
    """
    return {
        listener.name: guard_of(config, listener, requests, routes, credentials, now_ms)
        for listener in listeners
        if listener.protocol in SASL_PROTOCOLS
    }


def guard_of(
    config: NodeConfig,
    listener: Listener,
    requests: Requests,
    routes: Mapping[int, Route[Any]],
    credentials: Credentials,
    now_ms: Callable[[], int],
) -> ListenerAuthentication:
    """The authentication of a listener with SASL. For the arguments see `guards_of`."""
    settings = sasl_settings(config.static.given, listener.name)
    return ListenerAuthentication(
        requests,
        config.number("socket.request.max.bytes"),
        {
            name: Mechanism(mechanism.session_ms_max, mechanism_of(mechanism, credentials))
            for name, mechanism in settings.mechanisms.items()
        },
        routes,
        settings.message_bytes_max,
        settings.failure_delay_ms,
        trio.current_time,
        now_ms,
        AuthenticationRecord(LineRate(now_ms, FAILURES_OF_ADDRESS_MAX)),
    )


def token_validator(
    settings: TokenSettings, reading: KeyReading, now_ms: Callable[[], int]
) -> Callable[[str], Token]:
    """What returns who a token is of, or raises TokenError, or KeysMissing.

    Args:
        reading: How the keys of tokens are read.
        now_ms: The wall clock, in milliseconds since 1970.

    Raises:
        InvalidSaslSetting: The keys cannot be read.
    """
    options = settings.unsecured
    if options is not None:
        return lambda token: validate_unsecured(token, options, now_ms())
    from minikafka.broker.security.key_sets import InvalidKeys
    from minikafka.broker.security.signed_tokens import SignedTokens
    from minikafka.broker.security.signing_keys import SigningKeys

    try:
        keys = SigningKeys(settings, reading)
    except InvalidKeys as error:
        raise InvalidSaslSetting("sasl.oauthbearer.jwks.endpoint.url", f"{settings.keys_url} {error}") from None
    except OSError as error:
        reason = f"{settings.keys_url} cannot be read: {error.strerror or error}"
        raise InvalidSaslSetting("sasl.oauthbearer.jwks.endpoint.url", reason) from None
    return SignedTokens(settings, keys, now_ms).validate
