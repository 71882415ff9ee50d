"""Topics and batches of records by raw requests: what a batch contains is up to the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.protocol.records.batch import encode_batch
from minikafka.protocol.records.record import Record
from support.clients_raw import RawConnection
from support.node import ServerProcess

CREATE_VERSION, PRODUCE_VERSION = 5, 9
TIMEOUT_MS = 10_000
NOT_YET = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER}


def produce(node: ServerProcess, topic: str, batch: bytes, transactional_id: str | None = None) -> int:
    """The error code of partition 0; the connection must survive."""
    message = produce_request(topic, [batch], transactional_id)
    with RawConnection(node.address) as connection:
        return connection.ask(message, PRODUCE_VERSION).responses[0].partition_responses[0].error_code


def produce_request(topic: str, batches: Sequence[bytes], transactional_id: str | None = None) -> ProduceRequest:
    """A request with a batch for each of the first partitions of a topic."""
    data = [PartitionProduceData(index=index, records=batch) for index, batch in enumerate(batches)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=topics)


def writable_topics(
    node: ServerProcess, configs: Mapping[str, Mapping[str, str]], first: Record, partitions: int = 1
) -> None:
    """Create topics with their settings, and write one record to each."""
    wanted = [
        CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
        )
        for name, settings in configs.items()
    ]
    with RawConnection(node.address) as connection:
        connection.ask(CreateTopicsRequest(topics=wanted, timeout_ms=TIMEOUT_MS), CREATE_VERSION)
    for name in configs:
        while produce(node, name, encode_batch([first])) in NOT_YET:
            pass
