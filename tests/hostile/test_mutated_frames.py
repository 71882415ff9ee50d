"""Twenty-four thousand requests of real clients, each mutated; `make hostile` sends 200,000.

Requests recorded from confluent-kafka, kafka-python and aiokafka are mutated by a seed and sent over about a hundred
connections, one at a time on each: every request is answered or ends its connection.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import crc32c
import pytest
from support.clients import FOREIGN_CLIENTS, Outgoing, connect
from support.clients_raw import TIMEOUT_S, frame, growth_bytes, resident_bytes
from support.clients_recording import PRODUCE, load_frames, topic_of
from support.node import ServerProcess
from support.oracle import Oracle
from support.storm import mutated, storm

from minikafka.protocol.apis import APIS
from minikafka.protocol.headers import encode_request, parse_request_header
from minikafka.protocol.message import decode
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.produce import ProduceRequest

FRAMES = int(os.environ.get("MINIKAFKA_HOSTILE_FRAMES") or 24_000)
FRAMES_FOR_KAFKA = 2_000  # which waits for some of them for minutes
SEEDS = 4
WARM_UP = 5_000
CRC_AT, CRC_FROM = 17, 21
MIB = 1 << 20
GROWTH_BYTES_MAX = 16 * MIB


def originals() -> list[bytes]:
    """The recorded requests and changes of topics with validate_only: a mutated one may request thousands."""
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
    """Request bodies; every other Produce has mutated records with a correct CRC."""
    dice, whole = random.Random(str(seed)), originals()
    for _ in range(count):
        original = dice.choice(whole)
        if original[:2] == struct.pack(">h", PRODUCE) and dice.random() < 0.5:
            yield with_damaged_records(original, dice)
        else:
            yield mutated(original, dice)


def with_damaged_records(body: bytes, dice: random.Random) -> bytes:
    header, position = parse_request_header(body)
    message: ProduceRequest = decode(APIS[PRODUCE].request, header.api_version, body, position)
    data = message.topic_data[0].partition_data[0]
    batch = bytearray(mutated(data.records or b"", dice))
    if len(batch) > CRC_FROM:
        struct.pack_into(">I", batch, CRC_AT, crc32c.crc32c(bytes(batch[CRC_FROM:])))
    data.records = bytes(batch)
    return encode_request(message, header.api_version, header.correlation_id, header.client_id)[4:]


@pytest.fixture(scope="module", autouse=True)
def warm(node: ServerProcess) -> None:
    """Creates the topics of the recorded requests and warms up: codecs are compiled, buffers have grown."""
    for name in FOREIGN_CLIENTS:
        with connect(name, node.bootstrap) as client:
            client.create_topic(topic_of(name))
            client.produce(topic_of(name), [Outgoing(b"v")])
    if not isinstance(node, Oracle):
        storm(node.address, map(frame, mutants(WARM_UP, "warm-up")))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_mutated_requests_do_not_affect_others(node: ServerProcess, seed: int) -> None:
    count = (FRAMES_FOR_KAFKA if isinstance(node, Oracle) else FRAMES) // SEEDS
    before = resident_bytes(node.pid)
    outcome = storm(node.address, map(frame, mutants(count, seed)))
    assert outcome.total == count
    assert outcome.answered > outcome.total // 10
    if not isinstance(node, Oracle):
        grown = growth_bytes(node.pid, before, GROWTH_BYTES_MAX)
        assert grown < GROWTH_BYTES_MAX, f"grew by {grown / MIB:.0f} MiB, {outcome}"


def test_the_attacked_topics_can_be_read_to_their_end(node: ServerProcess) -> None:
    """No batch that a consumer cannot read was stored."""
    if isinstance(node, Oracle):
        pytest.skip("Apache Kafka lets something in behind which librdkafka finds no more")
    for name in FOREIGN_CLIENTS:
        with connect("confluent-kafka", node.bootstrap) as client:
            client.produce(topic_of(name), [Outgoing(b"still there", partition=0)])
            earliest, latest = client.offsets(topic_of(name))
        assert b"still there" in values_of(node.bootstrap, topic_of(name), earliest, latest)


def values_of(bootstrap: str, topic: str, earliest: int, latest: int) -> list[bytes | None]:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "check.crcs": True})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, earliest)])
    values: list[bytes | None] = []
    while len(values) < latest - earliest:
        [message] = consumer.consume(1, TIMEOUT_S) or [None]
        assert message is not None, f"nothing came after {len(values)} of {latest - earliest}"
        assert message.error() is None
        values.append(message.value())
    consumer.close()
    return values
