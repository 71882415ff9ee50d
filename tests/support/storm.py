"""Mutations of bytes by a seed, and a storm of them: each is answered, or ends its connection, or waits."""

from __future__ import annotations

import random
import selectors
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from support.clients_raw import TIMEOUT_S

CONNECTIONS = 200
PATIENCE = 4
"""A request without a response after so many others on each connection were answered waits for long: a poll, a
rebalance, acks=0. Counted, not timed: on a busy machine every request would time out."""
SILENCE_S = 2.0
"""After so long without any response, all outstanding requests count as waiting."""

INTERESTING = [
    struct.pack(">i", number)
    for number in (0, 1, -1, 127, 128, 255, 2**15, 2**16, 2**31 - 1, -(2**31), 2_000_000_000, 100 << 20)
]
VARINTS = [b"\x00", b"\x01", b"\x7f", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\xff" * 10, b"\x80" * 12]

Mutation = Callable[[bytearray, random.Random], None]
Prepare = Callable[[socket.socket], socket.socket]
"""Makes of a connected socket one that speaks TLS, or that has logged in."""


def rounds_for(minutes: float, numbers: Iterator[int]) -> Iterator[int]:
    """The numbers of rounds, at least one, until the minutes are over."""
    deadline = time.monotonic() + minutes * 60
    for number in numbers:
        yield number
        if time.monotonic() >= deadline:
            return


def flip_bits(body: bytearray, dice: random.Random) -> None:
    for _ in range(dice.choice([1, 1, 1, 2, 4, 8])):
        body[dice.randrange(len(body))] ^= 1 << dice.randrange(8)


def overwrite(body: bytearray, dice: random.Random) -> None:
    value = dice.choice([*INTERESTING, *VARINTS, dice.randbytes(3)])
    position = dice.randrange(len(body))
    body[position : position + len(value)] = value


def insert(body: bytearray, dice: random.Random) -> None:
    position = dice.randrange(len(body))
    body[position:position] = dice.choice([*INTERESTING, *VARINTS, dice.randbytes(dice.randrange(1, 40))])


def cut(body: bytearray, dice: random.Random) -> None:
    del body[dice.randrange(len(body)) :]


def remove(body: bytearray, dice: random.Random) -> None:
    position = dice.randrange(len(body))
    del body[position : position + dice.randrange(1, 9)]


def repeat(body: bytearray, dice: random.Random) -> None:
    position = dice.randrange(len(body))
    body[position:position] = body[position : position + dice.randrange(1, 40)] * dice.randrange(1, 5)


MUTATIONS: list[Mutation] = [flip_bits, flip_bits, overwrite, overwrite, insert, cut, remove, repeat]


def mutated(original: bytes, dice: random.Random) -> bytes:
    """The bytes with one mutation."""
    body = bytearray(original)
    dice.choice(MUTATIONS)(body, dice)
    return bytes(body)


@dataclass
class Outcome:
    """The outcomes of the requests."""

    answered: int = 0
    hung_up: int = 0
    unanswered: int = 0

    @property
    def heard_of(self) -> int:
        return self.answered + self.hung_up

    @property
    def total(self) -> int:
        return self.heard_of + self.unanswered


class Storm:
    """Connections, each with one request in flight, which has its size in front."""

    def __init__(
        self, address: tuple[str, int], requests: Iterator[bytes], connections: int, prepare: Prepare
    ) -> None:
        self.outcome = Outcome()
        self._address = address
        self._requests = requests
        self._connections = connections
        self._prepare = prepare
        self._selector = selectors.DefaultSelector()
        self._waiting: dict[Slot, int] = {}  # and how many had been heard of when they began to; oldest first

    def run(self) -> Outcome:
        for _ in range(self._connections):
            self._go_on(None)
        while self._waiting:
            events = self._selector.select(timeout=SILENCE_S)
            for key, _ in events:
                self._hear(key.data)
            for slot in self._overdue() if events else list(self._waiting):
                self.outcome.unanswered += 1
                self._go_on(self._dropped(slot))
        self._selector.close()
        return self.outcome

    def _overdue(self) -> list[Slot]:
        latest = self.outcome.heard_of - PATIENCE * self._connections
        return [slot for slot, _ in takewhile(lambda entry: entry[1] < latest, self._waiting.items())]

    def _hear(self, slot: Slot) -> None:
        ended, answered = slot.hear()
        if answered:
            self.outcome.answered += 1
        elif ended:
            self.outcome.hung_up += 1
        if answered or ended:
            self._go_on(self._dropped(slot) if ended else slot)

    def _go_on(self, slot: Slot | None) -> None:
        """Send the next request over the same connection, or a new one if it was closed."""
        request = next(self._requests, None)
        if request is None:
            if slot is not None:
                self._dropped(slot)
            return
        if slot is None or not slot.tell(request):
            if slot is not None:
                self._dropped(slot)
            slot = Slot(self._address, self._prepare)
            self._selector.register(slot, selectors.EVENT_READ, slot)
            slot.tell(request)
        self._waiting.pop(slot, None)
        self._waiting[slot] = self.outcome.heard_of

    def _dropped(self, slot: Slot) -> None:
        self._waiting.pop(slot, None)
        self._selector.unregister(slot)
        slot.close()


class Slot:
    """A connection with one request in flight."""

    def __init__(self, address: tuple[str, int], prepare: Prepare) -> None:
        self._socket = prepare(socket.create_connection(address, timeout=TIMEOUT_S))
        self._received = bytearray()
        self.fileno = self._socket.fileno
        self.close = self._socket.close

    def tell(self, request: bytes) -> bool:
        """Whether the request could be sent."""
        self._received.clear()
        self._socket.settimeout(TIMEOUT_S)
        try:
            self._socket.sendall(request)
        except (ConnectionError, ssl.SSLError):
            return False
        finally:
            self._socket.setblocking(False)
        return True

    def hear(self) -> tuple[bool, bool]:
        """Whether the connection was closed, and whether the response is complete."""
        chunk = b"none yet"
        try:
            while chunk:  # TLS may have read more than it was asked for.
                chunk = self._socket.recv(1 << 16)
                self._received += chunk
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        except (ConnectionError, ssl.SSLError):
            return True, False
        whole = len(self._received) >= 4 and len(self._received) >= 4 + struct.unpack_from(">i", self._received)[0]
        return not chunk, whole


def storm(
    address: tuple[str, int],
    requests: Iterator[bytes],
    connections: int = CONNECTIONS,
    prepare: Prepare = lambda raw: raw,
) -> Outcome:
    """Sends every request, and waits until it is answered, disconnected, or counts as waiting."""
    return Storm(address, requests, connections, prepare).run()
