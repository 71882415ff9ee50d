"""The shortcut for usual Produce requests gives the responses and the log of the general path: random frames."""

from __future__ import annotations

import errno
import struct
from collections.abc import Awaitable, Iterable
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
import trio.testing
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batches import encode_batch

from minikafka.broker.apis import produce
from minikafka.broker.apis.usual_produce import (
    FIRST_FLEXIBLE,
    KEY,
    SHAPES_MAX,
    UNTIMED_SIZE_BYTES_MAX,
    UsualProduce,
    _records_in,
)
from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.request_context import Answer, ConnectionInfo, Disconnect
from minikafka.broker.connections.routes import routes_of
from minikafka.broker.partitions.large_batches import AT_ONCE_S, LargeBatches
from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.controller.metadata.acl import Acl
from minikafka.controller.metadata.image import Image, PartitionState
from minikafka.controller.metadata.records import PartitionRecord, RemoveAcl, TopicRecord
from minikafka.controller.security.access import Authorizer, Principal
from minikafka.controller.security.standard_authorizer import StandardAuthorizer
from minikafka.protocol.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType
from minikafka.protocol.codec.varint import uvarint
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.records.batch import Codec
from minikafka.protocol.records.record import Record
from minikafka.storage import Log, LogConfig, MemoryDisk
from minikafka.storage.logs.log_context import Checkpointed, LogContext
from minikafka.storage.waits import Rest

NODE, OTHER = 1, 2
NOW_MS = 1_700_000_000_000
TOPIC, TOPIC_ID = "orders", bytes([7] * 16)
CLIENT = ConnectionInfo("PLAINTEXT", "10.0.0.1", "10.0.0.2", 9092)
LATEST = 13
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def awaited(answer: Awaitable[Answer]) -> Answer:
    return await answer


class World:
    """A node with a topic of one partition, and the dispatcher of its Produce requests."""

    def __init__(
        self,
        *,
        shortcut: bool,
        config: LogConfig | None = None,
        leader: int = NODE,
        replicas: tuple[int, ...] = (NODE,),
        authorizer: Authorizer | None = None,
    ) -> None:
        self.image = Image()
        self.image.apply(TopicRecord(TOPIC_ID, TOPIC))
        self.image.apply(PartitionRecord(TOPIC_ID, 0, replicas=replicas, isr=replicas, leader=leader, leader_epoch=3))
        self.partitions = Partitions(self.image)
        self.disk = MemoryDisk()
        name = TopicPartition(TOPIC, 0)
        self.log = Log.open(
            LogContext(self.disk, self.now_ms),
            "/data/orders-0",
            name,
            config or LogConfig(),
            Checkpointed(clean=True),
            topic_id=TOPIC_ID,
        )
        self.partition = Partition(NODE, TOPIC_ID, name, self.log)
        self.partition.become(self.image.topics[TOPIC].partitions[0])
        self.partitions.add(self.partition)
        services = cast(Any, SimpleNamespace(partitions=self.partitions, image=self.image, now_ms=self.now_ms))
        self.shortcut = UsualProduce(services, authorizer)
        self.answered = 0
        self.dispatcher: Dispatcher[Any] = Dispatcher(
            services,
            routes_of(cast(Any, [produce])),
            clock=lambda: 0.0,
            authorizer=authorizer,
            shortcuts={KEY: self._shortcut} if shortcut else {},
        )

    def now_ms(self) -> int:
        return NOW_MS

    def _shortcut(self, frame: bytearray, client: ConnectionInfo) -> list[Any] | None:
        before = bytes(frame)
        parts = self.shortcut.answer(frame, client)
        if parts is None:
            assert frame == before, "a frame that the shortcut left was changed"
        else:
            self.answered += 1
        return parts

    def answer(self, frame: bytes, client: ConnectionInfo = CLIENT) -> bytes | str:
        """The response, or what else becomes of the request."""
        try:
            answer = self.dispatcher.answer_now(bytearray(frame), client, None)
            if isinstance(answer, Rest):
                answer = trio.run(awaited, answer, clock=trio.testing.MockClock(autojump_threshold=0))
        except (MalformedMessage, Disconnect) as error:
            return f"{type(error).__name__}: {error}"
        return b"".join(answer[0])

    def content(self) -> bytes:
        """All batches of the log."""
        found = self.log.read(0, max_bytes=1 << 30) if self.log.failure is None else None
        return b"" if found is None else found.read()


def records_of(count: int, *, keys: bool = False, timestamp: int = NOW_MS) -> list[Record]:
    return [Record(index, timestamp + index, b"k" if keys else None, b"v%d" % index, ()) for index in range(count)]


def frame(
    version: int = 9, *, acks: int = 1, records: bytes | None = None, correlation_id: int = 1, client: str | None = "me"
) -> bytes:
    """A usual request without its size."""
    data = PartitionProduceData(index=0, records=encode_batch(records_of(1)) if records is None else records)
    topic = TopicProduceData(name=TOPIC, topic_id=TOPIC_ID, partition_data=[data])
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])
    return encode_request(request, version, correlation_id, client)[4:]


# -- random requests ---------------------------------------------------------------------------------------------------

BATCHES = st.builds(
    encode_batch,
    st.builds(
        records_of,
        st.sampled_from([1, 1, 1, 2, 64, 65]),
        keys=st.booleans(),
        timestamp=st.sampled_from([NOW_MS, NOW_MS, -1, NOW_MS + 7_200_000]),
    ),
    codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP]),
    producer_id=st.sampled_from([-1, -1, 5]),
    producer_epoch=st.just(0),
    base_sequence=st.sampled_from([0, 0, 1, -1]),
    transactional=st.sampled_from([False, False, False, False, True]),
    control=st.sampled_from([False, False, False, False, True]),
    base_offset=st.sampled_from([0, 0, 0, 1]),
)


def damaged(batch: bytes, at: int, value: int, *, sealed: bool) -> bytes:
    """A batch with another byte, and with the right checksum if `sealed`."""
    changed = bytearray(batch)
    changed[at % len(changed)] = value
    if sealed:
        changed[17:21] = struct.pack(">I", crc32c(bytes(changed[21:])))
    return bytes(changed)


RECORDS = st.one_of(
    BATCHES,
    BATCHES,
    st.builds(damaged, BATCHES, st.integers(0, 80), st.integers(0, 255), sealed=st.booleans()),
    st.sampled_from([b"", None]),
)
PARTITIONS = st.builds(PartitionProduceData, index=st.sampled_from([0, 0, 0, 0, 1, -1]), records=RECORDS)
TOPICS = st.builds(
    TopicProduceData,
    name=st.sampled_from([TOPIC, TOPIC, TOPIC, TOPIC, "unknown", "__consumer_offsets"]),
    topic_id=st.sampled_from([TOPIC_ID, TOPIC_ID, TOPIC_ID, bytes(16)]),
    partition_data=st.lists(PARTITIONS, min_size=1, max_size=1) | st.lists(PARTITIONS, max_size=2),
)
REQUESTS = st.builds(
    ProduceRequest,
    transactional_id=st.sampled_from([None, None, None, "tx"]),
    acks=st.sampled_from([1, 1, 1, -1, -1, 0, 2]),
    timeout_ms=st.sampled_from([0, 1000]),
    topic_data=st.lists(TOPICS, min_size=1, max_size=1) | st.lists(TOPICS, max_size=2),
)
FRAMES = st.builds(
    lambda *arguments: encode_request(*arguments)[4:],
    REQUESTS,
    st.sampled_from([3, 5, 8, 9, 12, LATEST]),
    st.integers(0, 1 << 30),
    st.sampled_from([None, "", "me", "__admin_client"]),
)


def changed(whole: bytes, at: int, value: int, cut: int, more: bytes) -> bytes:
    """A frame with another byte at `at`, without the last bytes, or with more of them."""
    if value >= 0:
        whole = whole[:at] + bytes([value]) + whole[at + 1 :]
    return whole[: len(whole) - cut] + more


SENT = st.one_of(
    FRAMES,
    FRAMES,
    st.builds(
        changed,
        FRAMES,
        st.integers(4, 70),
        st.integers(-1, 255),
        st.integers(0, 3),
        st.sampled_from([b"", b"\0", b"\1"]),
    ),
)
CONFIGS = st.sampled_from(
    [
        LogConfig(),
        LogConfig(),
        LogConfig(),
        LogConfig(message_timestamp_type="LogAppendTime"),
        LogConfig(message_timestamp_before_max_ms=1000),
        LogConfig(cleanup_policy=("compact",)),
        LogConfig(compression_type="gzip"),
        LogConfig(compression_type="uncompressed"),
        LogConfig(max_message_bytes=100),
        LogConfig(flush_messages=2),
        LogConfig(min_insync_replicas=2),
    ]
)
REPLICAS = st.sampled_from([(NODE,), (NODE,), (NODE,), (NODE, OTHER)])
LEADERS = st.sampled_from([NODE, NODE, NODE, NODE, OTHER])


def both(frames: Iterable[bytes], shortened: World, general: World) -> None:
    """Send each frame to two worlds, which must not differ."""
    for one in frames:
        assert shortened.answer(one) == general.answer(one)
        assert shortened.content() == general.content()
        assert shortened.partition.high_watermark == general.partition.high_watermark


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(sent=st.lists(SENT, min_size=1, max_size=3), config=CONFIGS, replicas=REPLICAS, leader=LEADERS)
def test_random_requests_have_the_same_responses_and_make_the_same_log(
    sent: list[bytes], config: LogConfig, replicas: tuple[int, ...], leader: int
) -> None:
    shortened, general = (
        World(shortcut=shortcut, config=config, replicas=replicas, leader=leader) for shortcut in (True, False)
    )
    both([*sent, *sent, *sent], shortened, general)


@settings(max_examples=60, deadline=None)
@given(records=st.lists(RECORDS, max_size=3), config=CONFIGS, acks=st.sampled_from([1, -1]))
@pytest.mark.parametrize("version", [5, 8, 9, 12, LATEST])
def test_batches_in_requests_of_a_known_shape(
    records: list[bytes | None], config: LogConfig, acks: int, version: int
) -> None:
    shortened, general = (World(shortcut=shortcut, config=config) for shortcut in (True, False))
    both([frame(version, acks=acks)] * 2, shortened, general)
    both([frame(version, acks=acks, records=one or b"") for one in records], shortened, general)


# -- which requests take it --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [None, "", "me"])
@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", range(5, LATEST + 1))
def test_all_but_the_first_of_usual_requests_take_the_shortcut(version: int, acks: int, client: str | None) -> None:
    world = World(shortcut=True)
    sizes = [1, 5, 1, 64]
    for number, size in enumerate(sizes):
        batch = encode_batch(records_of(size))
        answer = world.answer(frame(version, acks=acks, records=batch, correlation_id=100 + number, client=client))
        assert isinstance(answer, bytes)
        correlation_id, response = decode_response(ProduceResponse, version, bytearray(answer[4:]))
        assert correlation_id == 100 + number
        assert response.responses[0].partition_responses[0].base_offset == sum(sizes[:number])
    assert world.answered == len(sizes) - 1


def test_many_usual_requests_let_other_tasks_run_after_some_milliseconds() -> None:
    """With a clock with which each append takes more than half of the time that appends may take in a row."""
    world = World(shortcut=True)
    times = (0.6 * AT_ONCE_S * call for call in count())
    world.partitions.large_batches = LargeBatches(lambda: next(times))
    batch = encode_batch([Record(0, NOW_MS, None, bytes(UNTIMED_SIZE_BYTES_MAX), ())])
    for number in range(9):
        assert isinstance(world.answer(frame(records=batch, correlation_id=number)), bytes)
    assert world.answered == 4  # every second one, as the others wait
    assert world.log.end_offset == 9


def test_a_batch_that_is_sent_again_has_the_response_to_the_first() -> None:
    shortened, general = World(shortcut=True), World(shortcut=False)
    batch = encode_batch(records_of(2), producer_id=5, producer_epoch=0, base_sequence=0)
    both([frame()] * 2 + [frame(records=batch)] * 3, shortened, general)
    assert shortened.answered == 4
    assert shortened.log.end_offset == 4


@pytest.mark.parametrize("version", [8, 9, LATEST])
def test_what_follows_the_batch_has_to_be_as_before(version: int) -> None:
    shortened, general = World(shortcut=True), World(shortcut=False)
    both([frame(version)] * 2, shortened, general)
    whole = frame(version)
    both([whole[:-1], whole[:-2], whole[:-3], whole + b"\0"], shortened, general)
    assert shortened.answered == 1


@pytest.mark.parametrize("version", [5, 8, 9, LATEST])
def test_the_size_of_the_records_has_to_be_that_of_the_batch(version: int) -> None:
    shortened, general = World(shortcut=True), World(shortcut=False)
    both([frame(version)] * 2, shortened, general)
    whole = bytearray(frame(version))
    at, start, end = _records_in(whole)
    sizes = [-(1 << 31), -2, -1, 0, end - start - 1, end - start + 1, end - start + 1000, (1 << 31) - 1]
    for size in sizes:
        encoded = size.to_bytes(4, "big", signed=True) if version < FIRST_FLEXIBLE else uvarint(max(0, size + 1))
        both([bytes(whole[:at] + encoded + whole[start:])], shortened, general)
    assert shortened.answered == 1


def test_a_batch_that_has_to_be_flushed_waits() -> None:
    flushing = LogConfig(flush_messages=2)
    shortened, general = World(shortcut=True, config=flushing), World(shortcut=False, config=flushing)
    both([frame()] * 5, shortened, general)
    assert shortened.log.recovery_point == general.log.recovery_point == 4


def test_a_new_leader_topic_or_role_is_noticed() -> None:
    shortened, general = World(shortcut=True), World(shortcut=False)
    both([frame(), frame(LATEST)] * 2, shortened, general)
    answered = shortened.answered
    for world in (shortened, general):
        elsewhere = PartitionState(OTHER, leader_epoch=4, partition_epoch=1, replicas=(OTHER,), isr=(OTHER,))
        world.image.topics[TOPIC].partitions[0] = elsewhere
        world.partition.become(elsewhere)
    both([frame(), frame(LATEST)], shortened, general)
    for world in (shortened, general):
        world.partitions.remove(TopicPartition(TOPIC, 0))
    both([frame(), frame(LATEST)], shortened, general)
    assert shortened.answered == answered


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_gives_the_error_of_the_general_path(code: int) -> None:
    shortened, general = World(shortcut=True), World(shortcut=False)
    both([frame()] * 2, shortened, general)
    for world in (shortened, general):
        world.disk.fail("write", path=".log", times=1 << 30, code=code)
    both([frame()] * 3, shortened, general)
    assert (shortened.log.failure is None) == (code == errno.ENOSPC)


def test_requests_of_many_shapes_take_bounded_memory() -> None:
    world = World(shortcut=True)
    for number in range(SHAPES_MAX + 10):
        world.shortcut.answer(bytearray(frame(client=f"client {number}")), CLIENT)
    world.shortcut.answer(bytearray(frame(client="x" * 10_000)), CLIENT)
    long = frame(8, client="y") + bytes(10_000)
    assert world.answer(long) == World(shortcut=False).answer(long)
    shapes = world.shortcut._shapes
    assert len(shapes) <= SHAPES_MAX
    assert max(len(key) + len(shape.tail if shape else b"") for key, shape in shapes.items()) < 1000


def client_of(name: str, host: str = "10.0.0.1") -> ConnectionInfo:
    return ConnectionInfo("TLS", host, principal=Principal("User", name))


class Acls:
    """The topic's ACLs, by which both worlds decide: the one with the shortcut and the one without."""

    def __init__(self, **allowed: str) -> None:
        self.denials: list[str] = []
        log = cast(Any, SimpleNamespace(denied=lambda who, *_: self.denials.append(who)))
        self.authorizer = StandardAuthorizer(frozenset(), open_without_acls=False, levels={"root": "INFO"}, log=log)
        for name, host in allowed.items():
            self.authorizer.add(acl_of(f"User:{name}", host))
        self.shortened = World(shortcut=True, authorizer=self.authorizer)
        self.general = World(shortcut=False, authorizer=self.authorizer)

    def error_of(self, client: ConnectionInfo, version: int) -> int:
        """The error of a Produce, which is the same with the shortcut and without it."""
        answer = self.shortened.answer(frame(version), client)
        assert answer == self.general.answer(frame(version), client)
        _, response = decode_response(ProduceResponse, version, bytearray(cast(bytes, answer)[4:]))
        return response.responses[0].partition_responses[0].error_code


def acl_of(principal: str, host: str, operation: AclOperation = AclOperation.WRITE) -> Acl:
    return Acl(AclResourceType.TOPIC, TOPIC, PatternType.LITERAL, principal, host, operation, AclPermission.ALLOW)


@pytest.mark.parametrize("version", [9, LATEST])
def test_each_client_is_asked_about_whoever_sent_such_a_request_first(version: int) -> None:
    acls = Acls(alice="*")
    alice, eve = client_of("alice"), client_of("eve")
    assert [acls.error_of(client, version) for client in (alice, alice, eve, alice)] == [0, 0, DENIED, 0]
    assert acls.shortened.answered == 2
    assert acls.denials == ["User:eve"] * 2  # one of each world
    assert acls.shortened.log.end_offset == 3


def test_a_client_at_another_address_is_another_client() -> None:
    acls = Acls(alice="10.0.0.1")
    here, elsewhere = client_of("alice"), client_of("alice", "10.0.0.9")
    assert [acls.error_of(client, 9) for client in (here, here, elsewhere, here)] == [0, 0, DENIED, 0]


def test_a_client_that_is_denied_at_one_address_is_denied_there() -> None:
    acls = Acls(alice="*")
    acls.authorizer.add(acl_of("User:alice", "10.0.0.9")._replace(permission=AclPermission.DENY))
    here, elsewhere = client_of("alice"), client_of("alice", "10.0.0.9")
    assert [acls.error_of(client, 9) for client in (here, here, elsewhere, here)] == [0, 0, DENIED, 0]


def test_other_operations_do_not_allow_to_write() -> None:
    acls = Acls(alice="*")
    acls.authorizer.add(acl_of("User:eve", "*", AclOperation.READ))
    assert [acls.error_of(client_of(name), 9) for name in ("alice", "eve", "eve")] == [0, DENIED, DENIED]


def test_an_acl_that_is_removed_ends_the_short_way() -> None:
    acls, alice = Acls(alice="*"), client_of("alice")
    assert [acls.error_of(alice, 9) for _ in range(3)] == [0, 0, 0]
    trio.run(acls.authorizer.apply, [RemoveAcl(acl_of("User:alice", "*"))])
    assert acls.error_of(alice, 9) == DENIED
    assert acls.shortened.answered == 2
    assert acls.shortened.content() == acls.general.content()
