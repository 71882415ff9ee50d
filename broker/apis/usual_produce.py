"""`UsualProduce`: answers the usual small Produce request from its bytes, without a request or response object.

Most Produce requests of a client differ from an earlier request only in their correlation id and their batch: they have
one topic, one partition, no transaction. The bytes around the batch are the same each time. Their content is kept here
as a `Shape`, which is found by decoding one such request, and encoding its response, with the messages' own
declarations. A request whose bytes before and after the batch are known is then cut at the same places. This saves
half of the cost of a small request.

`answer` appends only batches that `produce.handle` would append unchanged and acknowledge at once, and gives the same
response. All other requests are left to `produce.handle`, with nothing changed: batches that are not plain or have more
than a few records, requests that fail, and requests that wait for followers or for the disk. Tests check that both give
the same responses.
"""

from struct import Struct
from typing import Any, NamedTuple

from crc32c import crc32c

from minikafka.broker.apis.produce import ALL, VERSION_BY_ID, ProduceServices
from minikafka.broker.partitions.batch_validation import SCANNED_RECORDS_MAX
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.record_scan import scan
from minikafka.protocol.codec.varint import read_uvarint
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.headers import parse_request_header, response_parts
from minikafka.protocol.message import MalformedMessage, decode
from minikafka.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from minikafka.protocol.names import INTERNAL_TOPICS
from minikafka.protocol.records.batch import Batch, CorruptRecords, parse_header

KEY = b"\x00\x00"
"""The API key of Produce."""
FIRST_FLEXIBLE, FIRST_WITH_LOG_START = 9, 5
SHAPES_MAX = 4096
SHAPE_SIZE_BYTES_MAX = 512
LEARNT_SIZE_BYTES_MAX = 1 << 16
NULL = 0xFFFF
"""The encoded size of a null client id."""
PLAIN = 0
"""The attributes of a batch without compression, transaction or LogAppendTime."""
ASSIGNED = slice(0, 16)
"""The bytes of a batch that an append sets before it can fail: base offset, size and leader epoch."""
CORRELATION_ID = slice(4, 8)
NUMBERS = Struct(">qqq")
"""The three numbers of a response, which follow each other: base offset, log append time and log start offset."""
UNSET, OTHER = (0, 0, 0), (-1, -1, -1)


class Shape(NamedTuple):
    """The content of the bytes around the batch of a usual request, and the response to the request.

    Attributes:
        tail: The bytes of the request after the batch.
        response: The response frame, in which the correlation id and the three `NUMBERS` are to be set.
        numbers_at: The position of the three numbers in the response.
    """

    version: int
    topic: str
    topic_id: bytes
    partition: int
    acks: int
    tail: bytes
    response: bytes
    numbers_at: int


class UsualProduce:
    """Answers usual Produce requests.

    It learns the shapes of requests, at most `SHAPES_MAX`; before there would be more, it forgets all of them.
    """

    def __init__(self, services: ProduceServices) -> None:
        self._services = services
        self._shapes: dict[bytes, Shape | None] = {}

    def answer(self, frame: bytearray) -> list[Any] | None:
        """Append the batch of a request and return the response.

        Returns:
            The parts of the response; None if `produce.handle` has to answer. If it is None, nothing is appended, and
            the frame is unchanged.
        """
        try:
            flexible = frame[3] >= FIRST_FLEXIBLE
            at = _records_at(frame, flexible=flexible)
            start, end = _records_in(frame, at, flexible=flexible)
        except (IndexError, MalformedMessage):
            return None
        key = bytes(frame[:4] + frame[8:at])
        shape = self._shapes.get(key)
        if shape is None:
            if key not in self._shapes:
                self._learn(key, frame, start, end)
            return None
        if frame[end:] != shape.tail or start > end:
            return None
        return self._append(shape, memoryview(frame)[start:end], frame)

    def _append(self, shape: Shape, data: memoryview, frame: bytearray) -> list[Any] | None:
        partition = self._partition(shape)
        if partition is None:
            return None
        now_ms, as_sent = self._services.now_ms(), bytes(data[ASSIGNED])
        try:
            batch = parse_header(data)
            if not _is_usual(batch, len(data), partition, now_ms) or _has_to_wait(partition, batch, shape.acks):
                return None
            written = partition.append(batch, now_ms=now_ms, acks=shape.acks, validated=True)
        except CorruptRecords:
            return None
        except KafkaError:
            data[ASSIGNED] = as_sent
            return None
        response = bytearray(shape.response)
        response[CORRELATION_ID] = frame[CORRELATION_ID]
        start = partition.log.start_offset
        NUMBERS.pack_into(response, shape.numbers_at, written.first_offset, written.append_time_ms, start)
        return [response]

    def _partition(self, shape: Shape) -> Partition | None:
        """Return the partition if this node leads it and its topic has no rules about single records, else None."""
        services = self._services
        if shape.version >= VERSION_BY_ID:
            topic = services.image.topics_by_id.get(shape.topic_id)
        else:
            topic = services.image.topics.get(shape.topic)
        if topic is None or shape.partition >= len(topic.partitions):
            return None
        partition = services.partitions.get(topic.name, shape.partition)
        if partition is None or partition.topic_id != topic.id or not partition.is_leader or not partition.rules.plain:
            return None
        return partition

    # -- shapes --------------------------------------------------------------------------------------------------

    def _learn(self, key: bytes, frame: bytearray, start: int, end: int) -> None:
        """Remember the shape of a request whose records are from `start` to `end`, or that the request has no shape."""
        if len(key) > SHAPE_SIZE_BYTES_MAX or len(frame) > LEARNT_SIZE_BYTES_MAX:
            return
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        try:
            self._shapes[key] = _shape_of(frame, start, end)
        except MalformedMessage:
            self._shapes[key] = None


def _is_usual(batch: Batch, size_bytes: int, partition: Partition, now_ms: int) -> bool:
    """Whether a batch is valid and stored unchanged: the checks of `produced_batch` and `validate` of plain batches."""
    count, rules = batch.record_count, partition.rules
    data = batch.data
    if (
        batch.attributes != PLAIN
        or batch.base_offset
        or len(data) != size_bytes
        or size_bytes > rules.max_message_bytes
        or not 0 < count <= SCANNED_RECORDS_MAX
        or count != batch.last_offset_delta + 1
        or (batch.base_sequence < 0 <= batch.producer_id)
        or batch.max_timestamp - now_ms > rules.timestamp_after_max_ms
        or batch.base_timestamp < 0
        or crc32c(data[21:]) != batch.crc
    ):
        return False
    try:
        next(scan(batch.payload, count, count))
    except StopIteration as done:
        return bool(batch.base_timestamp + done.value.max_timestamp_delta == batch.max_timestamp)
    except KafkaError:
        return False
    return False


def _has_to_wait(partition: Partition, batch: Batch, acks: int) -> bool:
    """Whether the batch would wait for a flush or for followers, or be refused."""
    log, leader_state = partition.log, partition.leader_state
    if log.end_offset + batch.record_count - log.recovery_point >= log.config.flush_messages:
        return True
    return acks == ALL and (leader_state is None or bool(leader_state.followers) or partition.is_under_min_isr)


def _records_at(frame: bytearray, *, flexible: bool) -> int:
    """Return the position of the size of the records, if the request is a usual one. Raises IndexError.

    In other requests that position has another meaning; their bytes before it belong to no known shape.
    """
    client_id_size = frame[8] << 8 | frame[9]
    position = 10 if client_id_size == NULL else 10 + client_id_size
    if not flexible:
        return position + 22 + (frame[position + 12] << 8 | frame[position + 13])
    if frame[3] >= VERSION_BY_ID:
        return position + 30
    return position + 14 + frame[position + 9]


def _records_in(frame: bytearray, at: int, *, flexible: bool) -> tuple[int, int]:
    """Return the start and the end of the records whose size is at `at`. Raises IndexError, MalformedMessage."""
    if not flexible:
        return at + 4, at + 4 + int.from_bytes(frame[at : at + 4], "big")
    size, start = read_uvarint(frame, at)
    return start, start + size - 1


def _shape_of(frame: bytearray, start: int, end: int) -> Shape | None:
    """Find the shape of a request whose records are from `start` to `end`; None if the request is not a usual one.

    Raises MalformedMessage.
    """
    request = _decoded(frame)
    if request is None or not start < end <= len(frame) or not _is_cut_at(frame, start, end, request):
        return None
    [topic] = request.topic_data
    [data] = topic.partition_data
    if request.acks not in (ALL, 1) or data.index < 0 or topic.name in INTERNAL_TOPICS:
        return None
    response, numbers_at = _response_of(topic.name, topic.topic_id, data.index, frame[3])
    return Shape(
        frame[3], topic.name, topic.topic_id, data.index, request.acks, bytes(frame[end:]), response, numbers_at
    )


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
