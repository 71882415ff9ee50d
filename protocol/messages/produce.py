"""Produce, API key 0: appends record batches to partitions.

Versions 3-13, flexible from 9 on (KIP-482).

- v3: record batches of magic 2, transactional ids (KIP-98).
- v4: KAFKA_STORAGE_ERROR may be returned (KIP-112).
- v5: log_start_offset in the response (KIP-107).
- v7: zstd may be used (KIP-110).
- v8: record_errors and error_message (KIP-467).
- v10: the current leader is returned with NOT_LEADER_OR_FOLLOWER (KIP-951).
- v11, v12: transactions, version 2 (KIP-890).
- v13: topic ids in place of names (KIP-516).
"""

from __future__ import annotations

from minikafka.protocol.message import FRESH, field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, int64, string, uuid
from minikafka.protocol.types import records as raw_records


@message(key=0, versions="3-13", flexible="9+")
class ProduceRequest:
    """Record batches per partition, and the required acks."""

    transactional_id: string | None = None
    acks: int16 = 0
    timeout_ms: int32 = 0
    topic_data: list[TopicProduceData] = []


@struct
class TopicProduceData:
    name: string = field(default="", versions="0-12", ignorable=True)
    topic_id: uuid = field(default=NIL_UUID, versions="13+", ignorable=True)
    partition_data: list[PartitionProduceData] = []


@struct
class PartitionProduceData:
    index: int32 = 0
    records: raw_records | None = None


@message(key=0, versions="3-13", flexible="9+")
class ProduceResponse:
    """The base offset or the error of each partition."""

    responses: list[TopicProduceResponse] = []
    throttle_time_ms: int32 = field(default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field(default=[], versions="10+", tag=0)


@struct
class TopicProduceResponse:
    name: string = field(default="", versions="0-12", ignorable=True)
    topic_id: uuid = field(default=NIL_UUID, versions="13+", ignorable=True)
    partition_responses: list[PartitionProduceResponse] = []


@struct
class PartitionProduceResponse:
    index: int32 = 0
    error_code: int16 = 0
    base_offset: int64 = 0
    log_append_time_ms: int64 = field(default=-1, ignorable=True)
    log_start_offset: int64 = field(default=-1, versions="5+", ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field(default=[], versions="8+", ignorable=True)
    error_message: string | None = field(default=None, versions="8+", ignorable=True)
    current_leader: LeaderIdAndEpoch = field(default=FRESH, versions="10+", tag=0)


@struct
class BatchIndexAndErrorMessage:
    batch_index: int32 = field(default=0, versions="8+")
    batch_index_error_message: string | None = field(default=None, versions="8+")


@struct
class LeaderIdAndEpoch:
    leader_id: int32 = field(default=-1, versions="10+")
    leader_epoch: int32 = field(default=-1, versions="10+")


@struct
class NodeEndpoint:
    node_id: int32 = field(default=0, versions="10+")
    host: string = field(default="", versions="10+")
    port: int32 = field(default=0, versions="10+")
    rack: string | None = field(default=None, versions="10+")
