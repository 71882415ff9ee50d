"""What a client needs for a request as a whole, and for the resources that a request names.

Every request in `ON_CLUSTER` needs one operation on the cluster; without it, nothing of the request is answered.
Requests between nodes need CLUSTER_ACTION. Source: `ControllerApis`, `KafkaApis`, `AclApis`.
"""

from typing import Any

from minikafka.controller.security.access import Access
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType
from minikafka.protocol.errors import ClusterAuthorizationFailedError
from minikafka.protocol.messages.add_raft_voter import AddRaftVoterRequest
from minikafka.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from minikafka.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from minikafka.protocol.messages.alter_partition import AlterPartitionRequest
from minikafka.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from minikafka.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from minikafka.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.protocol.messages.broker_registration import BrokerRegistrationRequest
from minikafka.protocol.messages.create_acls import CreateAclsRequest
from minikafka.protocol.messages.delete_acls import DeleteAclsRequest
from minikafka.protocol.messages.describe_acls import DescribeAclsRequest
from minikafka.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from minikafka.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest
from minikafka.protocol.messages.list_config_resources import ListConfigResourcesRequest
from minikafka.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from minikafka.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest
from minikafka.protocol.messages.update_features import UpdateFeaturesRequest
from minikafka.protocol.messages.update_raft_voter import UpdateRaftVoterRequest

__all__ = ["ON_CLUSTER", "check_access", "on_cluster", "on_topic"]

ON_CLUSTER: dict[type, AclOperation] = {
    AddRaftVoterRequest: AclOperation.ALTER,
    AllocateProducerIdsRequest: AclOperation.CLUSTER_ACTION,
    AlterClientQuotasRequest: AclOperation.ALTER_CONFIGS,
    AlterPartitionRequest: AclOperation.CLUSTER_ACTION,
    AlterPartitionReassignmentsRequest: AclOperation.ALTER,
    AlterUserScramCredentialsRequest: AclOperation.ALTER,
    AssignReplicasToDirsRequest: AclOperation.CLUSTER_ACTION,
    BrokerHeartbeatRequest: AclOperation.CLUSTER_ACTION,
    BrokerRegistrationRequest: AclOperation.CLUSTER_ACTION,
    CreateAclsRequest: AclOperation.ALTER,
    DeleteAclsRequest: AclOperation.ALTER,
    DescribeAclsRequest: AclOperation.DESCRIBE,
    DescribeClientQuotasRequest: AclOperation.DESCRIBE_CONFIGS,
    DescribeUserScramCredentialsRequest: AclOperation.DESCRIBE,
    ElectLeadersRequest: AclOperation.ALTER,
    ListConfigResourcesRequest: AclOperation.DESCRIBE_CONFIGS,
    ListPartitionReassignmentsRequest: AclOperation.DESCRIBE,
    RemoveRaftVoterRequest: AclOperation.ALTER,
    UnregisterBrokerRequest: AclOperation.ALTER,
    UpdateFeaturesRequest: AclOperation.ALTER,
    UpdateRaftVoterRequest: AclOperation.CLUSTER_ACTION,
}
"""The operation on the cluster that each request needs as a whole."""


def check_access(request: Any, access: Access) -> None:
    """Raise ClusterAuthorizationFailedError if the client may not send such a request at all."""
    operation = ON_CLUSTER.get(type(request))
    if operation is not None and not on_cluster(access, operation):
        raise ClusterAuthorizationFailedError


def on_cluster(access: Access, operation: AclOperation, *, log_denied: bool = True) -> bool:
    """Whether the client may do `operation` with the cluster."""
    return access.allows(operation, AclResourceType.CLUSTER, CLUSTER_NAME, log_denied=log_denied)


def on_topic(access: Access, operation: AclOperation, name: str, *, log_denied: bool = True) -> bool:
    """Whether the client may do `operation` with a topic, which need not exist."""
    return access.allows(operation, AclResourceType.TOPIC, name, log_denied=log_denied)
