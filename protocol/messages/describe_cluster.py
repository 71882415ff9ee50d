"""DescribeCluster, API key 60: the nodes of a cluster (KIP-700).

Versions 0-2, all flexible (KIP-482).

- v1: endpoint_type (KIP-919).
- v2: fenced brokers (KIP-1073).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int8, int16, int32, string


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterRequest:
    """Which endpoints: 1 brokers, 2 controllers."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: int8 = field(default=1, versions="1+")
    include_fenced_brokers: bool = field(default=False, versions="2+")


@message(key=60, versions="0-2", flexible="0+")
class DescribeClusterResponse:
    """The cluster as this node sees it."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    endpoint_type: int8 = field(default=1, versions="1+")
    cluster_id: string = ""
    controller_id: int32 = -1
    brokers: list[DescribeClusterBroker] = []
    cluster_authorized_operations: int32 = -0x8000_0000


@struct
class DescribeClusterBroker:
    broker_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: string | None = None
    is_fenced: bool = field(default=False, versions="2+")
