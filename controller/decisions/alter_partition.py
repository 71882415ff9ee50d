"""AlterPartition: validates and applies the ISR that the leader of a partition requests (KIP-497).

The request must come from the leader in the current leader epoch and name the current partition epoch. A broker cannot
join the ISR if it is fenced, in controlled shutdown (KIP-841, KAFKA-13916), or restarted since it caught up (KIP-903,
KAFKA-14617), or if its data directory is offline (KIP-858). The new ISR may complete a reassignment, which may end the
leadership of the requesting broker.

Unlike in Kafka, a repeated request that has already been applied succeeds.

Source: `ReplicationControlManager.alterPartition`.
"""

from collections.abc import Generator
from dataclasses import replace

from minikafka.controller.decisions.broker_heartbeat import is_stale
from minikafka.controller.decisions.decision import RECORDS_MAX, Context, Decision
from minikafka.controller.decisions.leader_election import TopicRules
from minikafka.controller.decisions.partition_changes import partition_change
from minikafka.controller.metadata.image import Image, PartitionState, Topic, changed
from minikafka.controller.metadata.records import PartitionChange
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)
from minikafka.storage.steps import Pauses, without_pauses

__all__ = ["decide", "deciding"]

ANY_EPOCH = -1
RECOVERED = 0


def deciding(
    image: Image, request: AlterPartitionRequest, context: Context
) -> Generator[None, None, Decision[AlterPartitionResponse]]:
    """Decide in steps, with a result for each partition: its new state, or the error."""
    if is_stale(image, request.broker_id, request.broker_epoch):
        return Decision([], AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    if sum(len(topic.partitions) for topic in request.topics) > RECORDS_MAX:
        return Decision([], AlterPartitionResponse(error_code=ErrorCode.POLICY_VIOLATION))
    rules = TopicRules(image, context.settings(image))
    records: list[PartitionChange] = []
    reply = AlterPartitionResponse()
    pauses = Pauses(ELEMENTS_IN_A_STEP)
    for requested in request.topics:
        topic = image.topics_by_id.get(requested.topic_id)
        answer = ResponseTopicData(topic_id=requested.topic_id)
        reply.topics.append(answer)
        for partition in requested.partitions:
            if pauses.is_due():
                yield
            change, result = _alter(image, topic, partition, request.broker_id, rules)
            records += [change] if change else []
            answer.partitions.append(result)
    return Decision([*records], reply)


decide = without_pauses(deciding)


def _alter(
    image: Image, topic: Topic | None, requested: RequestPartitionData, broker_id: int, rules: TopicRules
) -> tuple[PartitionChange | None, ResponsePartitionData]:
    index = requested.partition_index
    if topic is None:
        return None, _refused(index, ErrorCode.UNKNOWN_TOPIC_ID)
    if not 0 <= index < len(topic.partitions):
        return None, _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    state = topic.partitions[index]
    error = _error(image, state, requested, broker_id)
    if error is not ErrorCode.NONE:
        return None, _refused(index, error)
    if _is_applied(state, requested):
        return None, _accepted(index, state)
    target = replace(state, isr=tuple(broker.broker_id for broker in _requested_isr(requested)))
    change = partition_change(topic.id, index, state, target, rules.of(topic))
    if change is None:
        return None, _accepted(index, state)
    after = changed(state, change)
    if after.leader != broker_id:
        return change, _refused(index, ErrorCode.NEW_LEADER_ELECTED)
    return change, _accepted(index, after)


def _refused(index: int, error: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=index, error_code=error)


def _accepted(index: int, state: PartitionState) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition_index=index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
    )


def _requested_isr(requested: RequestPartitionData) -> list[BrokerState]:
    """The requested ISR with broker epochs, which requests before version 3 do not have."""
    without_epochs = [BrokerState(broker_id=node, broker_epoch=ANY_EPOCH) for node in requested.new_isr]
    return requested.new_isr_with_epochs or without_epochs


def _error(image: Image, state: PartitionState, requested: RequestPartitionData, broker_id: int) -> ErrorCode:
    """The first error of a requested change. A broker that knows a later epoch than this controller gets
    NOT_CONTROLLER, because it must look up the active controller."""
    if requested.leader_epoch > state.leader_epoch or requested.partition_epoch > state.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if requested.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != state.leader:
        return ErrorCode.INVALID_REQUEST
    if requested.partition_epoch < state.partition_epoch and not _is_applied(state, requested):
        return ErrorCode.INVALID_UPDATE_VERSION
    isr = [broker.broker_id for broker in _requested_isr(requested)]
    if len(set(isr)) < len(isr) or not set(isr) <= set(state.replicas) or state.leader not in isr:
        return ErrorCode.INVALID_REQUEST
    if requested.leader_recovery_state != RECOVERED:
        return ErrorCode.INVALID_REQUEST
    eligible = all(_may_be_in_sync(image, state, broker) for broker in _requested_isr(requested))
    return ErrorCode.NONE if eligible else ErrorCode.INELIGIBLE_REPLICA


def _is_applied(state: PartitionState, requested: RequestPartitionData) -> bool:
    """Whether the request is a repetition: the last change of the partition has applied it."""
    repeated = requested.partition_epoch == state.partition_epoch - 1
    return repeated and sorted(broker.broker_id for broker in _requested_isr(requested)) == sorted(state.isr)


def _may_be_in_sync(image: Image, state: PartitionState, requested: BrokerState) -> bool:
    """Whether the broker is unfenced, not in controlled shutdown, has the epoch in which it caught up, and can use the
    data directory of its replica."""
    broker = image.brokers.get(requested.broker_id)
    if broker is None or broker.fenced or broker.in_controlled_shutdown:
        return False
    if not image.has_online(broker.node_id, state.directory(broker.node_id)):
        return False
    return requested.broker_epoch in (ANY_EPOCH, broker.epoch)
