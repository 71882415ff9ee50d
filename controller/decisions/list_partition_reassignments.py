"""ListPartitionReassignments: the reassignments in progress (KIP-455). Source: `ReplicationControlManager`."""

from minikafka.controller.metadata.image import Image, Topic
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

__all__ = ["describe"]


def describe(image: Image, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """The reassignments in progress; other partitions and unknown ones are left out."""
    topics = (
        [(topic.name, range(len(topic.partitions))) for topic in image.topics.values()]
        if request.topics is None
        else [(topic.name, topic.partition_indexes) for topic in request.topics]
    )
    reply = ListPartitionReassignmentsResponse(error_message=None)
    for name, indexes in topics:
        known = image.topics.get(name)
        ongoing = [found for index in indexes if known and (found := _ongoing(known, index))]
        if ongoing:
            reply.topics.append(OngoingTopicReassignment(name=name, partitions=ongoing))
    return reply


def _ongoing(topic: Topic, index: int) -> OngoingPartitionReassignment | None:
    state = topic.partitions[index] if 0 <= index < len(topic.partitions) else None
    if state is None or not (state.adding_replicas or state.removing_replicas):
        return None
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(state.replicas),
        adding_replicas=list(state.adding_replicas),
        removing_replicas=list(state.removing_replicas),
    )
