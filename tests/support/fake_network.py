"""A network in memory for clients: scripted brokers behind `Seams.open_stream`, no socket and no process.

    network = FakeNetwork()
    network.broker("a", 1, {ProduceRequest: lambda request, version: ProduceResponse()})
    Producer(bootstrap_servers="a:1", seams=network.seams())

A broker has a handler per request class; it returns the response, or None for no response, or `Later`, or raises
`HangUp`. The default handlers of ApiVersions and Metadata describe the network.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from minikafka.client.connections.seams import Seams
from minikafka.client.connections.stream import Receiver
from minikafka.protocol.apis import APIS
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.frame import FrameReader
from minikafka.protocol.headers import parse_request_header, response_parts
from minikafka.protocol.message import decode
from minikafka.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

Handler = Callable[[Any, int], Any]


class HangUp(Exception):
    """Raised by a handler: the broker closes the connection."""


class Later:
    """Returned by a handler that answers later: by `answer`, with the response."""

    answer: Callable[[Any], None]


class FakeStream:
    """The client's end of a connection; `say` sends data of the broker."""

    def __init__(self, receiver: Receiver, broker: FakeBroker) -> None:
        self.receiver = receiver
        self.open = True
        self.is_busy = False
        self.waiting: deque[bytearray] = deque()
        """The requests that a broker `in_order` handles when the one before is answered."""
        self.is_full = False
        self._broker = broker
        self._frames = FrameReader(1 << 30)

    def write(self, data: bytes) -> None:
        for frame in self._frames.feed(memoryview(data)):
            if self.open:
                self._broker.serve(frame, self)

    def close(self) -> None:
        if self.open:
            self.open = False
            self.receiver.on_lost("closed here")

    def say(self, data: bytes) -> None:
        """Bytes from the broker."""
        for frame in self.receiver.frames.feed(memoryview(data)):
            self.receiver.on_frame(frame)


def _no_logins(request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
    """As a listener of protocol PLAINTEXT answers."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


class FakeBroker:
    """One scripted broker.

    Attributes:
        requests: all requests, in order.
        alive: whether it accepts connections.
        in_order: whether the requests of a connection are handled one after the other, also if some are answered later.
    """

    def __init__(self, network: FakeNetwork, node_id: int, host: str, port: int, handlers: dict[Any, Handler]) -> None:
        self.node_id, self.host, self.port = node_id, host, port
        self.handlers: dict[Any, Handler] = {
            ApiVersionsRequest: network.api_versions,
            MetadataRequest: network.metadata,
            SaslHandshakeRequest: _no_logins,
            **handlers,
        }
        self.requests: list[Any] = []
        self.streams: list[FakeStream] = []
        self.alive = True
        self.in_order = False

    def serve(self, frame: bytearray, stream: FakeStream) -> None:
        if self.in_order and stream.is_busy:
            stream.waiting.append(frame)
            return
        stream.is_busy = True
        header, offset = parse_request_header(frame)
        api = APIS[header.api_key]
        request = decode(api.request, header.api_version, frame, offset)
        self.requests.append(request)
        try:
            answer = self.handlers[api.request](request, header.api_version)
        except HangUp:
            self.hang_up(stream)
            return

        def say(message: Any) -> None:
            if stream.open:
                parts = response_parts(message, header.api_version, header.correlation_id)
                stream.say(b"".join(bytes(part) for part in parts))
                self._go_on(stream)

        if isinstance(answer, Later):
            answer.answer = say
        elif answer is not None:
            say(answer)
        else:
            self._go_on(stream)

    def _go_on(self, stream: FakeStream) -> None:
        stream.is_busy = False
        if stream.waiting:
            self.serve(stream.waiting.popleft(), stream)

    def hang_up(self, *streams: FakeStream) -> None:
        """Close the given connections, or all."""
        for stream in streams or tuple(self.streams):
            if stream.open:
                stream.open, stream.is_full = False, True
                stream.receiver.on_lost("the broker closed the connection")

    def die(self) -> None:
        """Close all connections and accept no more."""
        self.alive = False
        self.hang_up()


class FakeNetwork:
    """Brokers by address, and topics: name to the leader of each partition.

    Attributes:
        leader_epoch: that of all partitions.
    """

    def __init__(self, topics: dict[str, list[int]] | None = None) -> None:
        self.topics = topics or {}
        self.leader_epoch = -1
        self.brokers: list[FakeBroker] = []

    def broker(self, host: str, port: int, handlers: dict[Any, Handler] | None = None) -> FakeBroker:
        """Add a broker; node ids count from 1."""
        made = FakeBroker(self, len(self.brokers) + 1, host, port, handlers or {})
        self.brokers.append(made)
        return made

    def seams(self, now_ms: Callable[[], int] = lambda: 1_700_000_000_000) -> Seams:
        return Seams(now_ms=now_ms, random=Random(1), open_stream=self.open_stream)

    async def open_stream(self, host: str, port: int, receiver: Receiver, task_group: Any) -> FakeStream:
        for broker in self.brokers:
            if (broker.host, broker.port, broker.alive) == (host, port, True):
                broker.streams.append(FakeStream(receiver, broker))
                return broker.streams[-1]
        raise ConnectionRefusedError(f"nobody listens at {host}:{port}")

    def api_versions(self, request: Any, version: int) -> ApiVersionsResponse:
        keys = [
            ApiVersion(api_key=api.key, min_version=api.versions.first, max_version=api.versions.last)
            for api in APIS.values()
        ]
        return ApiVersionsResponse(api_keys=keys)

    def metadata(self, request: Any, version: int) -> MetadataResponse:
        names = list(self.topics) if request.topics is None else [one.name for one in request.topics]
        return MetadataResponse(
            cluster_id="fake",
            controller_id=1,
            brokers=[MetadataResponseBroker(node_id=one.node_id, host=one.host, port=one.port) for one in self.brokers],
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(name=name, error_code=3)
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=leader, leader_epoch=self.leader_epoch)
            for index, leader in enumerate(self.topics[name])
        ]
        return MetadataResponseTopic(name=name, topic_id=topic_id(name), partitions=partitions)


def topic_id(name: str) -> bytes:
    """The id of a topic."""
    return name.encode().ljust(16, b"-")
