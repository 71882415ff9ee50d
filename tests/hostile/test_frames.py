"""Malformed frames: truncated, oversized, of negative size, of unknown APIs, or of other protocols."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clients_raw import RawConnection, check_served, frame, request
from support.clients_recording import load_frames
from support.node import ServerProcess
from support.oracle import Oracle

from minikafka.protocol.messages.api_versions import ApiVersionsRequest

INT32_MAX = 2**31 - 1
REQUEST_BYTES_MAX = 100 << 20
UNSUPPORTED_VERSION = 35
PRODUCE, FETCH, METADATA, CREATE_TOPICS, API_VERSIONS = 0, 1, 3, 19, 18

RECORDED = load_frames(Path(__file__).parent / "recorded_frames.txt")


def header(api_key: int, version: int, *, client_id: bytes | None = b"x") -> bytes:
    """A request header v1."""
    name = struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return struct.pack(">hhi", api_key, version, 7) + name


def hung_up_after(node: ServerProcess, data: bytes) -> bool:
    with RawConnection(node.address) as connection:
        connection.send(data)
        return connection.is_hung_up_on()


@pytest.mark.parametrize("size", [-1, -(2**31), REQUEST_BYTES_MAX + 1, INT32_MAX, 2_000_000_000])
def test_a_size_out_of_bounds_ends_the_connection(node: ServerProcess, size: int) -> None:
    assert hung_up_after(node, struct.pack(">i", size))
    assert hung_up_after(node, struct.pack(">i", size) + bytes(1000))


def test_a_large_size_without_the_bytes_costs_nothing(node: ServerProcess) -> None:
    if isinstance(node, Oracle):
        pytest.skip("Apache Kafka allocates what is announced, and runs out of memory")
    waiting = [RawConnection(node.address) for _ in range(50)]
    for connection in waiting:
        connection.send(struct.pack(">i", REQUEST_BYTES_MAX) + b"\x00\x03")
    check_served(node)
    for connection in waiting:
        connection.close()


@pytest.mark.parametrize("size", [0, 1, 3, 7])
def test_a_frame_too_short_for_a_header_ends_the_connection(node: ServerProcess, size: int) -> None:
    assert hung_up_after(node, frame(bytes(size)))


def test_a_truncated_frame_is_only_a_lost_connection(node: ServerProcess) -> None:
    whole = request(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
    for end in range(len(whole)):
        with RawConnection(node.address) as connection:
            connection.send(whole[:end])


def test_a_request_with_a_truncated_body_ends_the_connection(node: ServerProcess) -> None:
    """With a correct size; truncated at every byte of one request of each API."""
    one_of_each = {recorded.api_key: recorded.body for recorded in RECORDED}
    for body in one_of_each.values():
        for end in range(8, len(body), max(1, len(body) // 12)):
            with RawConnection(node.address) as connection:
                connection.send(frame(body[:end]))
    check_served(node)


@pytest.mark.parametrize("api_key", [-1, 93, 999, 32767, -32768])
def test_an_unknown_api_ends_the_connection(node: ServerProcess, api_key: int) -> None:
    assert hung_up_after(node, frame(header(api_key, 0)))


@pytest.mark.parametrize("version", [-1, 99, 32767, -32768])
def test_an_unknown_version_ends_the_connection(node: ServerProcess, version: int) -> None:
    assert hung_up_after(node, frame(header(METADATA, version) + bytes(20)))


@pytest.mark.parametrize("version", [99, 32767])
def test_api_versions_of_an_unknown_version_returns_the_supported_ones(node: ServerProcess, version: int) -> None:
    with RawConnection(node.address) as connection:
        connection.send(frame(header(API_VERSIONS, version) + bytes(20)))
        correlation_id, error, count = struct.unpack_from(">ihi", connection.receive_frame())
    assert (correlation_id, error) == (7, UNSUPPORTED_VERSION)
    assert count >= 1


def huge_arrays() -> Iterator[tuple[int, int, bytes]]:
    """(API key, version, body) with an array of two billion elements."""
    count = struct.pack(">i", 2_000_000_000)
    compact = b"\x81\xa8\xd6\xb9\x07"  # the same as a varint, plus 1
    yield METADATA, 1, count
    yield METADATA, 12, b"\x00" + compact
    yield CREATE_TOPICS, 2, count
    yield PRODUCE, 7, struct.pack(">hhi", -1, 1, 1000) + count
    yield PRODUCE, 7, struct.pack(">hhii", -1, 1, 1000, 1) + b"\x00\x01t" + count
    yield PRODUCE, 7, struct.pack(">hhii", -1, 1, 1000, 1) + b"\x00\x01t" + struct.pack(">ii", 1, 0) + count
    yield PRODUCE, 9, b"\x00" + b"\x00\x00" + struct.pack(">hi", 1, 1000) + compact
    yield FETCH, 4, struct.pack(">iiiib", -1, 0, 0, INT32_MAX, 0) + count
    yield FETCH, 12, b"\x00" + struct.pack(">iiiibii", -1, 0, 0, INT32_MAX, 0, 0, 0) + compact
    yield API_VERSIONS, 3, b"\x00" + compact


@pytest.mark.parametrize(("api_key", "version", "body"), list(huge_arrays()))
def test_an_array_of_two_billion_ends_the_connection(
    node: ServerProcess, api_key: int, version: int, body: bytes
) -> None:
    assert hung_up_after(node, frame(header(api_key, version) + body))
    assert hung_up_after(node, frame(header(api_key, version) + body + bytes(1000)))


@pytest.mark.parametrize("api_key", [PRODUCE, FETCH, METADATA, CREATE_TOPICS, API_VERSIONS])
def test_overlong_varints_end_the_connection(node: ServerProcess, api_key: int) -> None:
    version = {PRODUCE: 9, FETCH: 12, METADATA: 12, CREATE_TOPICS: 5, API_VERSIONS: 3}[api_key]
    assert hung_up_after(node, frame(header(api_key, version) + b"\xff" * 400))


@pytest.mark.parametrize("seed", range(5))
def test_garbage_is_not_answered(node: ServerProcess, seed: int) -> None:
    garbage = random.Random(seed)
    for _ in range(40):
        with RawConnection(node.address) as connection:
            connection.send(garbage.randbytes(garbage.randrange(1, 2000)))
        with RawConnection(node.address) as connection:
            connection.send(frame(garbage.randbytes(garbage.randrange(12, 2000))))


@pytest.mark.parametrize(
    "greeting",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /topics/t HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
        bytes.fromhex("160301020001 0001fc0303".replace(" ", "")) + bytes(500),
        b"\x00\x00\x00\xffSMBr" + bytes(100),
        b"SSH-2.0-OpenSSH_9.6\r\n",
    ],
    ids=["http-get", "http-post", "tls-hello", "smb", "ssh"],
)
def test_other_protocols_are_disconnected(node: ServerProcess, greeting: bytes) -> None:
    with RawConnection(node.address) as connection:
        connection.send(greeting)
        if not greeting.startswith(b"\x00\x00\x00\xff"):  # that size is possible: the rest may still come
            assert connection.is_hung_up_on()


def test_other_clients_are_served_while_one_is_disconnected(node: ServerProcess) -> None:
    with RawConnection(node.address) as good:
        assert good.ask(ApiVersionsRequest(), 0).error_code == 0
        assert hung_up_after(node, b"\xff" * 100)
        assert good.ask(ApiVersionsRequest(), 0).error_code == 0
