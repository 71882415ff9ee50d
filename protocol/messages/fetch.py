"""Fetch, API key 1: reads record batches from partitions, for consumers and followers.

Versions 4-18, flexible from 12 on (KIP-482).

- v4: isolation levels, aborted transactions (KIP-98).
- v5: log_start_offset (KIP-107).
- v7: fetch sessions: requests and responses contain changed partitions only (KIP-227).
- v9: current_leader_epoch (KIP-320).
- v10: zstd may be returned (KIP-110).
- v11: rack_id and preferred_read_replica (KIP-392).
- v12: last_fetched_epoch and diverging_epoch (KIP-595).
- v13: topic ids in place of names (KIP-516).
- v15: replica_state in place of replica_id (KIP-903).
- v16: node_endpoints of the current leaders (KIP-951).
- v17: replica_directory_id (KIP-853).
- v18: high_watermark (KIP-1166).
"""

from __future__ import annotations

from minikafka.protocol.message import FRESH, field, message, struct
from minikafka.protocol.types import (
    NIL_UUID,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)
from minikafka.protocol.types import (
    records as raw_records,
)


@message(key=1, versions="4-18", flexible="12+")
class FetchRequest:
    """Partitions with their fetch offsets; the maximum wait and the minimum and maximum size."""

    cluster_id: string | None = field(default=None, versions="12+", tag=0, ignorable=True)
    replica_id: int32 = field(default=-1, versions="0-14")
    replica_state: ReplicaState = field(default=FRESH, versions="15+", tag=1)
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = field(default=0x7FFFFFFF, ignorable=True)
    isolation_level: int8 = field(default=0, ignorable=True)
    session_id: int32 = field(default=0, versions="7+", ignorable=True)
    session_epoch: int32 = field(default=-1, versions="7+", ignorable=True)
    topics: list[FetchTopic] = []
    forgotten_topics_data: list[ForgottenTopic] = field(default=[], versions="7+")
    rack_id: string = field(default="", versions="11+", ignorable=True)


@struct
class ReplicaState:
    replica_id: int32 = field(default=-1, versions="15+")
    replica_epoch: int64 = field(default=-1, versions="15+")


@struct
class FetchTopic:
    topic: string = field(default="", versions="0-12", ignorable=True)
    topic_id: uuid = field(default=NIL_UUID, versions="13+", ignorable=True)
    partitions: list[FetchPartition] = []


@struct
class FetchPartition:
    partition: int32 = 0
    current_leader_epoch: int32 = field(default=-1, versions="9+", ignorable=True)
    fetch_offset: int64 = 0
    last_fetched_epoch: int32 = field(default=-1, versions="12+")
    log_start_offset: int64 = field(default=-1, versions="5+", ignorable=True)
    partition_max_bytes: int32 = 0
    replica_directory_id: uuid = field(default=NIL_UUID, versions="17+", tag=0, ignorable=True)
    high_watermark: int64 = field(default=0x7FFF_FFFF_FFFF_FFFF, versions="18+", tag=1, ignorable=True)


@struct
class ForgottenTopic:
    topic: string = field(default="", versions="7-12", ignorable=True)
    topic_id: uuid = field(default=NIL_UUID, versions="13+", ignorable=True)
    partitions: list[int32] = field(default=[], versions="7+")


@message(key=1, versions="4-18", flexible="12+")
class FetchResponse:
    """Record batches with high watermark, last stable offset and aborted transactions."""

    throttle_time_ms: int32 = field(default=0, ignorable=True)
    error_code: int16 = field(default=0, versions="7+", ignorable=True)
    session_id: int32 = field(default=0, versions="7+")
    responses: list[FetchableTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = field(default=[], versions="16+", tag=0)


@struct
class FetchableTopicResponse:
    topic: string = field(default="", versions="0-12", ignorable=True)
    topic_id: uuid = field(default=NIL_UUID, versions="13+", ignorable=True)
    partitions: list[PartitionData] = []


@struct
class PartitionData:
    partition_index: int32 = 0
    error_code: int16 = 0
    high_watermark: int64 = 0
    last_stable_offset: int64 = field(default=-1, ignorable=True)
    log_start_offset: int64 = field(default=-1, versions="5+", ignorable=True)
    diverging_epoch: EpochEndOffset = field(default=FRESH, versions="12+", tag=0)
    current_leader: LeaderIdAndEpoch = field(default=FRESH, versions="12+", tag=1)
    snapshot_id: SnapshotId = field(default=FRESH, versions="12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = field(ignorable=True)
    preferred_read_replica: int32 = field(default=-1, versions="11+")
    records: raw_records | None = None


@struct
class EpochEndOffset:
    epoch: int32 = field(default=-1, versions="12+")
    end_offset: int64 = field(default=-1, versions="12+")


@struct
class LeaderIdAndEpoch:
    leader_id: int32 = field(default=-1, versions="12+")
    leader_epoch: int32 = field(default=-1, versions="12+")


@struct
class SnapshotId:
    end_offset: int64 = -1
    epoch: int32 = -1


@struct
class AbortedTransaction:
    producer_id: int64 = 0
    first_offset: int64 = 0


@struct
class NodeEndpoint:
    node_id: int32 = field(default=0, versions="16+")
    host: string = field(default="", versions="16+")
    port: int32 = field(default=0, versions="16+")
    rack: string | None = field(default=None, versions="16+")
