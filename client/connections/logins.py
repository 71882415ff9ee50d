"""Logs connections in by SASL, and renews their sessions on the open connection before they end (KIP-368).

The exchange itself is in `client/security/sasl_exchange.py`; this file waits for its answers.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Protocol

import anyio

from minikafka.client.connections.seams import Seams
from minikafka.client.escaped_log import escaped
from minikafka.client.security.sasl_exchange import Derivation, sasl_exchange
from minikafka.client.security.sasl_login import SaslLogin
from minikafka.protocol.errors import KafkaError, SaslAuthenticationFailedError
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest

Request = Callable[[Any], Awaitable[Any]]
"""Sends a request and returns its response. Raises KafkaError."""
_logger = escaped(logging.getLogger("minikafka.client.connections"))
_NONCE_BYTES = 24
_LOGIN_REQUESTS = (SaslHandshakeRequest, SaslAuthenticateRequest)
_RENEWED_AFTER = (0.85, 0.95)
"""When a session is renewed, as parts of its lifetime; a random one, so that many clients do not come at once.

Source: Kafka's `SaslClientAuthenticator.ReauthInfo`.
"""


async def log_in(request: Request, address: str, login: SaslLogin, seams: Seams) -> int:
    """Log a connection in. Returns how long its session lasts, in ms; 0: for ever.

    Raises AuthenticationError, NetworkError.
    """
    token = await _token(login, seams) if login.mechanism == "OAUTHBEARER" else ""
    exchange = sasl_exchange(address, login, seams.random_bytes(_NONCE_BYTES).hex(), token)
    try:
        step = next(exchange)
        while True:
            if not isinstance(step, Derivation):
                answer = await request(step)
            elif step.is_quick:
                answer = step.run()
            else:
                answer = await anyio.to_thread.run_sync(step.run)
            step = exchange.send(answer)
    except StopIteration as end:
        lifetime_ms: int = end.value
        return lifetime_ms


async def _token(login: SaslLogin, seams: Seams) -> str:
    if login.tokens is None:
        return login.unsecured_token(seams.now_ms())
    try:
        return await login.tokens.token()
    except SaslAuthenticationFailedError:  # names what is wrong, as a TokenFile does
        raise
    except Exception as error:  # of the application
        text = f"sasl_oauth_token_provider failed: {type(error).__name__}: {error}"
        raise SaslAuthenticationFailedError(text) from error


def renewal_s(lifetime_ms: int, random: Random) -> float:
    """After how many seconds to renew a session that lasts `lifetime_ms`; infinite for 0: it lasts for ever."""
    return lifetime_ms / 1000 * random.uniform(*_RENEWED_AFTER) if lifetime_ms > 0 else float("inf")


class Renewable(Protocol):
    """The part of a connection that a `Session` uses."""

    def send(self, pending: Any, frame: bytes) -> None: ...

    def close(self, why: str) -> None: ...


class Session:
    """The session of a connection: when it must be renewed, and the requests that wait meanwhile.

    Between the requests of a login there may be no others.

    Args:
        connection: sends requests and is closed if they fail.
        renew: logs in again; returns how long the new session lasts, in ms. Raises KafkaError.
        start_soon: starts a background task.
        clock: of the event loop, in seconds.

    Attributes:
        held: the requests that wait, as `connection.send` takes them.
    """

    def __init__(
        self,
        connection: Renewable,
        renew: Callable[[], Awaitable[int]],
        start_soon: Callable[[Callable[[], Awaitable[None]]], object],
        clock: Callable[[], float],
        random: Random,
    ) -> None:
        self.held: list[tuple[Any, bytes]] = []
        self._connection = connection
        self._renew = renew
        self._start_soon = start_soon
        self._clock = clock
        self._random = random
        self._is_renewing = False
        self._due = float("inf")

    def begin(self, lifetime_ms: int) -> None:
        """Note that a session begins now, and how long it lasts; 0: for ever."""
        self._due = self._clock() + renewal_s(lifetime_ms, self._random)

    def must_wait(self, request: Any) -> bool:
        """Whether a request must wait for a renewal, which starts if it is time."""
        if not self._is_renewing and self._clock() >= self._due:
            self._is_renewing = True
            self._start_soon(self._run)
        return self._is_renewing and not isinstance(request, _LOGIN_REQUESTS)

    async def _run(self) -> None:
        try:
            self.begin(await self._renew())
        except KafkaError as error:
            _logger.warning("session not renewed: %s", error)
            self._connection.close(f"its session could not be renewed: {error}")
            return
        self._is_renewing = False
        held, self.held = self.held, []
        for pending, frame in held:
            self._connection.send(pending, frame)
