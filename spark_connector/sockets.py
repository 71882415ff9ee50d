"""Sockets and clocks of the connector: one blocking connection to one broker. The only file here that touches them.

Spark runs Python in processes that it forks, reuses and kills as it likes, and calls the source from ordinary blocking
code: a connection that is a plain socket, opened when needed and closed when anything goes wrong, needs no event loop
and no thread, and a request can be sent ahead of its use (`send`, then `receive`), so that a broker works while
we decode.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from minikafka.protocol.apis import APIS, api_of
from minikafka.protocol.errors import NetworkError, UnsupportedVersionError, error_for
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.protocol.message import MalformedMessage, decode
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

RESPONSE_SIZE_BYTES_MAX = 1 << 30
_RECEIVE_BUFFER_BYTES = 4 << 20
_API_VERSIONS_KEY = 18
_API_VERSIONS_MAX = 4
_UNSUPPORTED_VERSION = 35

process_id = os.getpid
"""Connections belong to the process that opened them: a forked worker must not use its parent's."""


def now_s() -> float:
    """A clock that never goes back."""
    return time.monotonic()


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def pause(seconds: float) -> None:
    """Wait."""
    time.sleep(max(0.0, seconds))


class Wire:
    """An open connection; requests are answered in the order in which they were sent.

    Raises NetworkError wherever the broker cannot be reached, hangs up, or takes longer than `timeout_s`; the wire
    is closed then, and of no use any more.
    """

    def __init__(self, host: str, port: int, *, client_id: str, timeout_s: float) -> None:
        self.address = f"{host}:{port}"
        self.closed = False
        self._client_id = client_id
        self._number = 0
        self._sent: list[tuple[int, Any, int]] = []
        self._versions: dict[int, tuple[int, int]] = {_API_VERSIONS_KEY: (0, _API_VERSIONS_MAX)}
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise NetworkError(f"cannot connect to {self.address}: {error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        self._negotiate()

    def _negotiate(self) -> None:
        request = ApiVersionsRequest(client_software_name="minikafka-spark", client_software_version="0.1.0")
        response = self.request(request)
        if response.error_code == _UNSUPPORTED_VERSION:
            offered = {one.api_key: one.max_version for one in response.api_keys}
            response = self.request(request, highest=offered.get(_API_VERSIONS_KEY, 0))
        if response.error_code:
            self.close()
            raise error_for(response.error_code, f"{self.address} refused to say which versions it speaks")
        self._versions = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}

    def version_for(self, request: Any, highest: int | None = None) -> int:
        """The newest version of a request class that both sides know, `highest` at most.

        Raises UnsupportedVersionError.
        """
        api = api_of(request)
        low, high = self._versions.get(api.key, (0, -1))
        newest = min(high, APIS[api.key].versions.last, high if highest is None else highest)
        if newest < max(low, api.versions.first):
            raise UnsupportedVersionError(f"the broker at {self.address} does not speak {api.name} as we do")
        return newest

    def request(self, message: Any, *, highest: int | None = None) -> Any:
        """Send a request and wait for its response."""
        self.send(message, highest=highest)
        return self.receive()

    def send(self, message: Any, *, highest: int | None = None) -> None:
        """Send a request; `receive` gives its response later."""
        kind = type(message)
        version = self.version_for(kind, highest)
        self._number += 1
        self._sent.append((self._number, api_of(kind).response, version))
        try:
            self._socket.sendall(encode_request(message, version, self._number, self._client_id))
        except OSError as error:
            raise self._lost(error) from error

    def receive(self) -> Any:
        """The response to the oldest request that has none yet."""
        number, response, version = self._sent.pop(0)
        try:
            frame = self._frame()
            if response is ApiVersionsResponse and frame[4:6] == _UNSUPPORTED_VERSION.to_bytes(2, "big"):
                return decode(ApiVersionsResponse, 0, frame, 4)
            answered, message = decode_response(response, version, frame)
        except (OSError, MalformedMessage) as error:
            raise self._lost(error) from error
        if answered != number:
            raise self._lost(f"response {answered} came where {number} was due")
        return message

    def _frame(self) -> bytearray:
        size = int.from_bytes(self._exactly(4), "big", signed=True)
        if not 0 < size <= RESPONSE_SIZE_BYTES_MAX:
            raise MalformedMessage(f"a response of {size} bytes")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytearray:
        buffer = bytearray(size)
        view, filled = memoryview(buffer), 0
        while filled < size:
            count = self._socket.recv_into(view[filled:])
            if not count:
                raise ConnectionResetError("the broker hung up")
            filled += count
        return buffer

    def _lost(self, why: object) -> NetworkError:
        self.close()
        return NetworkError(f"the connection to {self.address} was lost: {why or 'no answer in time'}")

    @property
    def busy(self) -> bool:
        """Whether a response is still due."""
        return bool(self._sent)

    def close(self) -> None:
        """Hang up."""
        self.closed = True
        self._socket.close()
