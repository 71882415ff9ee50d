"""`GroupSettings`: the node settings of the group coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from minikafka.protocol.records.compression import Codec
from minikafka.protocol.settings.dataclass_fields import from_values, setting_field
from minikafka.protocol.settings.registry import NODE_SETTINGS
from minikafka.protocol.settings.synonyms import MINUTE_MS


def _minutes_as_ms(minutes: int) -> int:
    return minutes * MINUTE_MS


def _policy(name: str) -> MigrationPolicy:
    return MigrationPolicy(name.lower())


RECORDS_OF_A_GROUP = 16
"""The data of all members of a classic group may have so many times the size of the largest record."""
RECORD_SIZE_BYTES = 1 << 20


class MigrationPolicy(StrEnum):
    """Whether groups with members are converted between the protocols (`group.consumer.migration.policy`)."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    UPGRADE = "upgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class ConsumerGroupTimes(NamedTuple):
    """The times of a consumer group, which its own settings can change."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int

    @classmethod
    def of_group(cls, settings: Mapping[str, Any]) -> ConsumerGroupTimes:
        """Make the times from the parsed settings of a group, by name."""
        return cls(
            settings["consumer.session.timeout.ms"],
            settings["consumer.heartbeat.interval.ms"],
            settings["consumer.assignment.interval.ms"],
        )

    @classmethod
    def of_node(cls, settings: Mapping[str, Any]) -> ConsumerGroupTimes:
        """Make the times from the parsed settings of a node, by name."""
        return cls(
            settings["group.consumer.session.timeout.ms"],
            settings["group.consumer.heartbeat.interval.ms"],
            settings["group.consumer.assignment.interval.ms"],
        )


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The node settings that groups and committed offsets depend on."""

    session_timeout_min_ms: int = setting_field(NODE_SETTINGS["group.min.session.timeout.ms"])
    session_timeout_max_ms: int = setting_field(NODE_SETTINGS["group.max.session.timeout.ms"])
    initial_rebalance_delay_ms: int = setting_field(NODE_SETTINGS["group.initial.rebalance.delay.ms"])
    group_size_max: int = setting_field(NODE_SETTINGS["group.max.size"])
    record_size_max: int = setting_field(NODE_SETTINGS["message.max.bytes"])
    metadata_size_max: int = setting_field(NODE_SETTINGS["offset.metadata.max.bytes"])
    commit_timeout_ms: int = setting_field(NODE_SETTINGS["offsets.commit.timeout.ms"])
    retention_ms: int = setting_field(NODE_SETTINGS["offsets.retention.minutes"], _minutes_as_ms)
    retention_check_interval_ms: int = setting_field(NODE_SETTINGS["offsets.retention.check.interval.ms"])
    load_buffer_size: int = setting_field(NODE_SETTINGS["offsets.load.buffer.size"])
    partitions: int = setting_field(NODE_SETTINGS["offsets.topic.num.partitions"])
    codec: Codec = setting_field(NODE_SETTINGS["offsets.topic.compression.codec"], Codec)
    rebalance_protocols: tuple[str, ...] = setting_field(NODE_SETTINGS["group.coordinator.rebalance.protocols"], tuple)
    assignors: tuple[str, ...] = setting_field(NODE_SETTINGS["group.consumer.assignors"], tuple)
    consumer_group_size_max: int = setting_field(NODE_SETTINGS["group.consumer.max.size"])
    consumer_session_timeout_ms: int = setting_field(NODE_SETTINGS["group.consumer.session.timeout.ms"])
    consumer_heartbeat_interval_ms: int = setting_field(NODE_SETTINGS["group.consumer.heartbeat.interval.ms"])
    consumer_assignment_interval_ms: int = setting_field(NODE_SETTINGS["group.consumer.assignment.interval.ms"])
    migration_policy: MigrationPolicy = setting_field(NODE_SETTINGS["group.consumer.migration.policy"], _policy)
    new_member_timeout_ms: int = 300_000
    """Session timeout of a new member while its first JoinGroup waits and it cannot send heartbeats."""

    @property
    def group_size_bytes_max(self) -> int:
        """The largest size of the data that all members of a classic group give in JoinGroup, in bytes.

        The group's record has only the data of one protocol.
        """
        return RECORDS_OF_A_GROUP * max(self.record_size_max, RECORD_SIZE_BYTES)

    @property
    def consumer_times(self) -> ConsumerGroupTimes:
        """The times of consumer groups without settings of their own."""
        return ConsumerGroupTimes(
            self.consumer_session_timeout_ms, self.consumer_heartbeat_interval_ms, self.consumer_assignment_interval_ms
        )

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> GroupSettings:
        """Make the settings from the parsed settings of a node, by name."""
        return from_values(cls, settings)
