"""The topic settings that a log acts on."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

_LONG_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of one log, named as Kafka's topic settings with underscores; the defaults are Kafka's.

    Sizes are bytes; -1 for `retention_ms` and `retention_bytes` means no limit.
    """

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _LONG_MAX
    flush_ms: int = _LONG_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = _LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = _LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> "LogConfig":
        """From parsed values by Kafka's names (`segment.bytes`); others are left aside, absent ones keep
        their default."""
        found = {one.name: settings.get(one.name.replace("_", ".")) for one in fields(cls)}
        return cls(**{name: value for name, value in found.items() if value is not None})  # type: ignore[arg-type]

    @property
    def only_compacts(self) -> bool:
        """Whether records must not be deleted by their place, as the cleaner keeps the last of each key."""
        return "compact" in self.cleanup_policy and not self.deletes

    @property
    def deletes(self) -> bool:
        """Whether old segments go by time and size."""
        return "delete" in self.cleanup_policy
