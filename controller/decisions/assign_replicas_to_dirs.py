"""AssignReplicasToDirs: a broker reports in which data directories its replicas are (KIP-858).

A replica in a directory that its broker cannot use, or in `LOST`, leaves the ISR, and its partition gets another
leader. A replica that is found again may lead.

Source: `ReplicationControlManager.handleAssignReplicasToDirs`.
"""

from collections.abc import Generator, Iterator
from dataclasses import replace

from minikafka.controller.decisions.broker_heartbeat import is_stale
from minikafka.controller.decisions.decision import RECORDS_MAX, Context, Decision
from minikafka.controller.decisions.leader_election import TopicRules, without
from minikafka.controller.decisions.partition_changes import partition_change
from minikafka.controller.metadata.image import Image, Topic
from minikafka.controller.metadata.records import PartitionChange
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from minikafka.storage.steps import Pauses, without_pauses

__all__ = ["decide", "deciding"]


def deciding(
    image: Image, request: AssignReplicasToDirsRequest, context: Context
) -> Generator[None, None, Decision[AssignReplicasToDirsResponse]]:
    """Decide in steps, with a result for each replica. The request as a whole fails with STALE_BROKER_EPOCH if it is of
    an older registration, and with POLICY_VIOLATION if it names more than `RECORDS_MAX` replicas."""
    if is_stale(image, request.broker_id, request.broker_epoch):
        return Decision([], AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    if sum(1 for _ in _replicas(request)) > RECORDS_MAX:
        return Decision([], AssignReplicasToDirsResponse(error_code=ErrorCode.POLICY_VIOLATION))
    rules = TopicRules(image, context.settings(image))
    records: dict[tuple[bytes, int], PartitionChange] = {}
    reply = AssignReplicasToDirsResponse()
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for directory in request.directories:
        topics: list[ResponseTopicData] = []
        for requested in directory.topics:
            topic = image.topics_by_id.get(requested.topic_id)
            results: list[ResponsePartitionData] = []
            for index in [one.partition_index for one in requested.partitions]:
                if pauses.is_due():
                    yield
                error = _error(topic, index, request.broker_id)
                results.append(ResponsePartitionData(partition_index=index, error_code=error))
                if topic is not None and error is ErrorCode.NONE:
                    change = _assign(image, topic, index, request.broker_id, directory.id, rules)
                    records.update({(topic.id, index): change} if change else {})
            topics.append(ResponseTopicData(topic_id=requested.topic_id, partitions=results))
        reply.directories.append(ResponseDirectoryData(id=directory.id, topics=topics))
    return Decision([*records.values()], reply)


decide = without_pauses(deciding)


def _replicas(request: AssignReplicasToDirsRequest) -> Iterator[int]:
    return (
        one.partition_index for directory in request.directories for topic in directory.topics
        for one in topic.partitions
    )  # fmt: skip


def _error(topic: Topic | None, index: int, node_id: int) -> ErrorCode:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if node_id in topic.partitions[index].replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER


def _assign(
    image: Image, topic: Topic, index: int, node_id: int, directory: bytes, rules: TopicRules
) -> PartitionChange | None:
    state = topic.partitions[index]
    directories = tuple(directory if node == node_id else state.directory(node) for node in state.replicas)
    isr = state.isr if image.has_online(node_id, directory) else without(state.isr, node_id)
    target = replace(state, directories=directories, isr=isr)
    return partition_change(topic.id, index, state, target, rules.of(topic))
