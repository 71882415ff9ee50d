"""The client's side of each SASL mechanism: which requests log a client in to a broker, and what the answers mean.

    SaslHandshake v1       the mechanism; the broker answers with those of its listener
    SaslAuthenticate       the mechanism's messages, one or several
    SaslAuthenticate ◄     how long the session lasts, in ms (KIP-368); 0: for ever

`sasl_exchange` is a generator of requests, which is sent each answer. An asynchronous client and a blocking one drive
it alike. After the last answer it returns the lifetime. The same exchange renews a session on an open connection.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from minikafka.client.security.sasl_login import SaslLogin
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import (
    AuthenticationError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    error_for,
)
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from minikafka.protocol.sasl.oauthbearer import FAILED, oauthbearer_message
from minikafka.protocol.sasl.plain import plain_message
from minikafka.protocol.sasl.sasl_errors import SaslError
from minikafka.protocol.sasl.scram import ScramClient, ScramMechanism, salted_password

Messages = Generator["bytes | Derivation", bytes]
"""The client's messages of a mechanism; is sent the broker's."""
Exchange = Generator[Any, Any, int]
"""Requests and `Derivation`s; is sent their answers and results. Returns the lifetime of the session in ms, 0: none."""
_NAMED_MAX = 10
ROUNDS_MAX = 8
"""The most messages of an authentication: a broker must not keep a client busy for ever."""
WHETHER_A_LOGIN_IS_EXPECTED = SaslHandshakeRequest(mechanism="")
"""Asks a listener whether it expects a login: it refuses the mechanism, and names its own, or that there are any."""
QUICK_ITERATIONS_MAX = 16_384
"""The most iterations that Kafka's brokers ask for: about 10 ms, so that no thread is needed."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """The computation of SCRAM's secret from a password, which takes time.

    Attributes:
        run: computes it.
        is_quick: whether it takes no longer than about 10 ms.
    """

    run: Callable[[], bytes]
    is_quick: bool


def sasl_exchange(address: str, login: SaslLogin, nonce: str, token: str = "") -> Exchange:
    """The requests that log a client in at a broker.

    Args:
        address: of the broker, for error messages.
        nonce: a random text for SCRAM, new for each exchange.
        token: for OAUTHBEARER.

    Raises AuthenticationError, whose text says what is wrong.
    """
    handshake = yield SaslHandshakeRequest(mechanism=login.mechanism)
    _check_handshake(address, login.mechanism, handshake)
    messages = _messages(login, nonce, token)
    lifetime_ms = 0
    try:
        message = next(messages)
        for _ in range(ROUNDS_MAX):
            if isinstance(message, Derivation):
                answer: bytes = yield message
            else:
                response: SaslAuthenticateResponse = yield SaslAuthenticateRequest(auth_bytes=message)
                _check_answer(address, login, response)
                answer, lifetime_ms = response.auth_bytes, response.session_lifetime_ms
            message = messages.send(answer)
    except StopIteration:
        return lifetime_ms
    except SaslError as error:
        raise SaslAuthenticationFailedError(f"{address} and {login.mechanism} for {_who(login)}: {error}") from None
    raise SaslAuthenticationFailedError(f"{address} asked for more than {ROUNDS_MAX} messages of {login.mechanism}")


def _messages(login: SaslLogin, nonce: str, token: str) -> Messages:
    scram = ScramMechanism.of_mechanism(login.mechanism)
    if scram is not None:
        return _scram(scram, login, nonce)
    if login.mechanism == "OAUTHBEARER":
        return _oauthbearer(token, login.extensions)
    if login.mechanism == "PLAIN":
        return _plain(login)
    raise ValueError(f"no exchange for {login.mechanism}")


def _plain(login: SaslLogin) -> Messages:
    yield plain_message(login.username, login.password)


def _scram(mechanism: ScramMechanism, login: SaslLogin, nonce: str) -> Messages:
    client = ScramClient(mechanism, login.username, nonce, by_token=login.by_token)
    challenge = yield client.first
    salt, iterations = client.derivation(challenge)
    derive = partial(salted_password, mechanism, login.password, salt, iterations)
    salted = yield Derivation(derive, iterations <= QUICK_ITERATIONS_MAX)
    client.verify((yield client.final(challenge, salted)))


def _oauthbearer(token: str, extensions: Mapping[str, str]) -> Messages:
    refusal = yield oauthbearer_message(token, extensions)
    if refusal:
        yield FAILED
        raise SaslError(f"the broker refuses the token: {refusal.decode(errors='replace')}")


def _check_handshake(address: str, mechanism: str, response: SaslHandshakeResponse) -> None:
    code = response.error_code
    if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        text = f"{address} does not enable {mechanism} on this listener, but {_listed(response)}"
        raise UnsupportedSaslMechanismError(text)
    if code == ErrorCode.ILLEGAL_SASL_STATE:
        raise IllegalSaslStateError(
            f"{address} takes no login by SASL on this listener: security.protocol must be PLAINTEXT or SSL there"
        )
    if code:
        raise error_for(code, f"{address} refused the mechanism {mechanism}")


def login_expected(address: str, response: SaslHandshakeResponse, *, with_tls: bool) -> KafkaError | None:
    """The error of a client without a login, if a listener expects one; None if it expects none.

    Args:
        address: of the broker, for the message.
        response: to `WHETHER_A_LOGIN_IS_EXPECTED`.
        with_tls: whether the client uses TLS.
    """
    if response.error_code != ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        return None
    enabled, protocol = _listed(response), "SASL_SSL" if with_tls else "SASL_PLAINTEXT"
    return IllegalSaslStateError(
        f"{address} expects a login by SASL ({enabled}): security.protocol must be {protocol} there, with a "
        "sasl.mechanism and a user"
    )


def _listed(response: SaslHandshakeResponse) -> str:
    """The mechanisms that a listener enables."""
    return ", ".join(response.mechanisms[:_NAMED_MAX]) or "none"


def _check_answer(address: str, login: SaslLogin, response: SaslAuthenticateResponse) -> None:
    if not response.error_code:
        return
    reason = response.error_message or error_for(response.error_code).message
    text = f"{address} refused {login.mechanism} for {_who(login)}: {reason}"
    error = error_for(response.error_code, text)
    raise error if isinstance(error, AuthenticationError) else SaslAuthenticationFailedError(text)


def _who(login: SaslLogin) -> str:
    return f"user {login.username!r}" if login.username else "its token"
