"""Blocking connections to brokers, and the connector's clocks. The only module here with I/O.

Spark forks, reuses and kills Python processes at any time and calls the source from blocking code. A plain socket,
opened on demand and closed after any error, needs neither an event loop nor a thread. `send` and `receive` are
separate, so that the broker processes the next request while the previous response is decoded.
"""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any

from minikafka import __version__
from minikafka.client.security.connection_security import PLAINTEXT, ConnectionSecurity
from minikafka.client.security.sasl_exchange import (
    WHETHER_A_LOGIN_IS_EXPECTED,
    Derivation,
    login_expected,
    sasl_exchange,
)
from minikafka.client.security.sasl_login import SaslLogin
from minikafka.client.security.tls_errors import expects_plain_text, expects_tls, handshake_error
from minikafka.protocol.apis import APIS, api_of
from minikafka.protocol.errors import KafkaError, NetworkError, UnsupportedVersionError, error_for
from minikafka.protocol.frame import FrameReader, TlsAlert
from minikafka.protocol.headers import decode_response, request_parts
from minikafka.protocol.message import MalformedMessage, decode
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeResponse

RESPONSE_SIZE_BYTES_MAX = 1 << 30
_FIRST_RESPONSE_SIZE_BYTES_MAX = 1 << 20
"""The limit of the first response: what looks larger is another protocol."""
_RENEWED_AFTER = 0.85
"""When a session of SASL is renewed, as a part of its lifetime (KIP-368)."""
_NONCE_BYTES = 24
_RECEIVE_BUFFER_BYTES = 4 << 20
_PIECES_MAX = 512
"""The maximum number of buffers in one `sendmsg` call: half of Linux's limit (IOV_MAX)."""
_SETUP_TIMEOUT_S = 10
"""Kafka's default of socket.connection.setup.timeout.ms: a stopped process still accepts connections."""
_ASKED_S_MAX = 2.0
"""The time in which a listener has to answer whether it expects a login, in seconds."""
_PORT_MAX = (1 << 16) - 1
_API_VERSIONS_KEY = 18
_API_VERSIONS_MAX = 4
_UNSUPPORTED_VERSION = 35

process_id = os.getpid
"""The process id. Connections belong to the process that opened them: a forked worker must not use its parent's."""


def now_s() -> float:
    """Returns the time of a monotonic clock, in seconds."""
    return time.monotonic()


def now_ms() -> int:
    """Returns the milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def random_id() -> str:
    """Returns 128 random bits as hexadecimal digits."""
    return os.urandom(16).hex()


def sleep(seconds: float) -> None:
    """Sleeps for a number of seconds; returns at once if it is negative."""
    time.sleep(max(0.0, seconds))


def _connected(host: str, port: int, timeout_s: float) -> socket.socket:
    if not 0 < port <= _PORT_MAX:  # the system would connect to port n for 65536 + n
        raise ValueError(f"no port has that number: must be 1 to {_PORT_MAX}")
    return socket.create_connection((host, port), timeout=timeout_s)


class BrokerConnection:
    """An open connection to a broker. Responses arrive in the order of their requests.

    All methods raise NetworkError if the broker cannot be reached, closes the connection, or does not respond within
    `timeout_s`; the connection is closed then and cannot be used again. Opening it takes 10 s at most, and raises
    AuthenticationError if the broker or the client is not trusted.

    A session of SASL is renewed before a request that finds no other in flight; if there is always one, the broker
    closes the connection in the end.
    """

    def __init__(
        self, host: str, port: int, *, client_id: str, timeout_s: float, security: ConnectionSecurity = PLAINTEXT
    ) -> None:
        self.address = f"{host}:{port}"
        self.closed = False
        self._security = security
        self._renew_at = float("inf")
        self._is_answered = False
        self._negotiated = -1
        """The number of the last request before those that a listener may refuse without a login; -1: not open yet."""
        self._client_id = client_id
        self._correlation_id = 0
        self._in_flight: list[tuple[int, Any, int]] = []
        self._versions: dict[int, tuple[int, int]] = {_API_VERSIONS_KEY: (0, _API_VERSIONS_MAX)}
        try:
            self._socket = _connected(host, port, min(timeout_s, _SETUP_TIMEOUT_S))
        except (OSError, ValueError) as error:  # ValueError: a name that no host has
            raise NetworkError(f"cannot connect to {self.address}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        if security.context is not None:
            self._socket = self._encrypted(security.context, host, port)
        self._negotiate()
        self._negotiated = self._correlation_id
        if security.login is not None:
            self._log_in(security.login)
        self._socket.settimeout(timeout_s)

    def _encrypted(self, context: ssl.SSLContext, host: str, port: int) -> socket.socket:
        try:
            return context.wrap_socket(self._socket, server_hostname=host)
        except (ssl.SSLEOFError, ConnectionResetError) as error:  # as of a listener without TLS
            self.close()
            try:
                BrokerConnection(host, port, client_id="", timeout_s=_SETUP_TIMEOUT_S).close()
            except KafkaError:
                raise NetworkError(f"{self.address} closed the connection in place of a TLS handshake") from error
            raise expects_plain_text(self.address) from error
        except OSError as error:
            self.close()
            if isinstance(error, ssl.SSLError):
                raise handshake_error(self.address, error) from error
            raise NetworkError(f"TLS with {self.address}: {error}") from error

    def _log_in(self, login: SaslLogin) -> None:
        """Logs in, or renews the session. Raises AuthenticationError."""
        token = login.blocking_token(now_ms())
        exchange = sasl_exchange(self.address, login, os.urandom(_NONCE_BYTES).hex(), token)
        self._renew_at = float("inf")
        try:
            step = next(exchange)
            while True:
                step = exchange.send(step.run() if isinstance(step, Derivation) else self.request(step))
        except StopIteration as end:
            if end.value > 0:
                self._renew_at = now_s() + end.value / 1000 * _RENEWED_AFTER
        except BaseException:
            self.close()
            raise

    def _negotiate(self) -> None:
        request = ApiVersionsRequest(client_software_name="minikafka-spark", client_software_version=__version__)
        response = self.request(request)
        if response.error_code == _UNSUPPORTED_VERSION:
            offered = {one.api_key: one.max_version for one in response.api_keys}
            response = self.request(request, highest=offered.get(_API_VERSIONS_KEY, 0))
        if response.error_code:
            self.close()
            raise error_for(response.error_code, f"{self.address} rejected ApiVersions")
        self._versions = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}

    def version_for(self, request: Any, highest: int | None = None) -> int:
        """Returns the newest version of a request class that both sides support, `highest` at most.

        Raises UnsupportedVersionError.
        """
        api = api_of(request)
        low, high = self._versions.get(api.key, (0, -1))
        newest = min(high, APIS[api.key].versions.last, high if highest is None else highest)
        if newest < max(low, api.versions.first):
            raise UnsupportedVersionError(f"{self.address} supports no version of {api.name} that this client supports")
        return newest

    def request(self, message: Any, *, highest: int | None = None) -> Any:
        """Sends a request and waits for its response."""
        self.send(message, highest=highest)
        return self.receive()

    def send(self, message: Any, *, highest: int | None = None) -> None:
        """Sends a request; `receive` returns its response later."""
        if not self._in_flight and now_s() >= self._renew_at and self._security.login is not None:
            self._log_in(self._security.login)
        kind = type(message)
        version = self.version_for(kind, highest)
        self._correlation_id += 1
        self._in_flight.append((self._correlation_id, api_of(kind).response, version))
        try:
            self._send_all(request_parts(message, version, self._correlation_id, self._client_id))
        except OSError as error:
            raise self._fail(error) from error

    def _send_all(self, parts: Iterable[Any]) -> None:
        """Sends the parts of a request; a part that is not bytes-like has a `head` and a `body`."""
        pieces = deque[memoryview]()
        for part in parts:
            both = (part,) if isinstance(part, (bytes, bytearray, memoryview)) else (part.head, part.body)
            pieces.extend(memoryview(one).cast("B") for one in both if len(one))
        if self._security.context is not None:
            self._socket.sendall(b"".join(pieces))  # TLS has no `sendmsg`.
            return
        while pieces:
            sent = self._socket.sendmsg(islice(pieces, _PIECES_MAX))
            while pieces and sent >= len(pieces[0]):
                sent -= len(pieces.popleft())
            if sent:
                pieces[0] = pieces[0][sent:]

    def receive(self) -> Any:
        """Returns the response to the oldest unanswered request."""
        number, response, version = self._in_flight.pop(0)
        try:
            frame = self._receive_frame()
            if response is ApiVersionsResponse and frame[4:6] == _UNSUPPORTED_VERSION.to_bytes(2, "big"):
                return decode(ApiVersionsResponse, 0, frame, 4)
            answered, message = decode_response(response, version, frame)
        except (OSError, MalformedMessage) as error:
            failure = self._fail(error)
            is_first = number == self._negotiated + 1 and self._security.login is None
            asks = is_first and response is not SaslHandshakeResponse
            raise (self._login_expected() if asks else None) or failure from error
        if answered != number:
            raise self._fail(f"correlation id {answered} in a response, expected {number}")
        self._is_answered = True
        return message

    def _receive_frame(self) -> bytearray:
        prefix = self._receive_exactly(4)
        if not self._is_answered:
            FrameReader(_FIRST_RESPONSE_SIZE_BYTES_MAX).feed(memoryview(prefix))
        size = int.from_bytes(prefix, "big", signed=True)
        if not 0 < size <= RESPONSE_SIZE_BYTES_MAX:
            raise MalformedMessage(f"malformed frame: size {size}")
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view, filled = memoryview(buffer), 0
        while filled < size:
            count = self._socket.recv_into(view[filled:])
            if not count:
                raise ConnectionResetError("closed by the broker")
            filled += count
        return buffer

    def _login_expected(self) -> KafkaError | None:
        """Asks the listener, on another connection, whether it expects a login. Returns the error if it does.

        Without a login, a listener that expects one closes the connection at the first request, as a broker that stops.
        """
        host, _, port = self.address.rpartition(":")
        try:
            asking = BrokerConnection(host, int(port), client_id="", timeout_s=_ASKED_S_MAX, security=self._security)
            response = asking.request(WHETHER_A_LOGIN_IS_EXPECTED)
        except KafkaError:
            return None
        asking.close()
        return login_expected(self.address, response, with_tls=self._security.context is not None)

    def _fail(self, reason: object) -> KafkaError:
        self.close()
        if isinstance(reason, TlsAlert):
            return expects_tls(self.address)
        if isinstance(reason, ssl.SSLError) and not self._is_answered:
            return handshake_error(self.address, reason)
        return NetworkError(f"the connection to {self.address} was lost: {reason or 'request timed out'}")

    @property
    def busy(self) -> bool:
        """Whether a response is outstanding."""
        return bool(self._in_flight)

    def close(self) -> None:
        """Closes the connection."""
        self.closed = True
        self._socket.close()
