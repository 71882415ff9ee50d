"""A raw client with a client id of its own, for what quotas do: throttle times, and when answers come."""

from __future__ import annotations

import select
import time
from collections.abc import Mapping
from typing import Any

from minikafka.protocol.apis import api_of
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.record import Record
from support.clients_raw import RawConnection
from support.node import ServerProcess
from support.oracle import Oracle

TIMEOUT_MS = 10_000
QUOTAS_VERSION, CREATE_VERSION, PRODUCE_VERSION, FETCH_VERSION, API_VERSIONS_VERSION = 1, 5, 9, 12, 3
KNOWN_WITHIN_S = 5.0
APPLIED_WITHIN_S = 0.2
NOW_MS = 1_700_000_000_000
API_VERSIONS = ApiVersionsRequest(client_software_name="quota", client_software_version="1")


Changed = tuple[int, list[str]]
"""A throttle time, and the names of the error codes of the topics."""


class QuotaClient:
    """One connection of a client with this client id."""

    def __init__(self, node: ServerProcess, client_id: str) -> None:
        self._connection = RawConnection(node.address)
        self._client_id = client_id

    def close(self) -> None:
        self._connection.socket.close()

    def send(self, message: Any, version: int) -> None:
        """Sends a request without waiting for its response."""
        self._connection.send(encode_request(message, version, 1, self._client_id))

    def ask(self, message: Any, version: int) -> Any:
        """Sends a request and decodes the response."""
        self.send(message, version)
        _, response = decode_response(api_of(type(message)).response, version, self._connection.receive_frame())
        return response

    def is_answered_within(self, seconds: float) -> bool:
        """Whether an ApiVersions is answered in this time."""
        self.send(API_VERSIONS, API_VERSIONS_VERSION)
        readable, _, _ = select.select([self._connection.socket], [], [], seconds)
        return bool(readable)

    def produce(self, topic: str, size_bytes: int, acks: int = 1) -> int:
        """Writes a record of this size; returns the throttle time in milliseconds. -1 with acks=0."""
        request = produce_request(topic, size_bytes, acks)
        if acks == 0:
            self.send(request, PRODUCE_VERSION)
            return -1
        response = self.ask(request, PRODUCE_VERSION)
        assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        return int(response.throttle_time_ms)

    def set_quota(self, entity: Mapping[str, str | None], key: str, value: float | None) -> None:
        """Sets a quota, or removes it if the value is None."""
        operation = OpData(key=key, value=value or 0.0, remove=value is None)
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
        request = AlterClientQuotasRequest(entries=[RequestEntryData(entity=parts, ops=[operation])])
        [result] = self.ask(request, QUOTAS_VERSION).entries
        assert result.error_code == ErrorCode.NONE, result.error_message

    def is_closed_within(self, seconds: float) -> bool:
        """Whether the node closes the connection in this time, without an answer."""
        readable, _, _ = select.select([self._connection.socket], [], [], seconds)
        return bool(readable) and not self._connection.socket.recv(1)

    def create(self, *topics: tuple[str, int], version: int = 6, validate_only: bool = False) -> Changed:
        """Creates topics with these numbers of partitions."""
        wanted = [CreatableTopic(name=name, num_partitions=count, replication_factor=1) for name, count in topics]
        request = CreateTopicsRequest(topics=wanted, timeout_ms=TIMEOUT_MS, validate_only=validate_only)
        response = self.ask(request, version)
        return response.throttle_time_ms, [ErrorCode(one.error_code).name for one in response.topics]

    def extend(self, topic: str, count: int, version: int = 3) -> Changed:
        """Gives a topic this number of partitions."""
        wanted = [CreatePartitionsTopic(name=topic, count=count, assignments=None)]
        response = self.ask(CreatePartitionsRequest(topics=wanted, timeout_ms=TIMEOUT_MS), version)
        return response.throttle_time_ms, [ErrorCode(one.error_code).name for one in response.results]

    def delete(self, *topics: str, version: int = 5) -> Changed:
        """Deletes topics."""
        response = self.ask(DeleteTopicsRequest(topic_names=list(topics), timeout_ms=TIMEOUT_MS), version)
        return response.throttle_time_ms, sorted(ErrorCode(one.error_code).name for one in response.responses)

    def fetch(self, topic: str, **fields: Any) -> tuple[int, int]:
        """Reads a topic from its beginning; returns the throttle time, and the bytes of the records."""
        response = self.ask(fetch_request(topic, **fields), FETCH_VERSION)
        records = [one.records for topic in response.responses for one in topic.partitions]
        return int(response.throttle_time_ms), sum(len(one or b"") for one in records)


def api_versions(client: QuotaClient) -> Any:
    """The response to an ApiVersions."""
    return client.ask(API_VERSIONS, API_VERSIONS_VERSION)


def produce_request(topic: str, size_bytes: int, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=encode_batch([Record(0, NOW_MS, None, bytes(size_bytes))]))
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    return ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=topics)


def fetch_request(topic: str, **fields: Any) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 24)
    topics = [FetchTopic(topic=topic, partitions=[partition])]
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 24, "topics": topics, **fields})


def set_quota(node: ServerProcess, entity: Mapping[str, str | None], key: str, value: float | None) -> None:
    """Sets a quota, or removes it if the value is None. Kafka answers before the quota holds; minikafka does not."""
    client = QuotaClient(node, "quota-admin")
    client.set_quota(entity, key, value)
    client.close()
    if isinstance(node, Oracle):
        time.sleep(APPLIED_WITHIN_S)


def make_topic(node: ServerProcess, topic: str, sizes: tuple[int, ...] = ()) -> None:
    """Creates a topic of one partition and writes a batch of each size, under a client id without quotas."""
    client = QuotaClient(node, "quota-admin")
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    client.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=TIMEOUT_MS), CREATE_VERSION)
    end = time.monotonic() + KNOWN_WITHIN_S
    first = produce_request(topic, 0)
    while client.ask(first, PRODUCE_VERSION).responses[0].partition_responses[0].error_code:
        assert time.monotonic() < end, "the topic has no leader"
    for size_bytes in sizes:
        client.produce(topic, size_bytes)
    client.close()
