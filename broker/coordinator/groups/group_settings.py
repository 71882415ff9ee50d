"""GroupSettings: the broker settings that the group coordinator uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minikafka.protocol.records.compression import Codec

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Defaults are those of Kafka 4.3; Kafka's name follows each field."""

    session_timeout_min_ms: int = 6_000  # group.min.session.timeout.ms
    session_timeout_max_ms: int = 1_800_000  # group.max.session.timeout.ms
    initial_rebalance_delay_ms: int = 3_000  # group.initial.rebalance.delay.ms
    group_size_max: int = 2_147_483_647  # group.max.size
    metadata_size_max: int = 4_096  # offset.metadata.max.bytes
    commit_timeout_ms: int = 5_000  # offsets.commit.timeout.ms
    retention_ms: int = 10_080 * MINUTE_MS  # offsets.retention.minutes
    retention_check_interval_ms: int = 600_000  # offsets.retention.check.interval.ms
    load_buffer_size: int = 5_242_880  # offsets.load.buffer.size
    codec: Codec = Codec.NONE  # offsets.topic.compression.codec
    new_member_timeout_ms: int = 300_000
    """Session timeout of a new member while its first JoinGroup waits and it cannot send heartbeats."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> GroupSettings:
        """From a node's parsed settings, by Kafka's names."""
        return cls(
            session_timeout_min_ms=settings["group.min.session.timeout.ms"],
            session_timeout_max_ms=settings["group.max.session.timeout.ms"],
            initial_rebalance_delay_ms=settings["group.initial.rebalance.delay.ms"],
            group_size_max=settings["group.max.size"],
            metadata_size_max=settings["offset.metadata.max.bytes"],
            commit_timeout_ms=settings["offsets.commit.timeout.ms"],
            retention_ms=settings["offsets.retention.minutes"] * MINUTE_MS,
            retention_check_interval_ms=settings["offsets.retention.check.interval.ms"],
            load_buffer_size=settings["offsets.load.buffer.size"],
            codec=Codec(settings["offsets.topic.compression.codec"]),
        )
