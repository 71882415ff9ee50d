"""The keyword arguments of Producer, Consumer and Admin for type checkers (`**options: Unpack[ProducerArguments]`).

Names and types are those of the dataclasses in `options.py`, where an option's default, bounds and meaning are
declared; a test holds the two equal. `bootstrap_servers` is missing because the constructors declare it themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from minikafka.client.assignor import Assignor
from minikafka.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from minikafka.client.options import (
    Acks,
    AssignorName,
    CompressionType,
    Deserializer,
    GroupProtocol,
    IsolationLevel,
    OffsetReset,
    Partitioner,
    RecoveryStrategy,
    SecurityProtocol,
    Serializer,
    StopAt,
)


class ClientArguments(TypedDict, total=False):
    """Options of every client; see `ClientOptions`."""

    client_id: str
    security_protocol: SecurityProtocol
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: RecoveryStrategy
    metadata_recovery_rebootstrap_trigger_ms: int
    allow_auto_create_topics: bool


class AdminArguments(ClientArguments, total=False):
    """Options of an Admin; see `AdminOptions`."""


class ProducerArguments(ClientArguments, total=False):
    """Options of a Producer; see `ProducerOptions`."""

    acks: Acks
    linger_ms: int
    batch_size: int
    compression_type: CompressionType
    compression_level: int | None
    max_request_size: int
    buffer_memory: int
    max_block_ms: int
    delivery_timeout_ms: int
    retries: int
    enable_idempotence: bool
    max_in_flight_requests_per_connection: int
    transactional_id: str | None
    transaction_timeout_ms: int
    partitioner: Partitioner | None
    key_serializer: Serializer | None
    value_serializer: Serializer | None
    interceptors: Sequence[ProducerInterceptor]


class ConsumerArguments(ClientArguments, total=False):
    """Options of a Consumer; see `ConsumerOptions`."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: GroupProtocol
    group_remote_assignor: str | None
    client_rack: str | None
    auto_offset_reset: OffsetReset
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: IsolationLevel
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    max_poll_interval_ms: int
    session_timeout_ms: int
    heartbeat_interval_ms: int
    partition_assignment_strategy: Sequence[AssignorName | Assignor]
    check_crcs: bool
    exclude_internal_topics: bool
    stop_at: StopAt | None
    key_deserializer: Deserializer | None
    value_deserializer: Deserializer | None
    interceptors: Sequence[ConsumerInterceptor]
