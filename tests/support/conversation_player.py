"""Plays a conversation against a node and reports the responses that differ from the file.

Responses are compared as values, in the form of `conversation_values` and with the names of `conversation_names`.
"""

from __future__ import annotations

import json
import re
import socket
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minikafka.protocol.headers import decode_response, encode_request
from support.conversation import Answer, Closed, Conversation, HangUp, RawBytes, Request, Silence, Step, Wait
from support.conversation_names import Names
from support.conversation_values import API_BY_NAME, comparable, in_one_order, spell_out, to_message

CLIENT_ID = "conversation"
ANSWER_TIMEOUT_S = 30.0
RETRY_PAUSE_S = 0.05
PINGS = 3

_LISTS = {"ListGroups": ("groups", "group_id"), "ListTransactions": ("transaction_states", "transactional_id")}

_READS = re.compile("Metadata|Describe|List|OffsetFetch|OffsetForLeaderEpoch|Fetch")

CLOSED = "closed"
NOTHING = "nothing in time"


@dataclass(frozen=True)
class Difference:
    """A response that is not the expected one."""

    line: int
    asked: str
    expected: str
    answered: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.asked[:400]}\n  expected {self.expected}\n  answered {self.answered}"


@dataclass(frozen=True)
class _Open:
    """A request without a response so far."""

    api: str
    version: int
    correlation_id: int
    of_everything: bool


class Connection:
    """A client connection with its open requests.

    Attributes:
        unread: whether the node may not have read the last request yet.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.unread = False
        self._socket = socket.create_connection(address, timeout=ANSWER_TIMEOUT_S)
        self._open: list[_Open] = []
        self._buffer = b""
        self._next_id = 1
        self._sent_at = time.monotonic()

    def send(self, api: str, version: int, body: dict[str, Any]) -> None:
        """Sends a request. Raises ValueError if the body has a field that the API does not have."""
        self.send_together((api, version, body))

    def send_together(self, *requests: tuple[str, int, dict[str, Any]]) -> None:
        """Sends requests in one system call, so that the node reads them together."""
        data = b""
        for api, version, body in requests:
            message = to_message(API_BY_NAME[api].request, version, body)
            data += encode_request(message, version, self._next_id, CLIENT_ID)
            if api != "Produce" or body.get("acks"):  # there is no response with acks=0
                self._open.append(_Open(api, version, self._next_id, _of_all_topics(api, version, body)))
            self._next_id += 1
        self._send(data)

    def send_raw(self, data: bytes, api: str | None, version: int) -> None:
        """Sends raw bytes; with an API they are a complete request that gets a response."""
        self._send(data)
        if api:
            self._open.append(_Open(api, version, int.from_bytes(data[8:12], "big"), of_everything=False))

    def receive(self, timeout_s: float) -> tuple[_Open, Any] | str:
        """The oldest open request and its response; NOTHING after the timeout; CLOSED if the node disconnected."""
        frame = self._frame(time.monotonic() + timeout_s)
        if isinstance(frame, str):
            return frame
        asked = self._open.pop(0)
        self.unread = False
        correlation_id, message = decode_response(API_BY_NAME[asked.api].response, asked.version, frame)
        assert correlation_id == asked.correlation_id, f"answer to {correlation_id}, {asked} was next"
        return asked, message

    def ask(self, api: str, version: int, body: dict[str, Any]) -> Any:
        """Sends a request and returns its response; None after the timeout."""
        self.send(api, version, body)
        received = self.receive(ANSWER_TIMEOUT_S)
        return None if isinstance(received, str) else received[1]

    def is_silent(self, time_s: float) -> bool:
        """Whether no response arrives within the time after the last request, counted from its sending."""
        deadline = self._sent_at + time_s
        return self._read(deadline) == NOTHING or time.monotonic() > deadline

    def close(self) -> None:
        self._socket.close()

    def _send(self, data: bytes) -> None:
        self._sent_at = time.monotonic()
        self.unread = True
        self._socket.sendall(data)

    def _frame(self, deadline: float) -> bytes | str:
        failed = self._read(deadline)
        if failed:
            return failed
        end = 4 + int.from_bytes(self._buffer[:4], "big")
        frame, self._buffer = self._buffer[4:end], self._buffer[end:]
        return frame

    def _read(self, deadline: float) -> str:
        """Reads until a frame is complete; returns "", or NOTHING or CLOSED."""
        while len(self._buffer) < 4 or len(self._buffer) < 4 + int.from_bytes(self._buffer[:4], "big"):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return NOTHING
            self._socket.settimeout(left_s)
            try:
                data = self._socket.recv(1 << 20)
            except TimeoutError:
                return NOTHING
            except ConnectionError:
                return CLOSED
            if not data:
                return CLOSED
            self._buffer += data
        return ""


def play(
    conversation: Conversation, *addresses: tuple[str, int], patience_s: float = ANSWER_TIMEOUT_S
) -> list[Difference]:
    """Plays all steps, whatever the responses are, and returns the differences in order.

    A pause may have to last longer on a busy machine: after a pause, requests that only read are repeated until the
    response is the expected one, and several nodes must agree before the conversation continues.

    Args:
        addresses: of the nodes, by id from 1.
        patience_s: how long to wait for a response, and how long to retry for the expected one.
    """
    player = _Player(conversation, addresses, patience_s)
    try:
        return player.play()
    finally:
        player.close()


class _Player:
    def __init__(
        self, conversation: Conversation, addresses: Sequence[tuple[str, int]], patience_s: float
    ) -> None:
        self._conversation = conversation
        self._addresses = addresses
        self._patience_s = patience_s
        self._names = Names(f"c{uuid.uuid4().hex[:8]}-", several_nodes=conversation.nodes > 1)
        self._connections: dict[str, Connection] = {}
        self._observers: dict[tuple[str, int], Connection] = {}
        self._last_request: dict[str, Request] = {}
        self._behind_a_pause = False
        self._differences: list[Difference] = []

    def play(self) -> list[Difference]:
        for line, step in self._conversation.steps:
            try:
                self._play(line, step)
            except (ValueError, OSError) as error:
                self._differ(line, step, "", f"{type(error).__name__}: {error}")
                break
        return self._differences

    def close(self) -> None:
        for connection in (*self._connections.values(), *self._observers.values()):
            connection.close()

    def _play(self, line: int, step: Step) -> None:
        match step:
            case Request():
                self._behind_a_pause = self._behind_a_pause and _only_reads(step)
                self._let_be_read(step.connection)
                self._send(step)
                self._last_request[step.connection] = step
            case RawBytes():
                self._on(step.connection).send_raw(step.data, step.api, step.version)
                self._last_request.pop(step.connection, None)
            case Answer() | Closed():
                self._expect_answer(line, step)
            case Silence():
                if not self._on(step.connection).is_silent(step.time_ms / 1000):
                    answer = self._answer(step.connection, self._patience_s)
                    self._differ(line, step, f"silence for {step.time_ms} ms", answer)
            case HangUp():
                self._connections.pop(step.connection).close()
            case Wait():
                time.sleep(step.time_ms / 1000)
                self._behind_a_pause = True
                self._let_agree()

    def _expect_answer(self, line: int, step: Answer | Closed) -> None:
        request = self._last_request.get(step.connection)
        expected = CLOSED if isinstance(step, Closed) else step.body
        deadline = time.monotonic() + self._patience_s
        while True:
            mark = self._names.mark()
            answer = self._answer(step.connection, self._patience_s)
            if in_one_order(answer) == in_one_order(expected):
                return
            final = isinstance(answer, str) or time.monotonic() > deadline
            if final or request is None or not self._may_be_repeated(request):
                return self._differ(line, step, expected, answer)
            self._names.reset(mark)
            time.sleep(RETRY_PAUSE_S)
            self._send(request)

    def _may_be_repeated(self, request: Request) -> bool:
        return request.retried or (self._behind_a_pause and _only_reads(request))

    def _let_be_read(self, speaker: str) -> None:
        """Waits until the nodes have read the requests of the other connections: a node that answers a later request
        has read all earlier ones."""
        for name, connection in self._connections.items():
            if name != speaker and connection.unread:
                for _ in range(PINGS):
                    self._observer(connection.address).ask("ApiVersions", 0, {})
                connection.unread = False

    def _let_agree(self) -> None:
        """Waits until all nodes agree about the topics of the run, with all replicas in sync and no reassignment."""
        deadline = time.monotonic() + self._patience_s
        while len(self._addresses) > 1 and time.monotonic() < deadline:
            told = [self._told_at(address) for address in self._addresses]
            if told[0] is not None and all(one == told[0] for one in told):
                return
            time.sleep(RETRY_PAUSE_S)

    def _told_at(self, address: tuple[str, int]) -> dict[tuple[str, int], tuple[int, int, list[int]]] | None:
        """Leader, leader epoch and replicas of each partition of the run; None while one of them is changing."""
        observer = self._observer(address)
        moving = observer.ask("ListPartitionReassignments", 0, {"timeout_ms": 10_000, "topics": None})
        metadata = observer.ask("Metadata", 12, {"topics": None, "allow_auto_topic_creation": False})
        if moving is None or metadata is None or any(self._names.run in topic.name for topic in moving.topics):
            return None
        partitions = {
            (topic.name, one.partition_index): one
            for topic in metadata.topics
            for one in topic.partitions
            if self._names.run in topic.name
        }
        if any(sorted(one.isr_nodes) != sorted(one.replica_nodes) for one in partitions.values()):
            return None
        return {place: (one.leader_id, one.leader_epoch, one.replica_nodes) for place, one in partitions.items()}

    def _observer(self, address: tuple[str, int]) -> Connection:
        """A connection for the player's own requests."""
        if address not in self._observers:
            self._observers[address] = Connection(address)
        return self._observers[address]

    def _send(self, request: Request) -> None:
        self._on(request.connection).send(request.api, request.version, self._names.outward(request.body))

    def _answer(self, connection: str, timeout_s: float) -> Any:
        """The next response in its comparable form, or NOTHING or CLOSED."""
        received = self._on(connection).receive(timeout_s)
        if isinstance(received, str):
            return received
        asked, message = received
        answer = comparable(type(message), asked.version, message)
        return self._names.inward(spell_out(self._own(asked, answer)))

    def _own(self, asked: _Open, answer: dict[str, Any]) -> dict[str, Any]:
        """A response that lists everything on a node, reduced to the names of the run."""
        array, key = ("topics", "name") if asked.of_everything else _LISTS.get(asked.api, ("", ""))
        kept = [element for element in answer.pop(array, []) if self._names.run in element.get(key, "")]
        return answer | ({array: kept} if kept else {})

    def _on(self, name: str) -> Connection:
        if name not in self._connections:
            self._connections[name] = Connection(self._address_of(name))
        return self._connections[name]

    def _address_of(self, name: str) -> tuple[str, int]:
        """The address for a connection. Raises ValueError while the coordinator is unknown."""
        place = name.partition("@")[2] or "1"
        if place == "coordinator":
            return self._addresses[self._names.coordinator - 1]
        if place == "other":
            return self._addresses[self._names.coordinator % len(self._addresses)]
        return self._addresses[int(place) - 1]

    def _differ(self, line: int, step: Step, expected: Any, answer: Any) -> None:
        request = self._last_request.get(getattr(step, "connection", ""))
        asked = f"{request.api} v{request.version} {json.dumps(request.body)}" if request else "raw bytes"
        self._differences.append(Difference(line, asked, json.dumps(expected), json.dumps(answer)))


def _only_reads(request: Request) -> bool:
    """Whether the request can be repeated; a Fetch in an incremental session cannot."""
    return bool(_READS.match(request.api)) and not request.body.get("session_id")


def _of_all_topics(api: str, version: int, body: dict[str, Any]) -> bool:
    if api != "Metadata":
        return False
    return body.get("topics", []) is None or (version == 0 and not body.get("topics"))


def use_up_producer_id_zero(address: tuple[str, int], *, by_admin: bool = False) -> None:
    """Allocates producer id 0 of a new node, which a conversation cannot distinguish from a missing one.

    Args:
        by_admin: whether to log in first, as the user `admin` with the password `admin-secret`.
    """
    connection = Connection(address)
    if by_admin:
        connection.ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
        connection.ask("SaslAuthenticate", 2, {"auth_bytes": "\0admin\0admin-secret"})
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < deadline:
        connection.send("InitProducerId", 1, {"transactional_id": None, "transaction_timeout_ms": 1000})
        received = connection.receive(ANSWER_TIMEOUT_S)
        if isinstance(received, str) or received[1].error_code == 0:
            break
        time.sleep(RETRY_PAUSE_S)
    connection.close()
