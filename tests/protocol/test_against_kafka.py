"""Apache Kafka accepts every request that we encode, and we decode every response to the last byte."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.oracle import Oracle, needs_oracle
from support.wire_messages import random_message

from minikafka.protocol.apis import APIS, Api
from minikafka.protocol.codec.schema import fresh
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import InvalidTopicError
from minikafka.protocol.headers import decode_response, encode_request, response_parts
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from minikafka.protocol.messages.describe_acls import DescribeAclsRequest
from minikafka.protocol.names import check_topic_name

pytestmark = [pytest.mark.oracle, needs_oracle, pytest.mark.timeout(300)]

NEVER_ANSWERED = {"AddPartitionsToTxn", "AlterConfigs", "WriteTxnMarkers"}
"""Kafka 4.3.1 does not respond to these if transactions or partitions are empty, or a resource is named twice."""


class Connection:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def call(self, frame: bytes) -> bytes:
        self.socket.sendall(frame)
        return self.receive(int.from_bytes(self.receive(4), "big"))

    def receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            assert part, "connection closed"
            data += part
        return data


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    folder: Path = tmp_path_factory.mktemp("kafka")
    with Oracle(folder) as kafka:
        connection = Connection(kafka.port)
        yield connection
        connection.socket.close()


def requests(api: Api, version: int, seeded: random.Random) -> Iterator[Any]:
    """A request of defaults and one of random values, chosen such that Kafka responds at once and is not harmed."""
    for request in (fresh(api.request), random_message(api.request, version, seeded)):
        if api.name == "Produce":
            request.acks = 1
            request.topic_data = []
        if api.name == "Fetch":
            request.max_wait_ms = 1
        if isinstance(request, DescribeAclsRequest):
            request.resource_type_filter = request.operation = request.permission_type = 1
        yield request


def offered(connection: Connection) -> dict[int, tuple[int, int]]:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    _, response = decode_response(ApiVersionsResponse, 4, connection.call(encode_request(request, 4, 1, "t")))
    return {key.api_key: (key.min_version, key.max_version) for key in response.api_keys}


@pytest.mark.slow
def test_every_version_of_every_api_is_compatible(connection: Connection) -> None:
    seeded = random.Random("against Kafka")
    asked = 0
    for key, (first, last) in offered(connection).items():
        api = APIS.get(key)
        if api is None or api.name in NEVER_ANSWERED:
            continue
        assert last in api.versions, f"{api.name} v{last} is not declared"
        for version in range(max(first, api.versions.first), last + 1):
            for request in requests(api, version, seeded):
                try:
                    frame = connection.call(encode_request(request, version, asked, "t"))
                except (TimeoutError, AssertionError) as error:
                    raise AssertionError(f"no answer to {api.name} v{version}: {request}") from error
                correlation_id, response = decode_response(api.response, version, frame)
                assert correlation_id == asked
                assert b"".join(response_parts(response, version, asked))[4:] == frame, f"{api.name} v{version}"
                asked += 1
    assert asked > 350


def test_invalid_topic_names_have_the_same_error_message(connection: Connection) -> None:
    names = ["", ".", "..", "x" * 250, "a b", "é", "a/b"]
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    request = CreateTopicsRequest(topics=topics, validate_only=True)
    _, response = decode_response(CreateTopicsResponse, 7, connection.call(encode_request(request, 7, 1, "t")))
    assert [topic.name for topic in response.topics] == names
    for topic in response.topics:
        assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        with pytest.raises(InvalidTopicError) as error:
            check_topic_name(topic.name)
        assert error.value.message == topic.error_message
