"""What a client asks to learn the nodes that it may ask: brokers by Metadata, controllers by DescribeCluster (KIP-919).

Pure. Source: Kafka's `AdminBootstrapAddresses` and `AdminMetadataManager`.
"""

from __future__ import annotations

from collections.abc import Iterable

from minikafka.client.option_checks import parse_addresses
from minikafka.client.options import AdminOptions, ClientOptions
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)

BROKERS, CONTROLLERS = 1, 2
"""`endpoint_type` of DescribeCluster."""


def asks_controllers(options: ClientOptions) -> bool:
    """Whether the nodes that a client asks are controllers instead of brokers."""
    return isinstance(options, AdminOptions) and options.bootstrap_controllers is not None


def bootstrap_addresses(options: ClientOptions) -> list[tuple[str, int]]:
    """The host and the port of each node that a client asks first."""
    controllers = options.bootstrap_controllers if isinstance(options, AdminOptions) else None
    return parse_addresses(options.bootstrap_servers if controllers is None else controllers)


def nodes_request(
    options: ClientOptions, topics: Iterable[str] | None, *, may_create: bool
) -> MetadataRequest | DescribeClusterRequest:
    """The request for the nodes of a cluster, and for `topics` (None: all), which controllers do not describe."""
    if asks_controllers(options):
        return DescribeClusterRequest(endpoint_type=CONTROLLERS)
    return MetadataRequest(
        topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=may_create,
    )


def as_metadata(response: MetadataResponse | DescribeClusterResponse) -> MetadataResponse:
    """The response to `nodes_request` as metadata; those of controllers have the controllers in place of brokers."""
    if isinstance(response, MetadataResponse):
        return response
    return MetadataResponse(
        error_code=response.error_code,
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        brokers=[
            MetadataResponseBroker(node_id=one.broker_id, host=one.host, port=one.port) for one in response.brokers
        ],
    )
