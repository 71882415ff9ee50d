"""Measures compressed batches: how fast a node takes them, and its CPU time, by codec.

One connection sends Produce requests of one batch each, with acks=1. A node has to decompress it and to look at each
of its records. Rates are in MB of decompressed records.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from bench.connections import cpu_s
from bench.nodes import Node
from bench.raw import Connection, create_topic
from bench.results import Figure, Goal
from minikafka.protocol.headers import encode_request
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.records.batch import BatchHeader, Codec, encode_batch
from minikafka.protocol.records.record import Record

TOPIC = "codecs"
RECORDS, RECORD_BYTES = 5_000, 100
VERSION = 9


def measure_codecs(node: Node, quick: bool) -> Iterator[Figure]:
    """Rate and CPU time for batches of 5,000 records of 50 to 150 bytes, of which a tenth repeats."""
    create_topic(node.address, TOPIC, {"retention.bytes": "100000000", "segment.bytes": "50000000"})
    connection = Connection(node.address)
    for codec in Codec:
        request, size_bytes = request_of(codec)
        exchanges(connection, request, 1 if quick else 4)
        before, began = cpu_s(node), time.perf_counter()
        count = exchanges(connection, request, 1 if quick else 5)
        seconds, used_s = time.perf_counter() - began, cpu_s(node) - before
        megabytes = count * size_bytes / 1e6
        subject = f"batches of {RECORDS:,} records, {codec.name.lower()}"
        goal = Goal(400) if codec is not Codec.NONE else None
        yield Figure(subject, "MB/s", goal, {node.name: megabytes / seconds})
        yield Figure(subject, "ms of CPU for a MB", None, {node.name: used_s * 1000 / megabytes})
    connection.close()


def exchanges(connection: Connection, request: bytes, seconds: float) -> int:
    """Send a request again and again; returns how often."""
    end, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        connection.exchange(request)
        count += 1
    return count


def request_of(codec: Codec) -> tuple[bytes, int]:
    """A request, and the size of its records before they are compressed."""
    generator = random.Random(1)
    values = [generator.randbytes(10) * generator.randint(5, 15) for _ in range(RECORDS)]
    records = [Record(-1, 1_700_000_000_000 + number, None, value, ()) for number, value in enumerate(values)]
    data = TopicProduceData(
        name=TOPIC, partition_data=[PartitionProduceData(index=0, records=encode_batch(records, BatchHeader(codec)))]
    )
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data])
    return encode_request(request, VERSION, 1, "bench"), sum(map(len, values))
