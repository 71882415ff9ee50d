"""Records of TLS that carry no data, of each kind and in any number, cost a step of the loop little.

Steps are measured in records that OpenSSL gets, since the time of a machine is not that of another.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio
from support.crafted_tls import ALERT, CraftedClient
from support.echoes import framed
from support.records_without_data import KINDS, crafted, hellos

from minikafka.broker.connections import tls_socket
from minikafka.broker.connections.connection import Connection
from minikafka.broker.connections.request_context import Answer, ConnectionInfo, Disconnect
from minikafka.broker.connections.socket_moves import STEP_SIZE_BYTES
from minikafka.broker.connections.tls_socket import RECEIVED_SIZE_BYTES, RECORDS_AT_ONCE
from minikafka.controller.tls_records import RECORD_SIZE_BYTES_MAX, WITHOUT_DATA_MAX, ReceivedRecords

from .test_tls_transport import EchoSizes, connected, run

COUNT = 500
SMALLEST_RECORD_BYTES = 22
RECORDS_IN_A_STEP_MAX = (RECEIVED_SIZE_BYTES + RECORD_SIZE_BYTES_MAX) // SMALLEST_RECORD_BYTES


class Steps(trio.abc.Instrument):
    """Counts the records that OpenSSL gets in each step of the loop."""

    def __init__(self) -> None:
        self.records = [0]

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.records.append(0)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    counted = Steps()

    class Counting(ReceivedRecords):
        def take(self) -> memoryview | None:
            record = super().take()
            counted.records[-1] += record is not None
            return record

        def take_data(self, room_bytes: int, most: int) -> tuple[memoryview, int]:
            records, count = super().take_data(room_bytes, most)
            counted.records[-1] += count
            return records, count

    monkeypatch.setattr(tls_socket, "ReceivedRecords", Counting)
    return counted


class Sizes(EchoSizes):
    """Answers each frame with its size, and keeps the sizes."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._answered = trio.Event()

    def answer_now(self, frame: bytearray, connection: ConnectionInfo, receiver: object) -> Answer:
        self.sizes.append(len(frame))
        self._answered.set()
        return super().answer_now(frame, connection, receiver)

    async def until(self, count: int) -> None:
        """Wait until so many frames were answered."""
        while len(self.sizes) < count:
            self._answered = trio.Event()
            await self._answered.wait()


Attack = Callable[[CraftedClient, trio.SocketStream, Sizes], Awaitable[None]]


def run_attack(version: str, attack: Attack, steps: Steps) -> None:
    """Let a client of a connection that echoes sizes do something after its handshake."""

    async def main() -> None:
        trio.lowlevel.add_instrument(steps)
        client, sizes = crafted(version), Sizes()
        async with connected() as (ours, theirs), trio.open_nursery() as nursery:
            connection = Connection(theirs, sizes, listener="SSL", size_bytes_max=100 << 20)  # type: ignore[arg-type]
            nursery.start_soon(connection.serve)
            await client.shake_hands(ours.send_all, ours.receive_some)
            await attack(client, ours, sizes)
            nursery.cancel_scope.cancel()

    run(main)


@pytest.mark.parametrize("name", KINDS)
def test_records_without_data_end_the_connection_soon(name: str, steps: Steps) -> None:
    version, kind = KINDS[name]

    async def attack(client: CraftedClient, ours: trio.SocketStream, sizes: Sizes) -> None:
        records = kind(client)
        try:
            await ours.send_all(b"".join(next(records) for _ in range(COUNT)))
            await until_closed(ours)
        except trio.BrokenResourceError:
            pass

    run_attack(version, attack, steps)
    assert sum(steps.records) <= WITHOUT_DATA_MAX


async def until_closed(ours: trio.SocketStream) -> None:
    while await ours.receive_some():
        pass


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    ("size", "part"), [(10, 2), (10, 5000), (800, 2), (300_000, 5000), (300_000, RECORD_SIZE_BYTES_MAX)]
)
def test_requests_before_a_goodbye_are_answered_and_the_connection_ends(
    size: int, part: int, version: str, steps: Steps
) -> None:
    async def attack(client: CraftedClient, ours: trio.SocketStream, sizes: Sizes) -> None:
        sent = [framed(bytes(10)), framed(bytes(size))]
        records = [client.record(b"".join(sent)[at : at + part]) for at in range(0, sum(map(len, sent)), part)]
        goodbye = client.record(b"\1\0", kind=ALERT)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.send_all, b"".join(records) + goodbye)
            await sizes.until(2)
        assert sizes.sizes == [10, size]
        await ours.send_eof()
        await until_closed(ours)

    run_attack(version, attack, steps)


def test_requests_for_another_handshake_are_not_answered(steps: Steps) -> None:
    """OpenSSL would answer each, a thousand in a record."""
    answers = b""

    async def attack(client: CraftedClient, ours: trio.SocketStream, sizes: Sizes) -> None:
        nonlocal answers
        await ours.send_all(next(hellos(client)))
        while data := await ours.receive_some():
            answers += data

    run_attack("TLSv1.2", attack, steps)
    assert len(answers) < 100


@pytest.mark.parametrize("wants_another", [False, True])
def test_a_client_may_have_new_keys(wants_another: bool, steps: Steps) -> None:
    """Twenty before a request, and again after as many requests as earn them."""

    async def attack(client: CraftedClient, ours: trio.SocketStream, sizes: Sizes) -> None:
        for turn in range(3):
            await ours.send_all(b"".join(client.new_key(wants_another=wants_another) for _ in range(20)))
            for _ in range(400):
                await ours.send_all(client.record(framed(b"small")))
            await sizes.until(400 * (turn + 1))

    run_attack("TLSv1.3", attack, steps)


def test_records_without_data_between_those_with_little_are_refused_as_well(steps: Steps) -> None:
    async def attack(client: CraftedClient, ours: trio.SocketStream, sizes: Sizes) -> None:
        data = b"".join(client.record(b"\0") + client.new_key(wants_another=False) for _ in range(COUNT))
        try:
            await ours.send_all(data)
            await until_closed(ours)
        except trio.BrokenResourceError:
            pass

    run_attack("TLSv1.3", attack, steps)
    assert sum(steps.records) < 3 * WITHOUT_DATA_MAX


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_a_request_in_records_of_a_byte_is_read_in_many_steps(version: str, steps: Steps) -> None:
    """A record of a byte counts as a full one while a large request is loaded; before that, bytes are counted."""
    head, size = 2 * RECEIVED_SIZE_BYTES, 5000

    async def attack(client: CraftedClient, ours: trio.SocketStream, sizes: Sizes) -> None:
        await ours.send_all(b"".join(client.record(part) for part in pieces(framed(bytes(head + size))[:head])))
        await trio.testing.wait_all_tasks_blocked()
        steps.records.append(0)
        await ours.send_all(b"".join(client.record(b"\0") for _ in range(size + 4)))
        await sizes.until(1)
        assert sizes.sizes == [head + size]

    run_attack(version, attack, steps)
    assert sum(steps.records) > size
    assert max(steps.records) < STEP_SIZE_BYTES // RECORD_SIZE_BYTES_MAX + RECORDS_AT_ONCE


def test_small_requests_in_records_of_a_byte_are_read_in_many_steps(steps: Steps) -> None:
    async def attack(client: CraftedClient, ours: trio.SocketStream, sizes: Sizes) -> None:
        data = framed(b"small") * COUNT
        await ours.send_all(b"".join(client.record(data[at : at + 1]) for at in range(len(data))))
        await sizes.until(COUNT)
        assert sizes.sizes == [5] * COUNT

    run_attack("TLSv1.3", attack, steps)
    assert max(steps.records) <= RECORDS_IN_A_STEP_MAX


def pieces(data: bytes, size: int = RECORD_SIZE_BYTES_MAX) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


# -- handshakes ----------------------------------------------------------------------------------------------------


def hello(groups: int, shares: int) -> bytes:
    """A ClientHello that lists groups, and key shares of the last of them, which OpenSSL looks up one by one."""
    listed = b"\x90\0" * (groups - 1) + b"\x0a\x0b"
    shared = b"\x0a\x0b\0\1\0" * shares
    extensions = b"".join(
        struct.pack(">HH", kind, len(body)) + body
        for kind, body in (
            (10, struct.pack(">H", len(listed)) + listed),
            (51, struct.pack(">H", len(shared)) + shared),
            (43, b"\x02\x03\x04"),
            (13, b"\0\x04\x04\x03\x08\x04"),
        )
    )
    body = b"\x03\x03" + bytes(33) + b"\0\x02\x13\x02\x01\0" + struct.pack(">H", len(extensions)) + extensions
    return b"\x01" + len(body).to_bytes(3, "big") + body


def in_records(message: bytes, size: int) -> bytes:
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(part)) + part for part in pieces(message, size))


HANDSHAKES = {
    "in records of a byte": (in_records(hello(4000, 100), 1), "more than 32 records of TLS without data"),
    "empty records": (b"\x16\x03\x01\0\0" * 1000, ""),
    "changed ciphers": (in_records(hello(10, 1), 100)[:105] + b"\x14\x03\x03\0\1\1" * 1000, ""),
    "of many groups and key shares": (in_records(hello(16_000, 6_000), 16_384), "a message of more than"),
}


@pytest.mark.parametrize("name", HANDSHAKES)
def test_a_handshake_that_only_costs_time_is_refused(name: str, steps: Steps) -> None:
    data, reason = HANDSHAKES[name]

    async def main() -> None:
        async with connected() as (ours, theirs), trio.open_nursery() as nursery:
            nursery.start_soon(ours.send_all, data)
            with pytest.raises(Disconnect, match=f"TLS handshake failed: .*{reason}"):
                await theirs.handshake()

    run(main)
    assert sum(steps.records) <= WITHOUT_DATA_MAX


def test_a_client_with_a_large_hello_is_served(steps: Steps) -> None:
    """Half of what is allowed: no client needs as much."""

    async def main() -> None:
        async with connected() as (ours, theirs):
            await ours.send_all(in_records(hello(2000, 500), 1000))
            with pytest.raises(Disconnect, match="no suitable key share"):
                await theirs.handshake()

    run(main)
