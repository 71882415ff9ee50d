"""What is read by HTTP: whole answers only, within bounds of time and size."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from minikafka.broker.node import downloads
from minikafka.broker.node.downloads import SIZE_BYTES_MAX, download

HEAD = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """A server of one connection; yields its URL, and the requests that it has got."""
    requests: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                requests.append(connection.recv(65536))
                answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", requests
        finally:
            thread.join()


def answering(answer: bytes) -> Callable[[socket.socket], None]:
    def send(connection: socket.socket) -> None:
        with suppress(OSError):  # The client may have hung up.
            connection.sendall(answer)

    return send


@pytest.mark.parametrize(
    "answer",
    [
        HEAD + b"Content-Length: 4\r\n\r\nkeys",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nke\r\n2\r\nys\r\n0\r\n\r\n",
        HEAD + b"\r\nkeys",
    ],
)
def test_an_answer_is_read_in_each_form(answer: bytes) -> None:
    with server(answering(answer)) as (url, requests):
        assert download(f"{url}/a?b=c") == b"keys"
    assert requests[0].startswith(b"GET /a?b=c HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (HEAD + b"Content-Length: 5\r\n\r\nkeys", "no whole HTTP"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n9\r\nke", "no whole HTTP"),
        (HEAD + b"Content-Length: " + b"9" * 30 + b"\r\n\r\nkeys", "no whole HTTP"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 30 + b"\r\nke", "no whole HTTP"),
        (b"", "no whole HTTP"),
        (b"SSH-2.0-OpenSSH\r\n", "no whole HTTP"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "status 302"),
        (b"HTTP/1.1 500 Oops\r\n\r\n", "status 500"),
        (HEAD + b"\r\n" + bytes(SIZE_BYTES_MAX), "more than 524288 bytes"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * SIZE_BYTES_MAX, "more than 524288 bytes"),
    ],
)
def test_other_answers_are_errors(answer: bytes, why: str) -> None:
    with server(answering(answer)) as (url, _), pytest.raises(OSError, match=why):
        download(url)


def test_a_server_that_sends_a_byte_now_and_then_does_not_keep_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(100))
    monkeypatch.setattr(downloads.time, "monotonic", lambda: float(next(times)))

    def drip(connection: socket.socket) -> None:
        with suppress(OSError):  # The client hangs up.
            while True:
                connection.sendall(b"x")

    with server(drip) as (url, _), pytest.raises(TimeoutError, match="no whole answer within 10 s"):
        download(url)


def test_nobody_there_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(ConnectionRefusedError):
        download(f"http://127.0.0.1:{port}/")
