"""The data directories of a node, the directory of its metadata log, and that log's configuration. Pure."""

from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.storage.log_config import LogConfig

__all__ = ["data_directories", "metadata_directory", "metadata_log_config"]


def data_directories(static: StaticSettings) -> list[str]:
    """The data directories: `log.dirs`, or `log.dir` if `log.dirs` is not set."""
    named = static.value("log.dirs")
    found = static.value("log.dir") if named is None else named
    assert isinstance(found, tuple), "log.dir has a default"
    return list(found)


def metadata_directory(static: StaticSettings) -> str:
    """The directory that contains `__cluster_metadata-0`: `metadata.log.dir`, or the first data directory."""
    named = static.value("metadata.log.dir")
    return named if isinstance(named, str) else data_directories(static)[0]


def metadata_log_config(static: StaticSettings) -> LogConfig:
    """The configuration of the metadata log. Only snapshots make segments obsolete: retention is off."""
    return LogConfig(
        segment_bytes=static.number("metadata.log.segment.bytes"),
        segment_ms=static.number("metadata.log.segment.ms"),
        retention_ms=-1,
        retention_bytes=-1,
        file_delete_delay_ms=0,
    )
