"""The methods of `Admin` for records: delete them, and find offsets by time."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.client import offset_queries
from minikafka.client.admin.admin_requests import item_error
from minikafka.client.admin.item_errors import ask_leaders
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.offsets import OffsetAndTimestamp
from minikafka.client.options import IsolationLevel
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from minikafka.protocol.names import TopicPartition


async def delete_records(
    admin: ClusterClient, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    """Delete records before an offset (-1: the high watermark); return each partition's new first offset."""
    cluster = admin.cluster

    async def ask(leader: int, some: dict[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
        topics: dict[str, DeleteRecordsTopic] = {}
        for tp, offset in some.items():
            topic = topics.setdefault(tp.topic, DeleteRecordsTopic(name=tp.topic, partitions=[]))
            topic.partitions.append(DeleteRecordsPartition(partition_index=tp.partition, offset=offset))
        request = DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=cluster.request_timeout_ms)
        response = await cluster.request(request, leader)
        answers = [
            (TopicPartition(topic.name, one.partition_index), one)
            for topic in response.topics
            for one in topic.partitions
        ]
        return {tp: item_error(one, str(tp)) or one.low_watermark for tp, one in answers}

    offsets = {TopicPartition(*tp): offset for tp, offset in before.items()}
    return await ask_leaders(cluster, offsets, ask, "deleting records")


async def list_offsets(
    admin: ClusterClient, times: Mapping[TopicPartition, int], *, isolation_level: IsolationLevel = "read_uncommitted"
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """The first offset at or after each time: ms since 1970, or LATEST, EARLIEST, MAX_TIMESTAMP.

    Raises the KafkaError of one partition. `list_offsets_of_each` returns the other partitions' offsets even then.
    """

    async def attempt() -> dict[TopicPartition, OffsetAndTimestamp]:
        return await offset_queries.list_offsets(
            admin.cluster,
            {TopicPartition(*tp): time for tp, time in times.items()},
            isolation_level=int(isolation_level == "read_committed"),
            timeout_ms=admin.cluster.request_timeout_ms,
        )

    return await admin.cluster.retry(attempt, "listing offsets")


async def list_offsets_of_each(
    admin: ClusterClient, times: Mapping[TopicPartition, int], *, isolation_level: IsolationLevel = "read_uncommitted"
) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
    """As `list_offsets`, but return the KafkaError of each partition that fails, like Kafka's `Admin.listOffsets`.

    A partition without a leader is asked for until `default_api_timeout_ms` has passed.
    """

    async def ask(
        leader: int, some: dict[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        return await offset_queries.list_offsets_of_leader(
            admin.cluster,
            leader,
            some,
            isolation_level=int(isolation_level == "read_committed"),
            timeout_ms=admin.cluster.request_timeout_ms,
        )

    wanted = {TopicPartition(*tp): time for tp, time in times.items()}
    return await ask_leaders(admin.cluster, wanted, ask, "listing offsets")
