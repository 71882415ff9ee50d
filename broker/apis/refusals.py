"""Responses that refuse a request whose API has no error for the whole request: the error of each topic, resource, ….

Source: the methods `getErrorResponse` of Kafka's requests.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages import alter_configs, incremental_alter_configs
from minikafka.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    ResponseEntryData,
)
from minikafka.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from minikafka.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from minikafka.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from minikafka.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from minikafka.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from minikafka.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from minikafka.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from minikafka.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

__all__ = ["refusal_of"]

Result = TypeVar("Result")


def refusal_of(request: Any, error: KafkaError) -> Any:
    """A response with the error in each result; None for an API whose response has an error of the whole request."""
    refuse = _REFUSALS.get(type(request))
    return None if refuse is None else refuse(request, error)


def _create_topics(request: CreateTopicsRequest, error: KafkaError) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.detail)
            for topic in request.topics
        ]
    )


def _create_partitions(request: CreatePartitionsRequest, error: KafkaError) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.detail)
            for topic in request.topics
        ]
    )


def _delete_topics(request: DeleteTopicsRequest, error: KafkaError) -> DeleteTopicsResponse:
    named = [*request.topics, *(DeleteTopicState(name=name) for name in request.topic_names)]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=error.detail
            )
            for topic in named
        ]
    )


def _elect_leaders(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(partition_id=index, error_code=error.code, error_message=error.detail)
                for index in topic.partitions
            ],
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=error.code, replica_election_results=results)


def _reassign(
    request: AlterPartitionReassignmentsRequest, error: KafkaError
) -> AlterPartitionReassignmentsResponse:
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=one.partition_index, error_code=error.code, error_message=error.detail
                )
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(
        error_code=error.code, error_message=error.detail, responses=responses
    )


def _alter_configs(request: AlterConfigsRequest, error: KafkaError) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=_of_resources(alter_configs.AlterConfigsResourceResponse, request, error))


def _incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, error: KafkaError
) -> IncrementalAlterConfigsResponse:
    result = incremental_alter_configs.AlterConfigsResourceResponse
    return IncrementalAlterConfigsResponse(responses=_of_resources(result, request, error))


def _of_resources(
    result: Callable[..., Result], request: AlterConfigsRequest | IncrementalAlterConfigsRequest, error: KafkaError
) -> list[Result]:
    """The error of each resource; two APIs have results of one shape."""
    return [
        result(
            resource_type=one.resource_type,
            resource_name=one.resource_name,
            error_code=error.code,
            error_message=error.detail,
        )
        for one in request.resources
    ]


def _alter_client_quotas(request: AlterClientQuotasRequest, error: KafkaError) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error_code=error.code,
                error_message=error.detail,
                entity=[
                    EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
                    for part in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def _alter_scram(
    request: AlterUserScramCredentialsRequest, error: KafkaError
) -> AlterUserScramCredentialsResponse:
    users = dict.fromkeys([one.name for one in request.deletions] + [one.name for one in request.upsertions])
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.detail)
            for user in users
        ]
    )


_REFUSALS: dict[type, Any] = {
    CreateTopicsRequest: _create_topics,
    CreatePartitionsRequest: _create_partitions,
    DeleteTopicsRequest: _delete_topics,
    ElectLeadersRequest: _elect_leaders,
    AlterPartitionReassignmentsRequest: _reassign,
    AlterConfigsRequest: _alter_configs,
    IncrementalAlterConfigsRequest: _incremental_alter_configs,
    AlterClientQuotasRequest: _alter_client_quotas,
    AlterUserScramCredentialsRequest: _alter_scram,
}
