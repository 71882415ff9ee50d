"""ListPartitionReassignments: the reassignments in progress (KIP-455). Source: `ReplicationControlManager`."""

from collections.abc import Generator

from minikafka.controller.metadata.image import Image, PartitionState
from minikafka.controller.metadata.steps import partitions_where
from minikafka.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from minikafka.storage.steps import without_pauses

__all__ = ["describe", "describing"]


def describing(
    image: Image, request: ListPartitionReassignmentsRequest, version: int
) -> Generator[None, None, ListPartitionReassignmentsResponse]:
    """List the reassignments in progress. Partitions without one and unknown partitions are left out. A request for all
    partitions is answered in steps."""
    reply = ListPartitionReassignmentsResponse(error_message=None)
    if request.topics is not None:
        for requested in request.topics:
            topic = image.topics.get(requested.name)
            states = [] if topic is None else topic.partitions
            ongoing = [
                _answer(index, states[index])
                for index in requested.partition_indexes
                if 0 <= index < len(states) and _is_ongoing(states[index])
            ]
            if ongoing:
                reply.topics.append(OngoingTopicReassignment(name=requested.name, partitions=ongoing))
        return reply
    for found in partitions_where(list(image.topics.values()), _is_ongoing):
        if found is None:
            yield
            continue
        topic, index, state = found
        if not reply.topics or reply.topics[-1].name != topic.name:
            reply.topics.append(OngoingTopicReassignment(name=topic.name))
        reply.topics[-1].partitions.append(_answer(index, state))
    return reply


describe = without_pauses(describing)


def _is_ongoing(state: PartitionState) -> bool:
    return bool(state.adding_replicas or state.removing_replicas)


def _answer(index: int, state: PartitionState) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=index,
        replicas=list(state.replicas),
        adding_replicas=list(state.adding_replicas),
        removing_replicas=list(state.removing_replicas),
    )
