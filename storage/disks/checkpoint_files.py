"""Reads and writes checkpoint files, `meta.properties`, `partition.metadata` and `.kafka_cleanshutdown`.

A checkpoint is a text file: version, number of entries, one entry per line (Kafka's `CheckpointFile`). A checkpoint is
written to a temporary file, which is flushed and renamed. Reading an invalid file raises `BrokenCheckpoint`, and the
caller falls back to a safe value (recovery from offset 0, leader epochs rebuilt from the batches).
"""

import json
import re
from collections.abc import Iterable, Mapping

from minikafka.protocol.names import TopicPartition, uuid_from_text, uuid_text
from minikafka.storage.disks.disk import Disk

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
_VERSION = "0"
_SPECIAL = re.compile(r"([:=#!\\])")
_ESCAPED = r"\\\1"


class BrokenCheckpoint(ValueError):
    """A file exists, but its content is invalid."""


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Reads a checkpoint with lines of `topic partition offset`; a missing file counts as empty.

    Raises BrokenCheckpoint.
    """
    offsets: dict[TopicPartition, int] = {}
    data = _read(disk, path)
    for line in [] if data is None else _lines(path, data):
        topic, partition, offset = _fields(path, line, 3)
        offsets[TopicPartition(topic, _number(path, partition))] = _number(path, offset)
    return offsets


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Writes and flushes a checkpoint with lines of `topic partition offset`. Raises OSError."""
    _write_lines(disk, path, [f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items()])


def read_epochs(disk: Disk, path: str) -> list[tuple[int, int]] | None:
    """Returns (leader epoch, start offset) in order; None for a missing file. Raises BrokenCheckpoint."""
    entries: list[tuple[int, int]] = []
    data = _read(disk, path)
    if data is None:
        return None
    for line in _lines(path, data):
        epoch, offset = _fields(path, line, 2)
        entries.append((_number(path, epoch), _number(path, offset)))
    return entries


def write_epochs(disk: Disk, path: str, entries: Iterable[tuple[int, int]], *, sync: bool) -> None:
    _write_lines(disk, path, [f"{epoch} {offset}" for epoch, offset in entries], sync=sync)


def _read(disk: Disk, path: str) -> bytes | None:
    try:
        return disk.read_bytes(path)
    except FileNotFoundError:
        return None


def _lines(path: str, data: bytes) -> list[str]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise BrokenCheckpoint(f"{path} is not text") from None
    lines = text.split("\n")
    if len(lines) < 3 or lines[0] != _VERSION:
        raise BrokenCheckpoint(f"{path} does not start with version {_VERSION} and a number of entries")
    entries = lines[2:-1]
    if lines[-1] or _number(path, lines[1]) != len(entries):
        raise BrokenCheckpoint(f"{path} has {len(entries)} entries, expected {lines[1]}")
    return entries


def _write_lines(disk: Disk, path: str, entries: list[str], *, sync: bool = True) -> None:
    lines = [_VERSION, str(len(entries)), *entries, ""]
    disk.write_atomically(path, "\n".join(lines).encode(), sync=sync)


def _fields(path: str, line: str, count: int) -> list[str]:
    fields = line.split()
    if len(fields) != count:
        raise BrokenCheckpoint(f"{path} has an invalid entry: {line!r}")
    return fields


def _number(path: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise BrokenCheckpoint(f"{path} has {text!r} instead of a number")
    return int(text)


def read_topic_id(disk: Disk, path: str) -> bytes | None:
    """Returns the topic id in `partition.metadata`, 16 bytes; None for a missing file. Raises BrokenCheckpoint."""
    data = _read(disk, path)
    if data is None:
        return None
    found = re.fullmatch(r"version: 0\ntopic_id: ([A-Za-z0-9_-]{22})\n?", data.decode("latin-1"))
    if found is None:
        raise BrokenCheckpoint(f"{path} has no valid topic id")
    return uuid_from_text(found[1])


def write_topic_id(disk: Disk, path: str, topic_id: bytes, *, sync: bool) -> None:
    disk.write_atomically(path, f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode(), sync=sync)


def read_clean_shutdown(disk: Disk, path: str) -> int | None:
    """Returns the broker epoch at the last clean shutdown; -1 if the file does not contain it, None for a missing file
    (Kafka's `CleanShutdownFileHandler`)."""
    data = _read(disk, path)
    if data is None:
        return None
    try:
        found = json.loads(data)
        return found["brokerEpoch"] if found["version"] == 0 else -1
    except (ValueError, KeyError, TypeError):
        return -1


def write_clean_shutdown(disk: Disk, path: str, broker_epoch: int) -> None:
    disk.write_atomically(path, f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode())


def read_properties(disk: Disk, path: str) -> dict[str, str] | None:
    """Reads `meta.properties` (lines of `name=value`, comments start with `#`); None for a missing file.

    Raises BrokenCheckpoint.
    """
    properties: dict[str, str] = {}
    data = _read(disk, path)
    if data is None:
        return None
    for line in data.decode("latin-1").splitlines():
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        name, found, value = line.partition("=")
        if not found:
            raise BrokenCheckpoint(f"{path} has a line without '=': {line!r}")
        properties[name.strip()] = re.sub(r"\\(.)", r"\1", value.strip())
    return properties


def write_properties(disk: Disk, path: str, properties: Mapping[str, str]) -> None:
    """Writes and flushes `meta.properties`; escapes `:`, `=`, `#`, `!` and `\\` in values like Java's Properties."""
    lines = [f"{name}={_SPECIAL.sub(_ESCAPED, value)}" for name, value in properties.items()]
    disk.write_atomically(path, "\n".join(["#", *lines, ""]).encode("latin-1"))
