"""`LogConfig`: the topic configs that a log uses."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from minikafka.protocol.settings.dataclass_fields import from_values, setting_field
from minikafka.protocol.settings.registry import NODE_SETTINGS, TOPIC_SETTINGS

INDEX_INTERVAL_BYTES_MAX = 1 << 20
"""A read looks at the header of each batch between two entries: up to 15,000, which takes about 10 ms."""
PRODUCER_EXPIRATION_MS = NODE_SETTINGS["producer.id.expiration.ms"].default_number


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The configs of one log, named like Kafka's topic configs, with underscores in place of dots.

    Sizes are in bytes. For `retention_ms` and `retention_bytes`, -1 means no limit.
    """

    cleanup_policy: tuple[str, ...] = setting_field(TOPIC_SETTINGS["cleanup.policy"])
    compression_gzip_level: int = setting_field(TOPIC_SETTINGS["compression.gzip.level"])
    compression_lz4_level: int = setting_field(TOPIC_SETTINGS["compression.lz4.level"])
    compression_type: str = setting_field(TOPIC_SETTINGS["compression.type"])
    compression_zstd_level: int = setting_field(TOPIC_SETTINGS["compression.zstd.level"])
    delete_retention_ms: int = setting_field(TOPIC_SETTINGS["delete.retention.ms"])
    file_delete_delay_ms: int = setting_field(TOPIC_SETTINGS["file.delete.delay.ms"])
    flush_messages: int = setting_field(TOPIC_SETTINGS["flush.messages"])
    flush_ms: int = setting_field(TOPIC_SETTINGS["flush.ms"])
    index_interval_bytes: int = setting_field(TOPIC_SETTINGS["index.interval.bytes"])
    max_compaction_lag_ms: int = setting_field(TOPIC_SETTINGS["max.compaction.lag.ms"])
    max_message_bytes: int = setting_field(TOPIC_SETTINGS["max.message.bytes"])
    message_timestamp_after_max_ms: int = setting_field(TOPIC_SETTINGS["message.timestamp.after.max.ms"])
    message_timestamp_before_max_ms: int = setting_field(TOPIC_SETTINGS["message.timestamp.before.max.ms"])
    message_timestamp_type: str = setting_field(TOPIC_SETTINGS["message.timestamp.type"])
    min_cleanable_dirty_ratio: float = setting_field(TOPIC_SETTINGS["min.cleanable.dirty.ratio"])
    min_compaction_lag_ms: int = setting_field(TOPIC_SETTINGS["min.compaction.lag.ms"])
    min_insync_replicas: int = setting_field(TOPIC_SETTINGS["min.insync.replicas"])
    preallocate: bool = setting_field(TOPIC_SETTINGS["preallocate"])
    retention_bytes: int = setting_field(TOPIC_SETTINGS["retention.bytes"])
    retention_ms: int = setting_field(TOPIC_SETTINGS["retention.ms"])
    segment_bytes: int = setting_field(TOPIC_SETTINGS["segment.bytes"])
    segment_index_bytes: int = setting_field(TOPIC_SETTINGS["segment.index.bytes"])
    segment_jitter_ms: int = setting_field(TOPIC_SETTINGS["segment.jitter.ms"])
    segment_ms: int = setting_field(TOPIC_SETTINGS["segment.ms"])

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> "LogConfig":
        """Creates the config from parsed values by Kafka's names. Missing and null values have their defaults.

        The interval of index entries is at most `INDEX_INTERVAL_BYTES_MAX`.
        """
        internal = settings.get("internal.segment.bytes")
        if internal is not None:
            settings = {**settings, "segment.bytes": internal}
        config = from_values(cls, settings)
        return replace(config, index_interval_bytes=min(config.index_interval_bytes, INDEX_INTERVAL_BYTES_MAX))

    @property
    def only_compacts(self) -> bool:
        """Whether the log is compacted and never deletes segments by time or size."""
        return self.compacts and not self.deletes

    @property
    def deletes(self) -> bool:
        """Whether old segments are deleted by time and size."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Whether the log keeps only the last record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def segment_ms_max(self) -> int:
        """`segment.ms`; in a compacted log also `max.compaction.lag.ms`, since the active segment is not cleaned."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms
