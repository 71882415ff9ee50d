"""The methods of `Admin` for records: delete them, and find offsets by time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minikafka.client import offset_queries
from minikafka.client.admin.admin_requests import item_error
from minikafka.client.admin.item_errors import ask_each
from minikafka.client.connections.base_client import ClusterClient
from minikafka.client.connections.cluster_client import Cluster
from minikafka.client.offsets import OffsetAndTimestamp
from minikafka.client.options import IsolationLevel
from minikafka.protocol.errors import KafkaError, LeaderNotAvailableError
from minikafka.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from minikafka.protocol.names import TopicPartition


async def delete_records(
    admin: ClusterClient, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    """Delete records before an offset (-1: the high watermark); return each partition's new first offset."""
    offsets = {TopicPartition(*tp): offset for tp, offset in before.items()}

    async def ask(some: list[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        return await _delete_records(admin.cluster, {tp: offsets[tp] for tp in some})

    return await ask_each(admin.cluster, offsets, ask, "deleting records", final=())


async def _delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    await _find_leaders(cluster, before)
    for tp, offset in before.items():
        by_leader.setdefault(cluster.metadata.leader(*tp), {})[tp] = offset
    results: dict[TopicPartition, int | KafkaError] = {}
    for leader, some in by_leader.items():
        topics: dict[str, DeleteRecordsTopic] = {}
        for tp, offset in some.items():
            topic = topics.setdefault(tp.topic, DeleteRecordsTopic(name=tp.topic, partitions=[]))
            topic.partitions.append(DeleteRecordsPartition(partition_index=tp.partition, offset=offset))
        request = DeleteRecordsRequest(topics=list(topics.values()), timeout_ms=cluster.request_timeout_ms)
        response = await cluster.request(request, leader)
        for topic in response.topics:
            for one in topic.partitions:
                tp = TopicPartition(topic.name, one.partition_index)
                results[tp] = item_error(one, str(tp)) or one.low_watermark
    return results


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
    wanted = {TopicPartition(*tp): time for tp, time in times.items()}

    async def ask(some: list[TopicPartition]) -> dict[TopicPartition, OffsetAndTimestamp | KafkaError]:
        return await offset_queries.list_offsets_of_each(
            admin.cluster,
            {tp: wanted[tp] for tp in some},
            isolation_level=int(isolation_level == "read_committed"),
            timeout_ms=admin.cluster.request_timeout_ms,
        )

    try:
        return await ask_each(admin.cluster, wanted, ask, "listing offsets", final=())
    except KafkaError as error:
        return dict.fromkeys(wanted, error)


async def _find_leaders(cluster: Cluster, partitions: Iterable[TopicPartition]) -> None:
    if cluster.topics is not None:
        cluster.topics |= dict.fromkeys(tp.topic for tp in partitions)
    await cluster.refresh()
    for tp in partitions:
        if cluster.metadata.leader(*tp) < 0:
            raise cluster.metadata.errors.get(tp.topic) or LeaderNotAvailableError(
                f"{tp} has no leader, or does not exist"
            )
