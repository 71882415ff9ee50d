"""TxnOffsetCommit, API key 28: commits offsets as part of a transaction (KIP-98).

Versions 0-5, flexible from 3 on (KIP-482).

- v2: leader epochs (KIP-320).
- v3: member_id, group_instance_id and generation_id, to fence zombies (KIP-447).
- v4: TRANSACTION_ABORTABLE may be returned (KIP-890).
- v5: AddOffsetsToTxn is not required before it (KIP-890).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import int16, int32, int64, string


@message(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest:
    """Commits offsets of a group as part of a transaction, with the producer id and epoch."""

    transactional_id: string = ""
    group_id: string = ""
    producer_id: int64 = 0
    producer_epoch: int16 = 0
    generation_id: int32 = field(default=-1, versions="3+")
    member_id: string = field(default="", versions="3+")
    group_instance_id: string | None = field(default=None, versions="3+")
    topics: list[TxnOffsetCommitRequestTopic] = []


@struct
class TxnOffsetCommitRequestTopic:
    name: string = ""
    partitions: list[TxnOffsetCommitRequestPartition] = []


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: int32 = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = field(default=-1, versions="2+", ignorable=True)
    committed_metadata: string | None


@message(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse:
    """An error code per partition."""

    throttle_time_ms: int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = []


@struct
class TxnOffsetCommitResponseTopic:
    name: string = ""
    partitions: list[TxnOffsetCommitResponsePartition] = []


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: int32 = 0
    error_code: int16 = 0
