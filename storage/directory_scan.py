"""Finds the logs in the data directories before any is opened, and those that are in two of them.

Two logs of one partition with different topic ids belong to topics of the same name, one of which was deleted while its
directory was offline: the metadata decide which of them is current, and the others are strays. So is a log without a
topic id that was never flushed, as the id becomes durable with the first flush (Kafka's `LogManager.isStrayReplica`).
Of two logs with the same topic id, and of two without one that were flushed, nobody knows which one is current, and the
node must not guess.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from minikafka.protocol.names import TopicPartition
from minikafka.storage.checkpoint_files import PARTITION_METADATA, BrokenCheckpoint, read_topic_id
from minikafka.storage.data_directory import DataDirectory, DuplicateLog, WrongDirectory
from minikafka.storage.disk import Disk

__all__ = [
    "DELETED",
    "FUTURE",
    "FUTURE_MARKER",
    "STRAY",
    "Content",
    "Rivals",
    "check_duplicates",
    "check_ids",
    "claim",
    "content_of",
    "parse_directory_name",
    "rivals_in",
    "topic_id_in",
]

DELETED, STRAY, FUTURE = "-delete", "-stray", "-future"
FUTURE_MARKER = ".future"
"""A file in a log that is a copy while the partition has another log."""
Rivals = dict[TopicPartition, dict[str, bytes | None]]
"""Topic ids by path of a data directory, by partition."""


@dataclass(slots=True)
class Content:
    """What is in a data directory.

    Attributes:
        logs: the topic id of each log; None where it is missing.
        unflushed: those of them without a topic id that were never flushed.
        futures: the path of each future log.
        deleted, strays: paths of logs that were deleted, and of those that were set aside.
    """

    logs: dict[TopicPartition, bytes | None] = field(default_factory=dict)
    unflushed: set[TopicPartition] = field(default_factory=set)
    futures: dict[TopicPartition, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)

    def add_future(self, key: TopicPartition, path: str) -> None:
        """A future log; a second one of the same partition is deleted: it was, and a power failure brought it back."""
        if key in self.futures:
            self.deleted.append(path)
        else:
            self.futures[key] = path


def content_of(disk: Disk, directory: DataDirectory, *, without: str) -> Content:
    """Lists a directory; skips the logs of the topic `without`. Raises OSError."""
    content = Content()
    for name in disk.list(directory.path):
        path = f"{directory.path}/{name}"
        key = parse_directory_name(name)
        is_other = name.endswith((DELETED, STRAY))
        future = parse_directory_name(name.rpartition(".")[0]) if name.endswith(FUTURE) else None
        if future is not None and disk.is_directory(path):
            content.add_future(future, path)
        if not (is_other or (key is not None and key.topic != without)) or not disk.is_directory(path):
            continue
        if is_other:
            (content.deleted if name.endswith(DELETED) else content.strays).append(path)
        elif key is not None and disk.exists(f"{path}/{FUTURE_MARKER}"):
            content.add_future(key, path)
        elif key is not None:
            content.logs[key] = topic_id_in(disk, path)
            if content.logs[key] is None and not directory.recovery_points.get(key, 0):
                content.unflushed.add(key)
    return content


def topic_id_in(disk: Disk, path: str) -> bytes | None:
    """The topic id that the `partition.metadata` of a log names; None without a valid one. Raises OSError."""
    try:
        return read_topic_id(disk, f"{path}/{PARTITION_METADATA}")
    except BrokenCheckpoint:
        return None


def claim(disk: Disk, directory: DataDirectory, key: TopicPartition, topic_id: bytes | None) -> int:
    """How much the log in a directory, open or not, is that of a topic: 2 by its topic id, 1 without one, else 0.

    A log that has lost its topic id is the topic's only if it was flushed: `partition.metadata` becomes durable with
    the first flush, so that a power failure may lose it and keep records, which may be those of a deleted topic.
    Raises OSError.
    """
    log = directory.logs.get(key)
    owner = topic_id_in(disk, f"{directory.path}/{key}") if log is None else log.topic_id
    if owner is not None or topic_id is None:
        return 2 if owner == topic_id and topic_id is not None else 0
    was_flushed = directory.recovery_points.get(key, 0) > 0 if log is None else not log.has_lost_id
    return int(was_flushed)


def check_ids(directories: Sequence[DataDirectory]) -> None:
    """Raises WrongDirectory: two directories have the same id."""
    paths: dict[bytes, str] = {}
    for directory in directories:
        other = paths.setdefault(directory.id, directory.path)
        if other != directory.path:
            raise WrongDirectory(
                f"{other} and {directory.path} have the same directory.id in meta.properties: one is a copy of the "
                "other; remove the copy from log.dirs"
            )


def rivals_in(contents: Mapping[str, Content]) -> Rivals:
    """The partitions with a log in several directories; `contents` is by path. Raises DuplicateLog."""
    found: Rivals = {}
    for path, content in contents.items():
        for key, topic_id in content.logs.items():
            found.setdefault(key, {})[path] = topic_id
    for key, topic_ids in found.items():
        check_duplicates(key, {path: one for path, one in topic_ids.items() if key not in contents[path].unflushed})
    return {key: topic_ids for key, topic_ids in found.items() if len(topic_ids) > 1}


def check_duplicates(key: TopicPartition, found: Mapping[str, bytes | None]) -> None:
    """Refuses logs of one partition that their topic ids do not tell apart.

    Args:
        key: the partition.
        found: topic id by data directory, of those that may be current.

    Raises:
        DuplicateLog: two are of the same topic, or the ids of two are missing.
    """
    known: dict[bytes | None, str] = {}
    for path, topic_id in found.items():
        other = known.get(topic_id)
        if other is not None:
            raise DuplicateLog(
                f"Duplicate log directories for {key} are found in both {path}/{key} and {other}/{key}. One directory "
                "was probably missing while the broker ran: move one of the two logs to another place, usually that "
                "in the directory that was missing or has failed"
            )
        known[topic_id] = path


def parse_directory_name(name: str) -> TopicPartition | None:
    """Returns the partition of a log directory with this name, None for other names."""
    topic, found, partition = name.rpartition("-")
    if not found or not topic or not (partition.isascii() and partition.isdigit()):
        return None
    return TopicPartition(topic, int(partition))
