"""DescribeCluster: describes the brokers and the controller (KIP-700).

Versions 0 to 2: fenced brokers from 2 (KIP-1073).
"""

from typing import Protocol

from minikafka.broker.apis.authorization import cluster_operations
from minikafka.broker.apis.cluster_answers import addresses_of
from minikafka.broker.apis.services import ClusterView, SetupService
from minikafka.broker.connections.listener_addresses import Address
from minikafka.broker.connections.request_context import RequestContext
from minikafka.protocol.errors import MismatchedEndpointTypeError, UnsupportedEndpointTypeError
from minikafka.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

REQUEST = DescribeClusterRequest
VERSIONS = "0-2"

BROKERS, CONTROLLERS = 1, 2


class DescribeClusterServices(ClusterView, SetupService, Protocol):
    """The parts of the node that the handler uses."""


Context = RequestContext[DescribeClusterServices]


async def handle(request: DescribeClusterRequest, context: Context) -> DescribeClusterResponse:
    """Return the brokers; from version 2 on the fenced brokers too, if requested.

    Raises:
        MismatchedEndpointTypeError: Controllers were requested, which only a controller listener describes.
        UnsupportedEndpointTypeError: The endpoint type is unknown.
    """
    if request.endpoint_type == CONTROLLERS:
        raise MismatchedEndpointTypeError(
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        )
    if request.endpoint_type != BROKERS:
        raise UnsupportedEndpointTypeError(f"Unsupported endpoint type {request.endpoint_type}")
    cluster_id, node_id = context.services.image.cluster_id, context.services.setup.config.node_id
    response = DescribeClusterResponse(cluster_id=cluster_id, controller_id=node_id)
    response.brokers = [_broker(address, fenced=False) for address in addresses_of(context)]
    if request.include_fenced_brokers:
        response.brokers += [_broker(address, fenced=True) for address in addresses_of(context, fenced=True)]
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context.access)
    return response


def _broker(address: Address, *, fenced: bool) -> DescribeClusterBroker:
    return DescribeClusterBroker(
        broker_id=address.node_id, host=address.host, port=address.port, rack=address.rack, is_fenced=fenced
    )
