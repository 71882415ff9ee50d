"""A hundred thousand requests of real clients, each damaged in its own way.

Requests that were recorded from confluent-kafka, kafka-python and aiokafka are mutated by a seed and sent, pipelined,
over some hundred connections. Every one of them is answered or ends its connection; what stood behind it in the
pipeline then goes to the next connection. So all of them reach the node.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import crc32c
import pytest
from support.clients import FOREIGN_CLIENTS, Outgoing, connect
from support.clients_raw import frame, resident_bytes
from support.clients_recording import PRODUCE, load_frames, topic_of
from support.node import ServerProcess
from support.oracle import Oracle

from minikafka.protocol.apis import APIS
from minikafka.protocol.headers import encode_request, parse_request_header
from minikafka.protocol.message import decode
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.produce import ProduceRequest

FRAMES = 100_000
SEEDS = 4
WARM_UP = 5_000
CONNECTIONS = 200
PIPELINED = 10
ANSWER_TIMEOUT_S = 1.0
CRC_AT, CRC_FROM = 17, 21
MIB = 1 << 20

INTERESTING = [
    struct.pack(">i", number)
    for number in (0, 1, -1, 127, 128, 255, 2**15, 2**16, 2**31 - 1, -(2**31), 2_000_000_000, 100 << 20)
]
VARINTS = [b"\x00", b"\x01", b"\x7f", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\xff" * 10, b"\x80" * 12]

Mutation = Callable[[bytearray, random.Random], None]


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


def originals() -> list[bytes]:
    """What was recorded, and the changes of topics, which only pretend: a mutated one may ask for thousands."""
    topic = CreatableTopic(name="never", num_partitions=3, replication_factor=1)
    more = CreatePartitionsTopic(name=topic_of("aiokafka"), count=2, assignments=None)
    pretended = [
        (CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=True), (4, 5, 7)),
        (CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=True), (1, 3)),
        (DeleteTopicsRequest(topic_names=["never"], timeout_ms=1000), (1, 5)),
    ]
    recorded = [recorded.body for recorded in load_frames(Path(__file__).parent / "recorded_frames.txt")]
    return recorded + [
        encode_request(message, version, 1, "x")[4:] for message, versions in pretended for version in versions
    ]


def mutants(count: int, seed: object) -> Iterator[bytes]:
    """Request bodies; of those that produce, every other one has damaged records behind a CRC that fits."""
    dice, whole = random.Random(str(seed)), originals()
    for _ in range(count):
        original = dice.choice(whole)
        if original[:2] == struct.pack(">h", PRODUCE) and dice.random() < 0.5:
            yield with_damaged_records(original, dice)
        else:
            body = bytearray(original)
            dice.choice(MUTATIONS)(body, dice)
            yield bytes(body)


def with_damaged_records(body: bytes, dice: random.Random) -> bytes:
    header, position = parse_request_header(body)
    message: ProduceRequest = decode(APIS[PRODUCE].request, header.api_version, body, position)
    data = message.topic_data[0].partition_data[0]
    batch = bytearray(data.records or b"")
    dice.choice(MUTATIONS)(batch, dice)
    if len(batch) > CRC_FROM:
        struct.pack_into(">I", batch, CRC_AT, crc32c.crc32c(bytes(batch[CRC_FROM:])))
    data.records = bytes(batch)
    return encode_request(message, header.api_version, header.correlation_id, header.client_id)[4:]


@dataclass
class Outcome:
    """How the frames ended."""

    answered: int = 0
    hung_up: int = 0
    unanswered: int = 0

    @property
    def total(self) -> int:
        return self.answered + self.hung_up + self.unanswered


async def storm(address: tuple[str, int], bodies: Iterator[bytes]) -> Outcome:
    """Sends every body; those behind one that ended the connection, or was never answered, are sent again."""
    left, outcome = deque(bodies), Outcome()
    async with asyncio.TaskGroup() as group:
        for _ in range(CONNECTIONS):
            group.create_task(_storm_on_one(address, left, outcome))
    return outcome


async def _storm_on_one(address: tuple[str, int], left: deque[bytes], outcome: Outcome) -> None:
    while left:
        batch = [left.popleft() for _ in range(min(PIPELINED, len(left)))]
        answered, ended = await _pipeline(address, batch)
        outcome.answered += answered
        if answered < len(batch):
            if ended:
                outcome.hung_up += 1
            else:
                outcome.unanswered += 1
            left.extendleft(reversed(batch[answered + 1 :]))


async def _pipeline(address: tuple[str, int], bodies: list[bytes]) -> tuple[int, bool]:
    """How many were answered, and whether the node then hung up."""
    reader, writer = await asyncio.open_connection(*address)
    answered, ended = 0, False
    try:
        writer.write(b"".join(map(frame, bodies)))
        while answered < len(bodies):
            [size] = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), ANSWER_TIMEOUT_S))
            await asyncio.wait_for(reader.readexactly(size), ANSWER_TIMEOUT_S)
            answered += 1
    except TimeoutError:
        pass  # a long poll, a rebalance, or acks=0
    except (asyncio.IncompleteReadError, ConnectionError):
        ended = True
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return answered, ended


@pytest.fixture(scope="module", autouse=True)
def warm(node: ServerProcess) -> None:
    """The topics that the recorded requests name, and a small storm: codecs are compiled, buffers have grown."""
    for name in FOREIGN_CLIENTS:
        with connect(name, node.bootstrap) as client:
            client.create_topic(topic_of(name))
            client.produce(topic_of(name), [Outgoing(b"v")])
    asyncio.run(storm(node.address, mutants(WARM_UP, "warm-up")))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_mutated_requests_harm_nobody(node: ServerProcess, seed: int) -> None:
    before = resident_bytes(node.pid)
    outcome = asyncio.run(storm(node.address, mutants(FRAMES // SEEDS, seed)))
    assert outcome.total == FRAMES // SEEDS
    assert outcome.answered > outcome.total // 10
    grown = resident_bytes(node.pid) - before
    assert isinstance(node, Oracle) or grown < 16 * MIB, f"grew by {grown / MIB:.0f} MiB, {outcome}"


def test_the_topics_under_attack_can_still_be_read_to_their_end(node: ServerProcess) -> None:
    """Nothing that a consumer chokes on was let in; a header's name may be anything, to Apache Kafka too."""
    for name in FOREIGN_CLIENTS:
        with connect("confluent-kafka", node.bootstrap) as client:
            client.produce(topic_of(name), [Outgoing(b"still there", partition=0)])
            earliest, latest = client.offsets(topic_of(name))
        assert values_of(node.bootstrap, topic_of(name), earliest, latest)[-1] == b"still there"


def values_of(bootstrap: str, topic: str, earliest: int, latest: int) -> list[bytes | None]:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "check.crcs": True})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, earliest)])
    values: list[bytes | None] = []
    while len(values) < latest - earliest:
        [message] = consumer.consume(1, 20) or [None]
        assert message is not None, f"nothing came after {len(values)} of {latest - earliest}"
        assert message.error() is None
        values.append(message.value())
    consumer.close()
    return values
