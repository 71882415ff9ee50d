"""Maps each request type to the function that decides or answers it, at once or in steps."""

from collections.abc import Callable, Generator
from typing import Any

from minikafka.controller.decisions import (
    acls,
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    client_quotas,
    create_partitions,
    create_topics,
    delegation_tokens,
    delete_topics,
    elect_leaders,
    fixed_voters,
    incremental_alter_configs,
    list_config_resources,
    list_partition_reassignments,
    scram_credentials,
    unregister_broker,
    update_features,
)
from minikafka.controller.decisions.access_checks import check_access
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP
from minikafka.controller.security.access import Access
from minikafka.protocol.elements import count_elements
from minikafka.protocol.messages.add_raft_voter import AddRaftVoterRequest
from minikafka.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from minikafka.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from minikafka.protocol.messages.alter_configs import AlterConfigsRequest
from minikafka.protocol.messages.alter_partition import AlterPartitionRequest
from minikafka.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from minikafka.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from minikafka.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.protocol.messages.broker_registration import BrokerRegistrationRequest
from minikafka.protocol.messages.create_acls import CreateAclsRequest
from minikafka.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.protocol.messages.delete_acls import DeleteAclsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.describe_acls import DescribeAclsRequest
from minikafka.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from minikafka.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest
from minikafka.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from minikafka.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from minikafka.protocol.messages.list_config_resources import ListConfigResourcesRequest
from minikafka.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from minikafka.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from minikafka.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest
from minikafka.protocol.messages.update_features import UpdateFeaturesRequest
from minikafka.protocol.messages.update_raft_voter import UpdateRaftVoterRequest

__all__ = ["DECISIONS", "DESCRIPTIONS", "IN_STEPS", "Deciding", "described", "elements_decided_about"]

Deciding = Callable[[Image, Any, Context], Decision[Any] | Generator[None, None, Decision[Any]]]

DECISIONS: dict[type, Callable[[Image, Any, Context], Decision[Any]]] = {
    AddRaftVoterRequest: fixed_voters.add,
    AllocateProducerIdsRequest: allocate_producer_ids.decide,
    AlterClientQuotasRequest: client_quotas.decide,
    AlterConfigsRequest: alter_configs.decide,
    AlterPartitionRequest: alter_partition.decide,
    AlterPartitionReassignmentsRequest: alter_partition_reassignments.decide,
    AlterUserScramCredentialsRequest: scram_credentials.decide,
    AssignReplicasToDirsRequest: assign_replicas_to_dirs.decide,
    BrokerHeartbeatRequest: broker_heartbeat.decide,
    BrokerRegistrationRequest: broker_registration.decide,
    CreateAclsRequest: acls.create,
    CreateDelegationTokenRequest: delegation_tokens.create,
    CreatePartitionsRequest: create_partitions.decide,
    CreateTopicsRequest: create_topics.decide,
    DeleteAclsRequest: acls.delete,
    DeleteTopicsRequest: delete_topics.decide,
    ElectLeadersRequest: elect_leaders.decide,
    ExpireDelegationTokenRequest: delegation_tokens.expire,
    IncrementalAlterConfigsRequest: incremental_alter_configs.decide,
    RemoveRaftVoterRequest: fixed_voters.remove,
    RenewDelegationTokenRequest: delegation_tokens.renew,
    UnregisterBrokerRequest: unregister_broker.decide,
    UpdateFeaturesRequest: update_features.decide,
    UpdateRaftVoterRequest: fixed_voters.update,
}
"""The decision function of each request that changes the cluster. It takes image, request and context."""

DESCRIPTIONS: dict[type, Callable[[Image, Any, int], Generator[None, None, Any]]] = {
    DescribeAclsRequest: acls.describing,
    DescribeClientQuotasRequest: client_quotas.describing,
    DescribeUserScramCredentialsRequest: scram_credentials.describing,
    ListConfigResourcesRequest: list_config_resources.describing,
    ListPartitionReassignmentsRequest: list_partition_reassignments.describing,
}
"""The function for each request that only reads. It takes image, request and version, and makes the response in steps,
between which the image may change."""


def described(image: Image, request: Any, version: int, access: Access) -> Generator[None, None, Any]:
    """Answer a request of `DESCRIPTIONS`, if its client may send it. Raises ClusterAuthorizationFailedError."""
    check_access(request, access)
    return (yield from DESCRIPTIONS[type(request)](image, request, version))


IN_STEPS: dict[type, Deciding] = {
    **DECISIONS,
    AlterClientQuotasRequest: client_quotas.deciding,
    AlterConfigsRequest: alter_configs.deciding,
    AlterPartitionReassignmentsRequest: alter_partition_reassignments.deciding,
    AlterPartitionRequest: alter_partition.deciding,
    AlterUserScramCredentialsRequest: scram_credentials.deciding,
    AssignReplicasToDirsRequest: assign_replicas_to_dirs.deciding,
    BrokerHeartbeatRequest: broker_heartbeat.deciding,
    BrokerRegistrationRequest: broker_registration.deciding,
    CreateAclsRequest: acls.creating,
    CreatePartitionsRequest: create_partitions.deciding,
    CreateTopicsRequest: create_topics.deciding,
    DeleteAclsRequest: acls.deleting,
    DeleteTopicsRequest: delete_topics.deciding,
    ElectLeadersRequest: elect_leaders.deciding,
    ExpireDelegationTokenRequest: delegation_tokens.expiring,
    IncrementalAlterConfigsRequest: incremental_alter_configs.deciding,
    RenewDelegationTokenRequest: delegation_tokens.renewing,
    UnregisterBrokerRequest: unregister_broker.deciding,
}
"""The decision functions of `DECISIONS` for the queue of a controller: those that may take long decide in steps."""

WHOLE_CLUSTER = (BrokerHeartbeatRequest, BrokerRegistrationRequest, UnregisterBrokerRequest)
"""The requests whose decisions may look at all partitions."""


def elements_decided_about(request: Any) -> int:
    """The number of elements that a decision about a request takes time for: those that the request names, or
    `ELEMENTS_IN_A_STEP` if the decision may look at all partitions."""
    if isinstance(request, WHOLE_CLUSTER):
        return ELEMENTS_IN_A_STEP
    return count_elements(request) or ELEMENTS_IN_A_STEP
