"""The handlers of the controller listener: Kafka's APIs for `--bootstrap-controller` (KIP-919), and those that only
controllers have, such as Envelope (KIP-590).

A controller that is not the active controller refuses requests that change metadata with NOT_CONTROLLER, and
DescribeQuorum with NOT_LEADER_OR_FOLLOWER: clients then ask the controller that DescribeCluster names. The requests by
which Kafka's controllers talk to each other (Vote, Fetch, …) are refused: minikafka's quorum speaks a protocol of its
own on the same port.

Source: `ControllerApis`, `KafkaRaftClient`.
"""

from dataclasses import dataclass
from typing import Any

from minikafka.broker.apis import api_versions, describe_configs, describe_quorum, without_security
from minikafka.broker.apis.acls import acl_handlers
from minikafka.broker.apis.authorization import check_cluster, cluster_operations
from minikafka.broker.apis.delegation_tokens import token_handlers
from minikafka.broker.apis.forwarded import FORWARDED
from minikafka.broker.apis.quorum_state import controllers_of, default_listener, kraft_versions_of
from minikafka.broker.apis.raft_voters import VERSIONS, check_cluster_id, check_update, check_voter
from minikafka.broker.apis.services import NodeSetup
from minikafka.broker.connections.request_context import RequestContext
from minikafka.broker.connections.routes import ApiHandler, ApiModule
from minikafka.controller.decisions.access_checks import check_access
from minikafka.controller.direct_requests import DirectRequests
from minikafka.controller.metadata.image import Image
from minikafka.controller.quorum_controller import QuorumController
from minikafka.protocol.acl_codes import AclOperation
from minikafka.protocol.errors import (
    ErrorCode,
    FencedLeaderEpochError,
    InvalidRequestError,
    KafkaError,
    MismatchedEndpointTypeError,
    NotControllerError,
    NotLeaderOrFollowerError,
    UnknownLeaderEpochError,
    UnsupportedEndpointTypeError,
    VoterNotFoundError,
)
from minikafka.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from minikafka.protocol.messages.alter_partition import AlterPartitionRequest
from minikafka.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from minikafka.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.protocol.messages.broker_registration import BrokerRegistrationRequest
from minikafka.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from minikafka.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from minikafka.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from minikafka.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from minikafka.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from minikafka.protocol.messages.list_config_resources import ListConfigResourcesRequest
from minikafka.protocol.messages.update_raft_voter import CurrentLeader, UpdateRaftVoterRequest, UpdateRaftVoterResponse
from minikafka.protocol.messages.vote import VoteRequest

BROKERS, CONTROLLERS = 1, 2
VERSION_WITH_ENDPOINT_TYPE = 1


@dataclass(frozen=True, slots=True)
class ControllerServices:
    """Everything that the handlers of a controller listener use.

    Attributes:
        image: The cluster's committed metadata.
        controller: This node's controller, for what it knows of the quorum.
        direct: This node's controller, asked without forwarding: it refuses unless it is the active one.
        setup: The settings of the node, and the APIs of the listener.
    """

    image: Image
    controller: QuorumController
    direct: DirectRequests
    setup: NodeSetup


Context = RequestContext[ControllerServices]


async def ask(request: Any, context: Context) -> Any:
    """Return the response of this node's controller. Raises KafkaError, for example if it is not the active one."""
    return await context.services.direct.handle(request, context.version, context.access)


async def describe_controllers(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    """Return the controllers in the response's list of brokers.

    Raises:
        ClusterAuthorizationFailedError: The client may not alter the cluster.
        InvalidRequestError: The version of the request has no endpoint type: it describes brokers only.
        MismatchedEndpointTypeError: Brokers were requested, which only a broker's listener describes.
        UnsupportedEndpointTypeError: The endpoint type is unknown.
    """
    check_cluster(context, AclOperation.ALTER)
    if context.version < VERSION_WITH_ENDPOINT_TYPE:
        raise InvalidRequestError("The request was sent to an endpoint of the wrong type.")
    if request.endpoint_type == BROKERS:
        raise MismatchedEndpointTypeError(
            "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type BROKER"
        )
    if request.endpoint_type != CONTROLLERS:
        raise UnsupportedEndpointTypeError(f"Unsupported endpoint type {request.endpoint_type}")
    services = context.services
    response = DescribeClusterResponse(
        endpoint_type=CONTROLLERS, cluster_id=services.image.cluster_id, controller_id=services.controller.leader_id
    )
    response.brokers = [
        DescribeClusterBroker(broker_id=one.node_id, host=one.host, port=one.port, rack=None)
        for one in controllers_of(services.setup.config, services.controller)
    ]
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context.access)
    return response


async def quorum(request: DescribeQuorumRequest, context: Context) -> DescribeQuorumResponse:
    """Describe the quorum of the metadata partition; NOT_LEADER_OR_FOLLOWER unless this node leads the quorum."""
    if _leads(context) or not describe_quorum.is_of_metadata(request):
        return await describe_quorum.handle(request, context)
    refused = ResponsePartitionData(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    topic = ResponseTopicData(topic_name=describe_quorum.METADATA_TOPIC, partitions=[refused])
    return DescribeQuorumResponse(topics=[topic])


async def refuse_peer(request: Any, context: Context) -> Any:
    """Refuse a request that a controller of Kafka would send to another one: Vote, Fetch and the like.

    Raises:
        ClusterAuthorizationFailedError: The client has no CLUSTER_ACTION.
        InconsistentClusterIdError: The sender belongs to another cluster.
        InvalidRequestError: Otherwise, since minikafka's quorum does not speak this protocol.
    """
    check_cluster(context, AclOperation.CLUSTER_ACTION)
    check_cluster_id(request, context.services.image.cluster_id)
    raise InvalidRequestError("minikafka's controllers do not replicate by Kafka's requests")


async def change_voters(request: Any, context: Context) -> Any:
    """Return the active controller's response to AddRaftVoter or RemoveRaftVoter.

    Raises:
        ClusterAuthorizationFailedError: The client may not alter the cluster.
        InconsistentClusterIdError: The request names another cluster.
        NotLeaderOrFollowerError: This node does not lead the quorum.
        InvalidRequestError: The voter has no id, no directory id, or no address at the controllers' listener.
    """
    check_access(request, context.access)
    services = context.services
    check_cluster_id(request, services.image.cluster_id)
    _check_leader(context)
    check_voter(request, default_listener(services.setup.config))
    return await _asked_leader(request, context)


async def update_voter(request: UpdateRaftVoterRequest, context: Context) -> UpdateRaftVoterResponse:
    """Return the active controller's response, or the first error; both with the leader of the quorum.

    Raises:
        ClusterAuthorizationFailedError: The client has no CLUSTER_ACTION.
    """
    check_access(request, context.access)
    config, controller = context.services.setup.config, context.services.controller
    try:
        check_cluster_id(request, context.services.image.cluster_id)
        _check_epoch(request.current_leader_epoch, controller.leader_epoch)
        _check_leader(context)
        check_update(request, default_listener(config), kraft_versions_of(controller).level)
        if all(one.node_id != request.voter_id for one in controllers_of(config, controller)):
            raise VoterNotFoundError
        response: UpdateRaftVoterResponse = await _asked_leader(request, context)
    except KafkaError as error:
        response = UpdateRaftVoterResponse(error_code=error.code)
    leader_id = controller.leader_id
    leader = next((one for one in controllers_of(config, controller) if one.node_id == leader_id), None)
    host, port = (leader.host, leader.port) if leader else ("", 0)
    response.current_leader = CurrentLeader(
        leader_id=leader_id, leader_epoch=controller.leader_epoch, host=host, port=port
    )
    return response


async def _asked_leader(request: Any, context: Context) -> Any:
    try:
        return await context.services.direct.handle(request, context.version, context.access)
    except NotControllerError as error:
        raise NotLeaderOrFollowerError from error


async def unwrap(request: EnvelopeRequest, context: Context) -> EnvelopeResponse:
    """Refuse with PRINCIPAL_DESERIALIZATION_FAILURE: minikafka's nodes send no Envelope.

    Raises:
        ClusterAuthorizationFailedError: The client has no CLUSTER_ACTION.
    """
    check_cluster(context, AclOperation.CLUSTER_ACTION)
    return EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)


async def register(request: ControllerRegistrationRequest, context: Context) -> ControllerRegistrationResponse:
    """Refuse to register.

    Raises:
        ClusterAuthorizationFailedError: The client has no CLUSTER_ACTION.
        InvalidRequestError: Otherwise, since the settings of all nodes name the controllers.
    """
    check_cluster(context, AclOperation.CLUSTER_ACTION)
    raise InvalidRequestError("minikafka's controllers do not register")


def _check_epoch(epoch: int, current: int) -> None:
    """Raise FencedLeaderEpochError or UnknownLeaderEpochError unless `epoch` is the current one."""
    if epoch < current:
        raise FencedLeaderEpochError
    if epoch > current:
        raise UnknownLeaderEpochError


def _leads(context: Context) -> bool:
    return context.services.controller.leader_id == context.services.setup.config.node_id


def _check_leader(context: Context) -> None:
    if not _leads(context):
        raise NotLeaderOrFollowerError


_OF_BROKERS = (DescribeClientQuotasRequest, ListConfigResourcesRequest)
"""Requests that a broker forwards to the controller, but that a controller listener does not offer."""
_BETWEEN_NODES: dict[type, str] = {
    AlterPartitionRequest: "2-3",
    BrokerRegistrationRequest: "0-4",
    BrokerHeartbeatRequest: "0-2",
    AllocateProducerIdsRequest: "0",
    AssignReplicasToDirsRequest: "0",
}
_ASKED = {request: versions for request, versions in FORWARDED.items() if request not in _OF_BROKERS} | _BETWEEN_NODES

CONTROLLER_HANDLERS: list[ApiModule[ControllerServices]] = [
    api_versions,
    describe_configs,
    ApiHandler(DescribeClusterRequest, "0-2", describe_controllers),
    ApiHandler(DescribeQuorumRequest, describe_quorum.VERSIONS, quorum),
    *(ApiHandler(request, versions, ask) for request, versions in _ASKED.items()),
    ApiHandler(FetchRequest, "4-18", refuse_peer),
    ApiHandler(VoteRequest, "0-2", refuse_peer),
    ApiHandler(BeginQuorumEpochRequest, "0-1", refuse_peer),
    ApiHandler(EndQuorumEpochRequest, "0-1", refuse_peer),
    ApiHandler(FetchSnapshotRequest, "0-1", refuse_peer),
    ApiHandler(EnvelopeRequest, "0", unwrap),
    ApiHandler(ControllerRegistrationRequest, "0", register),
    *(ApiHandler(request, versions, change_voters) for request, versions in VERSIONS.items()),
    ApiHandler(UpdateRaftVoterRequest, "0", update_voter),
    *acl_handlers(ask),
    *token_handlers(ask),
    *without_security.HANDLERS,
]
"""The handlers of a controller listener."""
