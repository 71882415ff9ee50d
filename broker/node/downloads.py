"""`download`: reads a small text by HTTP, such as the keys of a provider of tokens, with bounds of time and size.

The urllib of the standard library has a time-out for each read, so that a server which sends a byte now and then keeps
its caller for ever; it also follows redirects, and takes a proxy from the environment, which Kafka does not.
It blocks: call it in a worker thread, or before the node serves.
"""

import io
import socket
import ssl
import time
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

__all__ = ["SIZE_BYTES_MAX", "TIME_S_MAX", "download"]

SIZE_BYTES_MAX = 1 << 19
"""The largest response, with its headers, as in Kafka."""
TIME_S_MAX = 10.0
PORTS = {"http": 80, "https": 443}


def download(url: str) -> bytes:
    """Return what the server of a URL of http or https has there.

    Raises:
        OSError: It cannot be read within `TIME_S_MAX`, is larger than `SIZE_BYTES_MAX`, or there is another answer
            than 200, such as a redirect.
    """
    deadline_s = time.monotonic() + TIME_S_MAX
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or PORTS[parts.scheme]
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = (f"GET {path} HTTP/1.1", f"Host: {parts.netloc}", "Accept: */*", "Connection: close", "", "")
    request = "\r\n".join(lines).encode("ascii")
    with socket.create_connection((host, port), timeout=TIME_S_MAX) as raw:
        if parts.scheme == "https":
            raw.settimeout(_left_s(deadline_s))
            with ssl.create_default_context().wrap_socket(raw, server_hostname=host) as secured:
                return _body(_exchange(secured, request, deadline_s))
        return _body(_exchange(raw, request, deadline_s))


def _exchange(stream: socket.socket, request: bytes, deadline_s: float) -> bytes:
    stream.settimeout(_left_s(deadline_s))
    stream.sendall(request)
    received = bytearray()
    while True:
        stream.settimeout(_left_s(deadline_s))
        data = stream.recv(1 << 16)
        received += data
        if len(received) > SIZE_BYTES_MAX:
            raise OSError(f"the answer has more than {SIZE_BYTES_MAX} bytes")
        if not data:
            return bytes(received)


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError(f"there is no whole answer within {TIME_S_MAX:.0f} s")
    return left_s


class _Received:
    """Bytes that `HTTPResponse` reads as if they came from a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._data)


def _body(answer: bytes) -> bytes:
    received: Any = _Received(answer)
    response = HTTPResponse(received)
    try:
        response.begin()
        body = response.read()
    except (HTTPException, ValueError, OverflowError) as error:
        raise OSError(f"the answer is no whole HTTP ({type(error).__name__})") from None
    if response.status != 200:
        raise OSError(f"the answer has the status {response.status}")
    return body
