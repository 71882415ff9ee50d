"""DescribeProducers: returns the active producers of a partition and their sequences (KIP-664). Version 0."""

from minikafka.broker.apis.authorization import AllowedTopics
from minikafka.broker.apis.repeats import Repeats
from minikafka.broker.apis.services import PartitionStore
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import KafkaError, TopicAuthorizationFailedError
from minikafka.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from minikafka.protocol.names import check_topic_name
from minikafka.storage.logs.producer_state import Producer
from minikafka.storage.steps import Pauses

REQUEST = DescribeProducersRequest
VERSIONS = "0"


async def handle(
    request: DescribeProducersRequest, context: RequestContext[PartitionStore]
) -> DescribeProducersResponse:
    """Describe producers. Each partition has its own error, duplicates included; see `Repeats`."""
    response, pause = DescribeProducersResponse(), Pauses()
    repeats = Repeats(_alone, context.version)
    readable = AllowedTopics(context, AclOperation.READ)
    for topic in request.topics:
        answered = TopicResponse(name=topic.name)
        for index in topic.partition_indexes:
            partition = await _producers(topic.name, index, context, readable, pause)
            answered.partitions.append(repeats.check((topic.name, index), partition))
        response.topics.append(answered)
    return response


def _alone(partition: PartitionResponse) -> DescribeProducersResponse:
    return DescribeProducersResponse(topics=[TopicResponse(name="", partitions=[partition])])


async def _producers(
    topic: str, index: int, context: RequestContext[PartitionStore], readable: AllowedTopics, pause: Pauses
) -> PartitionResponse:
    await pause()
    answer = PartitionResponse(partition_index=index)
    try:
        check_topic_name(topic)
        if topic not in readable:
            raise TopicAuthorizationFailedError("Topic authorization failed.")
        partition = context.services.partitions.find(topic, index)
    except KafkaError as error:
        answer.error_code, answer.error_message = error.code, error.detail
        return answer
    for producer in list(partition.log.producers):
        await pause()
        answer.active_producers.append(_described(producer))
    return answer


def _described(producer: Producer) -> ProducerState:
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_first_offset,
    )
