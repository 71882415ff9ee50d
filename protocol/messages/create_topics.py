"""CreateTopics, API key 19: creates topics.

Versions 2-7, flexible from 5 on (KIP-482).

- v4: counts may be -1 (KIP-464).
- v5: the response contains counts and settings (KIP-525).
- v6: THROTTLING_QUOTA_EXCEEDED may be returned (KIP-599).
- v7: topic ids (KIP-516).
"""

from __future__ import annotations

from minikafka.protocol.message import field, message, struct
from minikafka.protocol.types import NIL_UUID, int8, int16, int32, string, uuid


@message(key=19, versions="2-7", flexible="5+")
class CreateTopicsRequest:
    """Partitions and replicas as counts (-1: the cluster's default) or as an assignment."""

    topics: list[CreatableTopic] = []
    timeout_ms: int32 = 60000
    validate_only: bool = False


@struct
class CreatableTopic:
    name: string = ""
    num_partitions: int32 = 0
    replication_factor: int16 = 0
    assignments: list[CreatableReplicaAssignment] = []
    configs: list[CreatableTopicConfig] = []


@struct
class CreatableReplicaAssignment:
    partition_index: int32 = 0
    broker_ids: list[int32] = []


@struct
class CreatableTopicConfig:
    name: string = ""
    value: string | None


@message(key=19, versions="2-7", flexible="5+")
class CreateTopicsResponse:
    """A result per topic, with its effective settings."""

    throttle_time_ms: int32 = field(default=0, ignorable=True)
    topics: list[CreatableTopicResult] = []


@struct
class CreatableTopicResult:
    name: string = ""
    topic_id: uuid = field(default=NIL_UUID, versions="7+", ignorable=True)
    error_code: int16 = 0
    error_message: string | None = field(ignorable=True)
    topic_config_error_code: int16 = field(default=0, versions="5+", tag=0, ignorable=True)
    num_partitions: int32 = field(default=-1, versions="5+", ignorable=True)
    replication_factor: int16 = field(default=-1, versions="5+", ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field(default=[], versions="5+", ignorable=True)


@struct
class CreatableTopicConfigs:
    name: string = field(default="", versions="5+")
    value: string | None = field(versions="5+")
    read_only: bool = field(default=False, versions="5+")
    config_source: int8 = field(default=-1, versions="5+", ignorable=True)
    is_sensitive: bool = field(default=False, versions="5+")
