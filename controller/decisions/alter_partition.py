"""AlterPartition: the leader of a partition says who is in sync (KIP-497, KIP-841, KIP-903).

Only the leader of the present epoch is heard, about the present state of the partition, and nobody comes in who is
fenced, about to go, or another incarnation than the one that caught up (TRAPS 16). It may end a reassignment, which
may end the leadership of the one that asks. Source: `ReplicationControlManager.alterPartition`.

Unlike Kafka's, a request that was carried out already is accepted when it comes again.
"""

from dataclasses import replace

from minikafka.controller.decisions.broker_heartbeat import is_stale
from minikafka.controller.decisions.decision import RECORDS_MAX, Context, Decision
from minikafka.controller.decisions.partition_changes import TopicRules, partition_change
from minikafka.controller.metadata.image import Image, PartitionState, Topic, changed
from minikafka.controller.metadata.records import PartitionChange
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

__all__ = ["decide"]

ANY_EPOCH = -1
RECOVERED = 0


def decide(image: Image, request: AlterPartitionRequest, context: Context) -> Decision[AlterPartitionResponse]:
    """An answer for each partition: the state that it has now, or why it cannot have the one that was asked for."""
    if is_stale(image, request.broker_id, request.broker_epoch):
        return Decision([], AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    if sum(len(topic.partitions) for topic in request.topics) > RECORDS_MAX:
        return Decision([], AlterPartitionResponse(error_code=ErrorCode.POLICY_VIOLATION))
    rules = TopicRules(image, context.in_force(image))
    records: list[PartitionChange] = []
    reply = AlterPartitionResponse()
    for asked in request.topics:
        topic = image.topics_by_id.get(asked.topic_id)
        answer = ResponseTopicData(topic_id=asked.topic_id)
        reply.topics.append(answer)
        for partition in asked.partitions:
            change, told = _alter(image, topic, partition, request.broker_id, rules)
            records += [change] if change else []
            answer.partitions.append(told)
    return Decision([*records], reply)


def _alter(
    image: Image, topic: Topic | None, asked: RequestPartitionData, broker_id: int, rules: TopicRules
) -> tuple[PartitionChange | None, ResponsePartitionData]:
    index = asked.partition_index
    if topic is None:
        return None, _refused(index, ErrorCode.UNKNOWN_TOPIC_ID)
    if not 0 <= index < len(topic.partitions):
        return None, _refused(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    state = topic.partitions[index]
    error = _error(image, state, asked, broker_id)
    if error is not ErrorCode.NONE:
        return None, _refused(index, error)
    if _is_done(state, asked):
        return None, _told(index, state)
    wanted = replace(state, isr=tuple(broker.broker_id for broker in _in_sync(asked)))
    change = partition_change(topic.id, index, state, wanted, rules.of(topic))
    if change is None:
        return None, _told(index, state)
    after = changed(state, change)
    if after.leader != broker_id:
        return change, _refused(index, ErrorCode.NEW_LEADER_ELECTED)
    return change, _told(index, after)


def _refused(index: int, error: ErrorCode) -> ResponsePartitionData:
    return ResponsePartitionData(partition_index=index, error_code=error)


def _told(index: int, state: PartitionState) -> ResponsePartitionData:
    return ResponsePartitionData(
        partition_index=index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
    )


def _in_sync(asked: RequestPartitionData) -> list[BrokerState]:
    """With broker epochs; before version 3 there are none."""
    return asked.new_isr_with_epochs or [BrokerState(broker_id=node, broker_epoch=ANY_EPOCH) for node in asked.new_isr]


def _error(image: Image, state: PartitionState, asked: RequestPartitionData, broker_id: int) -> ErrorCode:
    """The first thing that is wrong. Whoever knows of a later epoch than we do has to find the real controller."""
    if asked.leader_epoch > state.leader_epoch or asked.partition_epoch > state.partition_epoch:
        return ErrorCode.NOT_CONTROLLER
    if asked.leader_epoch < state.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != state.leader:
        return ErrorCode.INVALID_REQUEST
    if asked.partition_epoch < state.partition_epoch and not _is_done(state, asked):
        return ErrorCode.INVALID_UPDATE_VERSION
    in_sync = [broker.broker_id for broker in _in_sync(asked)]
    if len(set(in_sync)) < len(in_sync) or not set(in_sync) <= set(state.replicas) or state.leader not in in_sync:
        return ErrorCode.INVALID_REQUEST
    if asked.leader_recovery_state != RECOVERED:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE if all(_is_eligible(image, broker) for broker in _in_sync(asked)) else _INELIGIBLE


_INELIGIBLE = ErrorCode.INELIGIBLE_REPLICA


def _is_done(state: PartitionState, asked: RequestPartitionData) -> bool:
    """Whether this is what the last change of the partition brought about: the request is here for the second time."""
    again = asked.partition_epoch == state.partition_epoch - 1
    return again and sorted(broker.broker_id for broker in _in_sync(asked)) == sorted(state.isr)


def _is_eligible(image: Image, asked: BrokerState) -> bool:
    """Whether a broker may be in sync: alive, staying, and the same that caught up."""
    broker = image.brokers.get(asked.broker_id)
    if broker is None or broker.fenced or broker.in_controlled_shutdown:
        return False
    return asked.broker_epoch in (ANY_EPOCH, broker.epoch)
