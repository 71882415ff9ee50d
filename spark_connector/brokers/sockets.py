"""Blocking connections to brokers, and the connector's clocks. The only module here with I/O.

Spark forks, reuses and kills Python processes at any time and calls the source from blocking code. A plain socket,
opened on demand and closed after any error, needs neither an event loop nor a thread. `send` and `receive` are
separate, so that the broker processes the next request while the previous response is decoded.
"""

from __future__ import annotations

import os
import socket
import time
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any

from minikafka import __version__
from minikafka.protocol.apis import APIS, api_of
from minikafka.protocol.errors import NetworkError, UnsupportedVersionError, error_for
from minikafka.protocol.headers import decode_response, request_parts
from minikafka.protocol.message import MalformedMessage, decode
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

RESPONSE_SIZE_BYTES_MAX = 1 << 30
_RECEIVE_BUFFER_BYTES = 4 << 20
_PIECES_MAX = 512
"""The maximum number of buffers in one `sendmsg` call: half of Linux's limit (IOV_MAX)."""
_SETUP_TIMEOUT_S = 10
"""Kafka's default of socket.connection.setup.timeout.ms: a stopped process still accepts connections."""
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
    `timeout_s`; the connection is closed then and cannot be used again. Opening it takes 10 s at most.
    """

    def __init__(self, host: str, port: int, *, client_id: str, timeout_s: float) -> None:
        self.address = f"{host}:{port}"
        self.closed = False
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
        self._negotiate()
        self._socket.settimeout(timeout_s)

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
            raise self._fail(error) from error
        if answered != number:
            raise self._fail(f"correlation id {answered} in a response, expected {number}")
        return message

    def _receive_frame(self) -> bytearray:
        size = int.from_bytes(self._receive_exactly(4), "big", signed=True)
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

    def _fail(self, reason: object) -> NetworkError:
        self.close()
        return NetworkError(f"the connection to {self.address} was lost: {reason or 'request timed out'}")

    @property
    def busy(self) -> bool:
        """Whether a response is outstanding."""
        return bool(self._in_flight)

    def close(self) -> None:
        """Closes the connection."""
        self.closed = True
        self._socket.close()
