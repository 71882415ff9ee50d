"""Metadata, API key 3: brokers, topics, and the leaders of partitions.

Versions 0-13, flexible from 9 on (KIP-482).

- v1: racks, controller_id, is_internal; null selects all topics, an empty list none.
- v2: cluster_id (KIP-78).
- v4: allow_auto_topic_creation.
- v5: offline_replicas (KIP-112).
- v7: leader epochs (KIP-320).
- v8: authorized operations (KIP-430).
- v10: topic ids (KIP-516); v11 drops the cluster's authorized operations (KIP-700).
- v12: topics may be requested by id.
- v13: error_code of the whole response (KIP-1102).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, string, uuid


@message(key=3, versions="0-13", flexible="9+")
class MetadataRequest:
    """Topics by name or id; null (v0: an empty list) selects all."""

    topics: list[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: bool = field(default=True, versions="4+")
    include_cluster_authorized_operations: bool = field(default=False, versions="8-10")
    include_topic_authorized_operations: bool = field(default=False, versions="8+")


@struct
class MetadataRequestTopic:
    topic_id: uuid = field(default=NIL_UUID, versions="10+", ignorable=True)
    name: string | None = field(nullable="10+")


@message(key=3, versions="0-13", flexible="9+")
class MetadataResponse:
    """The cluster as this node sees it."""

    throttle_time_ms: int32 = field(default=0, versions="3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = []
    cluster_id: string | None = field(default=None, versions="2+", ignorable=True)
    controller_id: int32 = field(default=-1, versions="1+", ignorable=True)
    topics: list[MetadataResponseTopic] = []
    cluster_authorized_operations: int32 = field(default=-0x8000_0000, versions="8-10")
    error_code: int16 = field(default=0, versions="13+", ignorable=True)


@struct
class MetadataResponseBroker:
    node_id: int32 = 0
    host: string = ""
    port: int32 = 0
    rack: string | None = field(default=None, versions="1+", ignorable=True)


@struct
class MetadataResponseTopic:
    error_code: int16 = 0
    name: string | None = field(nullable="12+")
    topic_id: uuid = field(default=NIL_UUID, versions="10+", ignorable=True)
    is_internal: bool = field(default=False, versions="1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = []
    topic_authorized_operations: int32 = field(default=-0x8000_0000, versions="8+")


@struct
class MetadataResponsePartition:
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = field(default=-1, versions="7+", ignorable=True)
    replica_nodes: list[int32] = []
    isr_nodes: list[int32] = []
    offline_replicas: list[int32] = field(default=[], versions="5+", ignorable=True)
