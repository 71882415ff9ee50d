"""Builds the parts of responses that describe brokers, topics and leaders, from the metadata image.

Shared by Metadata, DescribeCluster, DescribeTopicPartitions, FindCoordinator, Produce and Fetch.
"""

from collections.abc import Callable

from minikafka.broker.apis.services import ClusterView
from minikafka.broker.connections.listener_addresses import Address, addresses
from minikafka.broker.connections.request_context import RequestContext
from minikafka.controller.metadata.image import Image, PartitionState, Topic
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.metadata import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from minikafka.protocol.names import INTERNAL_TOPICS
from minikafka.storage.steps import Pauses


def addresses_of(context: RequestContext[ClusterView], *, fenced: bool = False) -> list[Address]:
    """Return the addresses at which the client of a request reaches the unfenced (or the fenced) brokers."""
    connection = context.connection
    return addresses(context.services.image, connection.listener, connection.local_host, fenced=fenced)


def brokers(addresses: list[Address]) -> list[MetadataResponseBroker]:
    """Build the list of brokers of a Metadata response."""
    return [
        MetadataResponseBroker(node_id=address.node_id, host=address.host, port=address.port, rack=address.rack)
        for address in addresses
    ]


def never_lost(node_id: int) -> bool:
    """The `lost` of a node without connections to other brokers: returns False."""
    return False


async def topic_answer(
    topic: Topic, image: Image, pause: Pauses, *, lost: Callable[[int], bool] = never_lost
) -> MetadataResponseTopic:
    """Build the entry of one topic with all its partitions, in steps.

    Other tasks run between partitions, which may therefore show different versions of the metadata.

    Args:
        lost: Whether the connection to a broker has just broken. Such a broker is not returned as leader, so that the
            client soon refreshes its metadata; librdkafka trusts a leader that is returned again for a second.
    """
    answer = MetadataResponseTopic(name=topic.name, topic_id=topic.id, is_internal=topic.name in INTERNAL_TOPICS)
    for index, partition in enumerate(topic.partitions):
        answer.partitions.append(_partition_answer(index, partition, image, lost))
        await pause()
    return answer


def current_leader(image: Image, topic: str, partition: int) -> tuple[int, int]:
    """Return (leader, leader epoch) of a partition, for a client that asked another node (KIP-951); -1 if unknown."""
    known = image.topics.get(topic)
    if known is None or not 0 <= partition < len(known.partitions):
        return -1, -1
    state = known.partitions[partition]
    return state.leader, state.leader_epoch


def _partition_answer(
    index: int, partition: PartitionState, image: Image, lost: Callable[[int], bool]
) -> MetadataResponsePartition:
    leaderless = not image.is_alive(partition.leader) or lost(partition.leader)
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if leaderless else ErrorCode.NONE,
        partition_index=index,
        leader_id=-1 if leaderless else partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline(partition, image),
    )


def offline(partition: PartitionState, image: Image) -> list[int]:
    """Return the replicas on brokers that are fenced or not registered, or whose data directory is offline."""
    return [
        node
        for node in partition.replicas
        if not (image.is_alive(node) and image.has_online(node, partition.directory(node)))
    ]
