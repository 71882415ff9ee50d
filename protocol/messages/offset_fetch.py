"""OffsetFetch, API key 9: fetches the committed offsets of groups.

Versions 1-10, flexible from 6 on (KIP-482).

- v2: null topics select all; error_code of the whole response.
- v5: leader epochs (KIP-320).
- v7: require_stable: UNSTABLE_OFFSET_COMMIT while a transaction is open (KIP-447).
- v8: many groups in one request (KIP-709).
- v9: member ids and epochs of the consumer protocol (KIP-848).
- v10: topic ids in place of names (KIP-848).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import NIL_UUID, int16, int32, int64, string, uuid


@message(key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest:
    """One group up to v7, many from v8 on; null topics select all."""

    group_id: string = field(default="", versions="0-7")
    topics: list[OffsetFetchRequestTopic] | None = field(default=[], versions="0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field(default=[], versions="8+")
    require_stable: bool = field(default=False, versions="7+")


@struct
class OffsetFetchRequestTopic:
    name: string = field(default="", versions="0-7")
    partition_indexes: list[int32] = field(default=[], versions="0-7")


@struct
class OffsetFetchRequestGroup:
    group_id: string = field(default="", versions="8+")
    member_id: string | None = field(default=None, versions="9+", ignorable=True)
    member_epoch: int32 = field(default=-1, versions="9+", ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(versions="8+")


@struct
class OffsetFetchRequestTopics:
    name: string = field(default="", versions="8-9", ignorable=True)
    topic_id: uuid = field(default=NIL_UUID, versions="10+", ignorable=True)
    partition_indexes: list[int32] = field(default=[], versions="8+")


@message(key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse:
    """Committed offsets; -1 if there is none."""

    throttle_time_ms: int32 = field(default=0, versions="3+", ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field(default=[], versions="0-7")
    error_code: int16 = field(default=0, versions="2-7", ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field(default=[], versions="8+")


@struct
class OffsetFetchResponseTopic:
    name: string = field(default="", versions="0-7")
    partitions: list[OffsetFetchResponsePartition] = field(default=[], versions="0-7")


@struct
class OffsetFetchResponsePartition:
    partition_index: int32 = field(default=0, versions="0-7")
    committed_offset: int64 = field(default=0, versions="0-7")
    committed_leader_epoch: int32 = field(default=-1, versions="5-7", ignorable=True)
    metadata: string | None = field(versions="0-7")
    error_code: int16 = field(default=0, versions="0-7")


@struct
class OffsetFetchResponseGroup:
    group_id: string = field(default="", versions="8+")
    topics: list[OffsetFetchResponseTopics] = field(default=[], versions="8+")
    error_code: int16 = field(default=0, versions="8+")


@struct
class OffsetFetchResponseTopics:
    name: string = field(default="", versions="8-9", ignorable=True)
    topic_id: uuid = field(default=NIL_UUID, versions="10+", ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field(default=[], versions="8+")


@struct
class OffsetFetchResponsePartitions:
    partition_index: int32 = field(default=0, versions="8+")
    committed_offset: int64 = field(default=0, versions="8+")
    committed_leader_epoch: int32 = field(default=-1, versions="8+", ignorable=True)
    metadata: string | None = field(versions="8+")
    error_code: int16 = field(default=0, versions="8+")
