"""Measures decoding and encoding of messages in µs, beside kafka-python and kio if they are installed.

    python bench/protocol.py

Each value is the best of many short runs, that is the cost without interference by other processes.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from minikafka.protocol.apis import api_of
from minikafka.protocol.message import decode, encode
from minikafka.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from minikafka.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

Call = Callable[[], Any]

RUN_SECONDS = 0.0003
SECONDS_IN_ALL = 0.5


class Subject(NamedTuple):
    """A message to measure."""

    title: str
    message: Any
    version: int


class Costs(NamedTuple):
    """µs per call; None if a library does not support the message."""

    decode: float | None
    encode: float | None


def subjects() -> list[Subject]:
    """The most frequent messages between brokers and clients."""
    batch = bytes(1000)
    return [
        Subject("Fetch request, 1 partition", fetch_request(1), 12),
        Subject("Fetch request, 10 partitions", fetch_request(10), 12),
        Subject("Fetch response, 10 × 1 kB", fetch_response(10, batch), 12),
        Subject("Produce request, 1 × 1 kB", produce_request(1, batch), 9),
        Subject("Produce request, 10 × 1 kB", produce_request(10, batch), 9),
        Subject("Produce response, 1 partition", produce_response(1), 9),
        Subject("Metadata response, 100 topics", metadata_response(100), 9),
    ]


def fetch_request(partitions: int) -> FetchRequest:
    """A request as a consumer sends it."""
    wanted = [
        FetchPartition(partition=index, fetch_offset=1000 * index, partition_max_bytes=1 << 20)
        for index in range(partitions)
    ]
    return FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="flights", partitions=wanted)])


def fetch_response(partitions: int, batch: bytes) -> FetchResponse:
    """A response with one batch per partition."""
    data = [
        PartitionData(
            partition_index=index,
            high_watermark=5000,
            last_stable_offset=5000,
            log_start_offset=0,
            aborted_transactions=None,
            records=batch,
        )
        for index in range(partitions)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="flights", partitions=data)])


def produce_request(partitions: int, batch: bytes) -> ProduceRequest:
    """A request with one batch per partition."""
    data = [PartitionProduceData(index=index, records=batch) for index in range(partitions)]
    topics = [TopicProduceData(name="flights", partition_data=data)]
    return ProduceRequest(transactional_id=None, acks=1, timeout_ms=30_000, topic_data=topics)


def produce_response(partitions: int) -> ProduceResponse:
    """A response without errors."""
    data = [PartitionProduceResponse(index=index, base_offset=5, log_start_offset=0) for index in range(partitions)]
    return ProduceResponse(responses=[TopicProduceResponse(name="flights", partition_responses=data)])


def metadata_response(topics: int) -> MetadataResponse:
    """A response with three nodes, and three partitions per topic."""
    partitions = [
        MetadataResponsePartition(
            partition_index=index, leader_id=index, leader_epoch=3, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2]
        )
        for index in range(3)
    ]
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=node, host=f"node-{node}", port=9092) for node in range(3)],
        cluster_id="minikafka",
        controller_id=0,
        topics=[MetadataResponseTopic(name=f"topic-{number}", partitions=partitions) for number in range(topics)],
    )


def microseconds(call: Call) -> float:
    """The cost of one call, in the best of many short runs."""
    begin = time.perf_counter()
    call()
    calls = max(1, round(RUN_SECONDS / (time.perf_counter() - begin)))
    best = float("inf")
    end = begin + SECONDS_IN_ALL
    while time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, time.perf_counter() - begin)
    return best / calls * 1e6


def costs_of_ours(subject: Subject) -> Costs:
    """Costs of minikafka's codec; the frame is a bytearray, as in the server."""
    cls, version = type(subject.message), subject.version
    frame = bytearray(encode(subject.message, version))
    return Costs(
        microseconds(lambda: decode(cls, version, frame)),
        microseconds(lambda: encode(subject.message, version)),
    )


def costs_of_kafka_python(subject: Subject) -> Costs:
    """Costs of kafka-python's codec, whose classes have the same names; `encode` needs a decoded message."""
    name = type(subject.message).__name__
    homes = ("consumer", "producer", "metadata")
    try:
        modules = [import_module(f"kafka.protocol.{home}") for home in homes]
        theirs = next(getattr(module, name) for module in modules if hasattr(module, name))
        data = encode(subject.message, subject.version)
        message = theirs.decode(data, version=subject.version)
        message._header = None  # which its decoder does not set and its encoder needs
    except (ImportError, StopIteration):
        return Costs(None, None)
    return Costs(
        microseconds(lambda: theirs.decode(data, version=subject.version)),
        microseconds(lambda: message.encode(version=subject.version)),
    )


def costs_of_kio(subject: Subject) -> Costs:
    """Costs of kio's codec, which decodes in Rust and encodes in Python."""
    try:
        index, serial = import_module("kio.index"), import_module("kio.serial")
    except ImportError:
        return Costs(None, None)
    api = api_of(type(subject.message))
    is_request = type(subject.message) is api.request
    load = index.load_request_schema if is_request else index.load_response_schema
    theirs = load(api.key, subject.version)
    read, write = serial.entity_reader(theirs), serial.entity_writer(theirs)
    data = encode(subject.message, subject.version)
    entity, _ = read(data, 0)
    return Costs(microseconds(lambda: read(data, 0)), microseconds(lambda: write(io.BytesIO(), entity)))


def main() -> None:
    """Print the table."""
    columns = {"minikafka": costs_of_ours, "kafka-python": costs_of_kafka_python, "kio": costs_of_kio}
    print(f"{'':34}{'decode, µs':<42}{'encode, µs'}")
    print(f"{'':34}" + "".join(f"{name:<14}" for name in (*columns, *columns)))
    for subject in subjects():
        costs = [measure(subject) for measure in columns.values()]
        figures = [cost.decode for cost in costs] + [cost.encode for cost in costs]
        shown = "".join(f"{'–' if figure is None else f'{figure:.1f}':<14}" for figure in figures)
        print(f"{subject.title + f', v{subject.version}':34}{shown}", flush=True)


if __name__ == "__main__":
    main()
