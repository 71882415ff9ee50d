"""`GroupSettings`: the node settings of the group coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minikafka.protocol.records.compression import Codec
from minikafka.protocol.settings.dataclass_fields import from_values, setting_field
from minikafka.protocol.settings.registry import NODE_SETTINGS
from minikafka.protocol.settings.synonyms import MINUTE_MS


def _minutes_as_ms(minutes: int) -> int:
    return minutes * MINUTE_MS


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The node settings that classic groups and committed offsets depend on."""

    session_timeout_min_ms: int = setting_field(NODE_SETTINGS["group.min.session.timeout.ms"])
    session_timeout_max_ms: int = setting_field(NODE_SETTINGS["group.max.session.timeout.ms"])
    initial_rebalance_delay_ms: int = setting_field(NODE_SETTINGS["group.initial.rebalance.delay.ms"])
    group_size_max: int = setting_field(NODE_SETTINGS["group.max.size"])
    metadata_size_max: int = setting_field(NODE_SETTINGS["offset.metadata.max.bytes"])
    commit_timeout_ms: int = setting_field(NODE_SETTINGS["offsets.commit.timeout.ms"])
    retention_ms: int = setting_field(NODE_SETTINGS["offsets.retention.minutes"], _minutes_as_ms)
    retention_check_interval_ms: int = setting_field(NODE_SETTINGS["offsets.retention.check.interval.ms"])
    load_buffer_size: int = setting_field(NODE_SETTINGS["offsets.load.buffer.size"])
    codec: Codec = setting_field(NODE_SETTINGS["offsets.topic.compression.codec"], Codec)
    new_member_timeout_ms: int = 300_000
    """Session timeout of a new member while its first JoinGroup waits and it cannot send heartbeats."""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> GroupSettings:
        """From a node's parsed settings by name."""
        return from_values(cls, settings)
