"""A raw TCP client: sends and receives bytes, and frames with their size prefix; measures a node's resources."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from pathlib import Path
from typing import Any, Self

from minikafka.protocol.apis import api_of
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from support.node import ServerProcess

TIMEOUT_S = 60.0
SERVED_WITHIN_S = 5.0
CLEARED_WITHIN_S = 30.0


def frame(body: bytes) -> bytes:
    """The body with its size prefix."""
    return struct.pack(">i", len(body)) + body


def request(message: Any, version: int, correlation_id: int = 1) -> bytes:
    """A well-formed request, with its size prefix."""
    return encode_request(message, version, correlation_id, "raw")


class RawConnection:
    """One TCP connection to a node; every wait is bounded by `timeout_s`."""

    def __init__(self, address: tuple[str, int], *, timeout_s: float = TIMEOUT_S) -> None:
        self.socket = socket.create_connection(address, timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        """Raises OSError if the node has closed the connection."""
        self.socket.sendall(data)

    def receive(self, count: int) -> bytes:
        """Exactly `count` bytes. Raises ConnectionError if the connection ends before, TimeoutError if it is silent."""
        received = bytearray()
        while len(received) < count:
            chunk = self.socket.recv(count - len(received))
            if not chunk:
                raise ConnectionError(f"connection closed after {len(received)} of {count} bytes")
            received += chunk
        return bytes(received)

    def receive_frame(self) -> bytes:
        """The next response without its size prefix."""
        [size] = struct.unpack(">i", self.receive(4))
        return self.receive(size)

    def ask(self, message: Any, version: int) -> Any:
        """Sends a request and decodes the response."""
        self.send(request(message, version))
        return decode_response(api_of(type(message)).response, version, self.receive_frame())[1]

    def is_hung_up_on(self) -> bool:
        """Waits until the node closes the connection; False if it sends a response instead."""
        with contextlib.suppress(ConnectionError):
            return self.socket.recv(1) == b""
        return True

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_served(node: ServerProcess) -> None:
    """Asserts that a new client gets ApiVersions before the node has used five more seconds of CPU time.

    The node's own time on a processor is counted: how busy the machine is otherwise proves nothing. Where a virtual
    machine stands still for a moment, whoever was on its processor then is charged with that.
    """
    before = processor_seconds(node.pid)
    with RawConnection(node.address) as fresh:
        assert fresh.ask(ApiVersionsRequest(), 0).error_code == 0
    worked = processor_seconds(node.pid) - before
    assert worked < SERVED_WITHIN_S, f"served after {worked:.1f} s of work for others"


def processor_seconds(pid: int) -> float:
    """The CPU time of all threads of a process, user and system (Linux)."""
    with open(f"/proc/{pid}/stat") as status:
        fields = status.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(pid: int) -> int:
    """The resident memory of a process (Linux)."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def forget_peak(pid: int) -> None:
    """Let `peak_bytes` begin anew (Linux)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes(pid: int) -> int:
    """The largest resident memory of a process so far (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def growth_bytes(pid: int, before: int, most: int) -> int:
    """The growth of a process's memory; exceeds `most` only if it stays so, as closed connections are freed later."""
    deadline = time.monotonic() + CLEARED_WITHIN_S
    while (grown := resident_bytes(pid) - before) >= most and time.monotonic() < deadline:
        time.sleep(0.05)
    return grown
