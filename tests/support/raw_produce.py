"""Topics and batches of records by raw requests: what a batch contains is up to the test."""

from __future__ import annotations

from collections.abc import Mapping

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
    data = PartitionProduceData(index=0, records=batch)
    topics = [TopicProduceData(name=topic, partition_data=[data])]
    message = ProduceRequest(
        transactional_id=transactional_id, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=topics
    )
    with RawConnection(node.address) as connection:
        return connection.ask(message, PRODUCE_VERSION).responses[0].partition_responses[0].error_code


def writable_topics(node: ServerProcess, configs: Mapping[str, Mapping[str, str]], first: Record) -> None:
    """Create topics of one partition with their settings, and write one record to each."""
    wanted = [
        CreatableTopic(
            name=name,
            num_partitions=1,
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
