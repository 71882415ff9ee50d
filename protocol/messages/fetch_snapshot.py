"""FetchSnapshot, API key 59: a part of a snapshot of the metadata log (KIP-630).

Versions 0-1, all flexible (KIP-482).

- v1: directory ids and endpoints (KIP-853).
"""

from __future__ import annotations

from minikafka.protocol.message import FRESH, field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, int64, string, uint16, uuid
from minikafka.protocol.types import records as records_


@message(key=59, versions="0-1", flexible="0+")
class FetchSnapshotRequest:
    """The snapshot, and the position in it."""

    cluster_id: string | None = field(default=None, tag=0)
    replica_id: int32 = -1
    max_bytes: int32 = 0x7FFFFFFF
    topics: list[RequestTopicSnapshot] = []


@struct
class RequestTopicSnapshot:
    name: string = ""
    partitions: list[RequestPartitionSnapshot] = []


@struct
class RequestPartitionSnapshot:
    partition: int32 = 0
    current_leader_epoch: int32 = 0
    snapshot_id: SnapshotId = FRESH
    position: int64 = 0
    replica_directory_id: uuid = field(default=NIL_UUID, versions="1+", tag=0, ignorable=True)


@struct
class SnapshotId:
    end_offset: int64 = 0
    epoch: int32 = 0


@message(key=59, versions="0-1", flexible="0+")
class FetchSnapshotResponse:
    """Unaligned bytes of the snapshot."""

    throttle_time_ms: int32 = field(default=0, ignorable=True)
    error_code: int16 = 0
    topics: list[ResponseTopicSnapshot] = []
    node_endpoints: list[NodeEndpoint] = field(default=[], versions="1+", tag=0)


@struct
class ResponseTopicSnapshot:
    name: string = ""
    partitions: list[ResponsePartitionSnapshot] = []


@struct
class NodeEndpoint:
    node_id: int32 = field(default=0, versions="1+")
    host: string = field(default="", versions="1+")
    port: uint16 = field(default=0, versions="1+")


@struct
class ResponsePartitionSnapshot:
    index: int32 = 0
    error_code: int16 = 0
    snapshot_id: SnapshotId = FRESH
    current_leader: LeaderIdAndEpoch = field(default=FRESH, tag=0)
    size: int64 = 0
    position: int64 = 0
    unaligned_records: records_ = None


@struct
class LeaderIdAndEpoch:
    leader_id: int32 = 0
    leader_epoch: int32 = 0
