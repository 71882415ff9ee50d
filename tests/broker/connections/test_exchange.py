"""The states of a connection without a socket: every event in every state, and every transition of the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, cast

import pytest

from minikafka.broker.connections.exchange import (
    READY_BYTES_MAX,
    TRANSITIONS,
    Event,
    Exchange,
    IllegalTransition,
    State,
)
from minikafka.broker.connections.long_polls import Parked, Receiver
from minikafka.broker.connections.ready_sockets import TURN_S
from minikafka.broker.connections.request_context import Answer, ConnectionInfo, Disconnect
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.message import MalformedMessage
from minikafka.storage.waits import Begun, begin, in_task

SIZE_BYTES_MAX = 200_000
ECHO, LARGE, SILENT, SLOW, THROTTLED, MUTED, WAITING, WAITING_SILENT, WAITING_MUTED, FAILING, PARKED = range(11)
"""What a request asks for: its first byte."""
EVENTS = [event for event in Event if event is not Event.CLOSE]


def framed(kind: int, size_bytes: int = 12) -> bytes:
    return size_bytes.to_bytes(4, "big") + bytes([kind]) * size_bytes


REQUESTS = [framed(kind) for kind in range(PARKED + 1)]
PART, LAST_PART = framed(ECHO, 100_000)[:-7], 7
OVERSIZED = (SIZE_BYTES_MAX + 1).to_bytes(4, "big")


class Handler:
    """Answers each request as its first byte asks for; it is the group of those that are parked."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.key = b""
        self.parked: Parked | None = None

    def answer_now(
        self, frame: bytearray, connection: ConnectionInfo, receiver: Receiver | None
    ) -> Begun[Answer] | Parked:
        kind = frame[0]
        if kind == FAILING:
            raise Disconnect("asked to")
        if kind == PARKED and receiver is not None:
            self.key, group = bytes(frame[:4] + frame[8:]), cast("Any", self)
            self.parked = Parked(group, receiver, bytes(frame[4:8]), math.inf)
            return self.parked
        if kind in (WAITING, WAITING_SILENT, WAITING_MUTED, PARKED):
            return begin(self._after_a_wait(kind))
        return self._answer(kind)

    async def _after_a_wait(self, kind: int) -> Answer:
        await in_task()
        return self._answer(kind)

    def _answer(self, kind: int) -> Answer:
        self.now_s += 2 * TURN_S if kind == SLOW else 0
        is_silent = kind in (SILENT, SLOW, MUTED, WAITING_SILENT, WAITING_MUTED)
        throttle_ms = 5 if kind in (THROTTLED, MUTED, WAITING_MUTED) else 0
        return [] if is_silent else [bytes(READY_BYTES_MAX if kind == LARGE else 10)], throttle_ms

    def leave(self, member: Parked) -> None:
        assert member is self.parked
        self.parked = None


class NoReceiver:
    def deliver(self, parts: list[object] | None) -> None:
        raise AssertionError("the test delivers")


@dataclass
class Client:
    """An exchange, and each event with what may come with it."""

    random: Random
    handler: Handler = field(default_factory=Handler)

    def __post_init__(self) -> None:
        self.exchange = Exchange(self.handler, ConnectionInfo("L", "h"), SIZE_BYTES_MAX, lambda: self.handler.now_s)
        self.events: dict[Event, Callable[[], None]] = {
            Event.RECEIVE: lambda: self.receive(self.some_bytes()),
            Event.FAIL: lambda: self.exchange.fail(ConnectionResetError()),
            Event.HOLD: self.exchange.hold,
            Event.DELIVER: self.deliver,
            Event.SENT: self.sent,
            Event.UNMUTE: self.exchange.unmute,
            Event.ANSWERED: self.answered,
            Event.PROCEED: self.exchange.proceed,
            Event.LOADED: lambda: self.exchange.loaded(self.random.choice([0, 1, LAST_PART])),
            Event.CLOSE: self.exchange.close,
        }

    def receive(self, data: bytes) -> None:
        self.exchange.receive(memoryview(data), self.handler.now_s, NoReceiver())

    def deliver(self) -> None:
        self.exchange.deliver(self.random.choice([None, [bytes(10)]]))
        self.handler.parked = None

    def some_bytes(self) -> bytes:
        if self.random.random() < 0.05:
            return b""
        data = b"".join(self.random.choices(REQUESTS, k=self.random.randrange(1, 5)))
        return data + self.random.choice([b"", b"", PART, OVERSIZED])

    def sent(self) -> None:
        if self.exchange.state is State.SENDING:
            taken = self.exchange.take()
            if self.random.random() < 0.5:
                taken.clear()
            self.exchange.sent(taken)
        else:
            self.exchange.sent()

    def answered(self) -> None:
        if self.exchange.state is not State.ANSWERING:
            self.exchange.answered(([], 0))
            return
        with pytest.raises(StopIteration) as done:
            self.exchange.take_rest().__await__().send(None)
        self.exchange.answered(done.value.value)


def walked(client: Client) -> Iterator[tuple[State, Event, State]]:
    """Events that are allowed, in random order, until the connection is closed; it is closed where none is."""
    while (before := client.exchange.state) is not State.CLOSED:
        events = TRANSITIONS[before].keys() - ({Event.DELIVER} if client.handler.parked is None else set())
        event = client.random.choice(sorted(events) or [Event.CLOSE])
        client.events[event]()
        yield before, event, client.exchange.state


def test_the_transitions_that_occur_are_those_of_the_table() -> None:
    table = {
        (before, event, after)
        for before, events in TRANSITIONS.items()
        for event, allowed in events.items()
        for after in allowed
    }
    occurred = {step for seed in range(3000) for step in walked(Client(Random(seed)))}
    assert {step for step in occurred if step[1] is not Event.CLOSE} == table


BEFORE: dict[State, list[Callable[[Client], None]]] = {
    State.RECEIVING: [],
    State.PARKED: [lambda client: client.receive(REQUESTS[PARKED])],
    State.HELD: [lambda client: client.receive(REQUESTS[PARKED]), lambda client: client.exchange.hold()],
    State.SENDING: [lambda client: client.receive(REQUESTS[ECHO])],
    State.MUTED: [lambda client: client.receive(REQUESTS[THROTTLED]), lambda client: sent(client)],
    State.FAILED: [lambda client: client.receive(REQUESTS[FAILING])],
    State.ANSWERING: [lambda client: client.receive(REQUESTS[WAITING])],
    State.READY: [lambda client: client.receive(REQUESTS[SLOW] + REQUESTS[ECHO])],
    State.LOADING: [lambda client: client.receive(PART)],
    State.CLOSED: [lambda client: client.receive(b"")],
}


def sent(client: Client) -> None:
    client.exchange.take()
    client.exchange.sent()


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("state", State)
def test_an_event_that_the_table_does_not_allow_is_refused_and_changes_nothing(state: State, event: Event) -> None:
    client = Client(Random(0))
    for step in BEFORE[state]:
        step(client)
    assert client.exchange.state is state
    if event in TRANSITIONS[state]:
        if (state, event) != (State.SENDING, Event.DELIVER):  # it needs a parked request as well
            client.events[event]()
            assert client.exchange.state in TRANSITIONS[state][event]
        return
    with pytest.raises(IllegalTransition):
        client.events[event]()
    assert client.exchange.state is state


@pytest.mark.parametrize("state", State)
def test_a_connection_is_closed_in_any_state_and_leaves_nothing_behind(state: State) -> None:
    client = Client(Random(0))
    for step in BEFORE[state]:
        step(client)
    client.exchange.close()
    assert client.exchange.state is State.CLOSED
    assert client.exchange.take() == []
    assert client.handler.parked is None


def test_bytes_in_any_pieces_give_the_same_responses() -> None:
    data = b"".join(framed(kind, 7) for kind in (ECHO, SILENT, ECHO)) + framed(LARGE, 90)
    for cut in range(1, len(data)):
        client = Client(Random(0))
        client.receive(data[:cut])
        received = responses(client)
        for at in range(cut, len(data)):  # the rest arrives byte by byte
            if client.exchange.state is State.LOADING:
                with client.exchange.target as target:
                    target[0] = data[at]
                client.exchange.loaded(1)
            else:
                client.receive(data[at : at + 1])
            received += responses(client)
        assert list(map(len, received)) == [10, 10, READY_BYTES_MAX]


def responses(client: Client) -> list[bytes]:
    """What is sent until the client has to send more."""
    parts: list[bytes] = []
    while client.exchange.state in (State.SENDING, State.READY):
        if client.exchange.state is State.SENDING:
            parts += client.exchange.take()
            client.exchange.sent()
        else:
            client.exchange.proceed()
    return parts


def test_what_was_wrong_is_said_after_the_responses_before_it() -> None:
    for wrong, expected in ((REQUESTS[FAILING], Disconnect), (OVERSIZED, MalformedMessage)):
        client = Client(Random(0))
        client.receive(REQUESTS[ECHO] + wrong)
        assert client.exchange.state is State.SENDING
        assert len(client.exchange.take()) == 1
        client.exchange.sent()
        assert client.exchange.state is State.FAILED
        assert isinstance(client.exchange.failure, expected)
        assert not isinstance(client.exchange.failure, KafkaError)


def test_what_was_not_sent_comes_before_what_was_delivered_meanwhile() -> None:
    client = Client(Random(0))
    client.receive(REQUESTS[ECHO] + REQUESTS[PARKED])
    client.exchange.take()
    client.exchange.deliver([b"delivered"])
    client.exchange.sent([b"left"])
    assert client.exchange.state is State.SENDING
    assert client.exchange.take() == [b"left", b"delivered"]
