"""Small files in Kafka's text formats, whole or not at all.

A checkpoint is text: version, number of entries, one entry a line (Kafka's `CheckpointFile`). It is written
beside itself, synced and renamed. What cannot be read is never trusted: `BrokenCheckpoint`, and the caller
falls back to what is always safe (recovery from offset 0, epochs rebuilt from the batches).
"""

import json
import re
from collections.abc import Iterable, Mapping

from minikafka.protocol.names import TopicPartition, uuid_from_text, uuid_text
from minikafka.storage.disk import Disk

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
    """The file is there, but does not hold what it should."""


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """`topic partition offset` a line; empty where the file is absent. Raises BrokenCheckpoint."""
    offsets: dict[TopicPartition, int] = {}
    data = _read(disk, path)
    for line in [] if data is None else _lines(path, data):
        topic, partition, offset = _fields(path, line, 3)
        offsets[TopicPartition(topic, _number(path, partition))] = _number(path, offset)
    return offsets


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Synced. Raises OSError."""
    _write_lines(disk, path, [f"{key.topic} {key.partition} {offset}" for key, offset in offsets.items()])


def read_epochs(disk: Disk, path: str) -> list[tuple[int, int]] | None:
    """(Leader epoch, start offset) in order; None where the file is absent. Raises BrokenCheckpoint."""
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
        raise BrokenCheckpoint(f"{path} does not begin with version {_VERSION} and a count")
    entries = lines[2:-1]
    if lines[-1] or _number(path, lines[1]) != len(entries):
        raise BrokenCheckpoint(f"{path} promises {lines[1]} entries and has {len(entries)}")
    return entries


def _write_lines(disk: Disk, path: str, entries: list[str], *, sync: bool = True) -> None:
    lines = [_VERSION, str(len(entries)), *entries, ""]
    disk.write_atomically(path, "\n".join(lines).encode(), sync=sync)


def _fields(path: str, line: str, count: int) -> list[str]:
    fields = line.split()
    if len(fields) != count:
        raise BrokenCheckpoint(f"{path} has a line that is no entry: {line!r}")
    return fields


def _number(path: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise BrokenCheckpoint(f"{path} has {text!r} where a number should be")
    return int(text)


def read_topic_id(disk: Disk, path: str) -> bytes | None:
    """The topic id of `partition.metadata`, 16 bytes; None where the file is absent. Raises
    BrokenCheckpoint."""
    data = _read(disk, path)
    if data is None:
        return None
    found = re.fullmatch(r"version: 0\ntopic_id: ([A-Za-z0-9_-]{22})\n?", data.decode("latin-1"))
    if found is None:
        raise BrokenCheckpoint(f"{path} does not name a topic id")
    return uuid_from_text(found[1])


def write_topic_id(disk: Disk, path: str, topic_id: bytes, *, sync: bool) -> None:
    disk.write_atomically(path, f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode(), sync=sync)


def read_clean_shutdown(disk: Disk, path: str) -> int | None:
    """The broker epoch that the node had when it shut down cleanly; -1 where the marker is there but does
    not tell, None where there is no marker (Kafka's `CleanShutdownFileHandler`)."""
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
    """`meta.properties` (`name=value` a line, `#` begins a comment); None where the file is absent.

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
    """Synced; `:`, `=`, `#`, `!` and `\\` in values are escaped as Java's Properties do."""
    lines = [f"{name}={_SPECIAL.sub(_ESCAPED, value)}" for name, value in properties.items()]
    disk.write_atomically(path, "\n".join(["#", *lines, ""]).encode("latin-1"))
