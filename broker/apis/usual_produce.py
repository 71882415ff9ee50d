"""`UsualProduce`: a cache in front of the dispatcher, of the decoded bytes around the batch of a small Produce request.

Most Produce requests of a client differ from an earlier request only in their correlation id and their batch: they have
one topic, one partition, no transaction. The bytes around the batch are the same each time. Their content is kept here
as a `Shape`, which is found by decoding one such request, and encoding its response, with the messages' own
declarations. A request whose bytes before and after the batch are known is then cut at the same places, its batch is
checked and appended by the functions that `produce.handle` calls, and the response differs in three numbers. So the
cache can be removed without loss. It saves more than a third of the cost of a small request.

All other requests are left to `produce.handle`, with nothing changed: those of another shape, batches that are not
plain or have more than a few records, requests that fail, and partitions where acknowledgements wait for followers or
for the disk. Tests check that both give the same responses.
"""

from struct import Struct
from typing import Any, NamedTuple

from minikafka.broker.apis.produce import ALL, VERSION_BY_ID, Appends, ProduceServices, admitted
from minikafka.broker.apis.produce_in_transaction import NOT_VERIFIED
from minikafka.broker.connections.request_context import ConnectionInfo, RequestContext
from minikafka.broker.partitions.batch_validation import SCANNED_RECORDS_MAX, LargeBatch, RejectedRecords
from minikafka.broker.partitions.partition import Partition
from minikafka.controller.security.access import Authorizer
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.codec.varint import read_uvarint
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.headers import parse_request_header, response_parts
from minikafka.protocol.message import MalformedMessage, decode
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from minikafka.protocol.names import INTERNAL_TOPICS
from minikafka.protocol.records.batch import HEADER_SIZE

WRITE, TOPIC = AclOperation.WRITE, AclResourceType.TOPIC
"""Constants, since the attributes of an Enum take long."""
KEY = b"\x00\x00"
"""The API key of Produce."""
FIRST_FLEXIBLE, FIRST_WITH_LOG_START = 9, 5
SHAPES_MAX = 4096
SHAPE_SIZE_BYTES_MAX = 512
"""The most bytes around the batch of a request whose shape is kept."""
LEARNT_SIZE_BYTES_MAX = 1 << 16
UNTIMED_SIZE_BYTES_MAX = 4096
"""Smaller batches take as long as any small request, and do not count among those that take long together."""
NULL = 0xFFFF
"""The encoded size of a null client id."""
PLAIN = 0
"""The attributes of a batch without compression, transaction or LogAppendTime."""
ASSIGNED = slice(0, HEADER_SIZE)
"""The bytes of a batch that validation and append may set before an error."""
NEVER = (1 << 63) - 1
"""`flush.messages` by default: no acknowledgement waits for a flush."""
CORRELATION_ID = slice(4, 8)
NUMBERS = Struct(">qqq")
"""The three numbers of a response, which follow each other: base offset, log append time and log start offset."""
UNSET, OTHER = (0, 0, 0), (-1, -1, -1)


class Shape(NamedTuple):
    """The content of the bytes around the batch of a usual request, and the response to the request.

    Attributes:
        appends: The request, without records, and the context of such a request on any connection: only the decision
            whether the client may write looks at the connection.
        tail: The bytes of the request after the batch.
        response: The response frame, in which the correlation id and the three `NUMBERS` are to be set.
        numbers_at: The position of the three numbers in the response.
    """

    appends: Appends
    topic: TopicProduceData
    partition: int
    tail: bytes
    response: bytes
    numbers_at: int


class UsualProduce:
    """Answers usual Produce requests.

    It learns the shapes of requests, at most `SHAPES_MAX`; before there would be more, it forgets all of them.

    Args:
        authorizer: Decides which clients may write to a topic; None allows it to all.
    """

    def __init__(self, services: ProduceServices, authorizer: Authorizer | None = None) -> None:
        self._services = services
        self._authorizer = authorizer
        self._shapes: dict[bytes, Shape | None] = {}

    def answer(self, frame: bytearray, connection: ConnectionInfo) -> list[Any] | None:
        """Append the batch of a request and return the response.

        Returns:
            The parts of the response; None if `produce.handle` has to answer. If it is None, nothing is appended, and
            the frame is unchanged.
        """
        try:
            at, start, end = _records_in(frame)
        except (IndexError, MalformedMessage):
            return None
        key = bytes(frame[:4] + frame[8:at])
        shape = self._shapes.get(key)
        if shape is None:
            if key not in self._shapes:
                self._learn(key, frame, start, end)
            return None
        if not start <= end <= len(frame) or frame[end:] != shape.tail:
            return None
        return self._append(shape, memoryview(frame)[start:end], frame, connection)

    def _append(
        self, shape: Shape, data: memoryview, frame: bytearray, connection: ConnectionInfo
    ) -> list[Any] | None:
        now_ms, as_sent, acks = self._services.now_ms(), bytes(data[ASSIGNED]), shape.appends.request.acks
        large_batches = self._services.partitions.large_batches if len(data) > UNTIMED_SIZE_BYTES_MAX else None
        try:
            began = 0.0 if large_batches is None else large_batches.begin()
        except LargeBatch:
            return None
        try:
            partition, batch = admitted(shape.topic, shape.partition, data, shape.appends)
            if batch.attributes != PLAIN or batch.record_count > SCANNED_RECORDS_MAX or _has_to_wait(partition, acks):
                return None
            name, host = shape.topic.name or partition.topic_partition.topic, connection.client_host
            if self._authorizer is not None and not self._authorizer.allows(
                connection.principal, host, WRITE, TOPIC, name, log_denied=False
            ):
                return None  # The handler asks again, and logs the denial.
            written = partition.append(batch, now_ms=now_ms, acks=acks)
        except (KafkaError, RejectedRecords, LargeBatch):
            data[ASSIGNED] = as_sent
            return None
        finally:
            if large_batches is not None:
                large_batches.end(began)
        response = bytearray(shape.response)
        response[CORRELATION_ID] = frame[CORRELATION_ID]
        start = partition.log.start_offset
        NUMBERS.pack_into(response, shape.numbers_at, written.first_offset, written.append_time_ms, start)
        return [response]

    # -- shapes --------------------------------------------------------------------------------------------------

    def _learn(self, key: bytes, frame: bytearray, start: int, end: int) -> None:
        """Remember the shape of a request whose records are from `start` to `end`, or that the request has no shape."""
        around = len(key) + len(frame) - end
        if not start < end <= len(frame) or around > SHAPE_SIZE_BYTES_MAX or len(frame) > LEARNT_SIZE_BYTES_MAX:
            return
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        try:
            self._shapes[key] = _shape_of(frame, start, end, self._services)
        except MalformedMessage:
            self._shapes[key] = None


def _has_to_wait(partition: Partition, acks: int) -> bool:
    """Whether acknowledgements may wait for a flush or for followers."""
    if partition.log.config.flush_messages < NEVER:
        return True
    return acks == ALL and (partition.leader_state is None or bool(partition.leader_state.followers))


def _records_in(frame: bytearray) -> tuple[int, int, int]:
    """Return the position of the size of the records, their start and their end, if the request is a usual one.

    In other requests these positions have another meaning; their bytes before the first belong to no known shape.

    Raises:
        IndexError, MalformedMessage: It is no usual request.
    """
    client_id_size = frame[8] << 8 | frame[9]
    at = 10 if client_id_size == NULL else 10 + client_id_size
    version = frame[3]
    if version < FIRST_FLEXIBLE:
        at += 22 + (frame[at + 12] << 8 | frame[at + 13])
        return at, at + 4, at + 4 + int.from_bytes(frame[at : at + 4], "big")
    at += 30 if version >= VERSION_BY_ID else 14 + frame[at + 9]
    size, start = read_uvarint(frame, at)
    return at, start, start + size - 1


def _shape_of(frame: bytearray, start: int, end: int, services: ProduceServices) -> Shape | None:
    """Find the shape of a request whose records are from `start` to `end`; None if the request is not a usual one.

    Raises MalformedMessage.
    """
    request = _decoded(frame)
    if request is None or not _is_cut_at(frame, start, end, request):
        return None
    [topic] = request.topic_data
    [data] = topic.partition_data
    if request.acks not in (ALL, 1) or topic.name in INTERNAL_TOPICS:
        return None
    response, numbers_at = _response_of(topic.name, topic.topic_id, data.index, frame[3])
    topic.partition_data = []
    context = RequestContext(services, frame[3], "", ConnectionInfo("", ""))
    appends = Appends(request, context, None, NOT_VERIFIED, [], [])
    return Shape(appends, topic, data.index, bytes(frame[end:]), response, numbers_at)


def _decoded(frame: bytearray) -> ProduceRequest | None:
    """Decode a request; None unless it has one partition, no transactional id, and a version with all `NUMBERS`."""
    header, position = parse_request_header(frame)
    if not FIRST_WITH_LOG_START <= header.api_version <= VERSION_BY_ID:
        return None
    request = decode(ProduceRequest, header.api_version, frame, position)
    if request.transactional_id is not None or [len(one.partition_data) for one in request.topic_data] != [1]:
        return None
    return request


def _is_cut_at(frame: bytearray, start: int, end: int, request: ProduceRequest) -> bool:
    """Whether the records are exactly the bytes from `start` to `end`: inverting the bytes changes only the records."""
    inverted = bytes(byte ^ 0xFF for byte in frame[start:end])
    other = _decoded(frame[:start] + inverted + frame[end:])
    if other is None or other.topic_data[0].partition_data[0].records != inverted:
        return False
    other.topic_data[0].partition_data[0].records = request.topic_data[0].partition_data[0].records
    return bool(other == request)


def _response_of(name: str, topic_id: bytes, index: int, version: int) -> tuple[bytes, int]:
    """Build the response to a request for one partition; returns it with the position of its three numbers.

    The position is found by comparing two responses that differ only in the numbers.
    """
    unset, other = (_encoded(name, topic_id, index, version, numbers) for numbers in (UNSET, OTHER))
    places = [place for place in range(len(unset)) if unset[place] != other[place]]
    assert places == list(range(places[0], places[0] + NUMBERS.size)), "the numbers do not follow each other"
    return unset, places[0]


def _encoded(name: str, topic_id: bytes, index: int, version: int, numbers: tuple[int, int, int]) -> bytes:
    offset, time_ms, start = numbers
    answer = PartitionProduceResponse(
        index=index, base_offset=offset, log_append_time_ms=time_ms, log_start_offset=start
    )
    topic = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[answer])
    return b"".join(response_parts(ProduceResponse(responses=[topic]), version, 0))
