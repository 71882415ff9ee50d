"""Finds the logs in the data directories before any log is opened, and the partitions with several logs.

Two logs of one partition with different topic ids belong to topics of the same name, one of which was deleted while its
directory was offline. The metadata decides which log is current; the other logs are strays. A log without a topic id
that was never flushed is a stray, too, since the id becomes durable with the first flush (Kafka's
`LogManager.isStrayReplica`). If two logs have the same topic id, or both were flushed and have no topic id, it is
unknown which log is current, and the node must not guess.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.data_directory import DataDirectory
from minikafka.storage.directories.directory_identity import DuplicateLog, WrongDirectory
from minikafka.storage.disks.checkpoint_files import PARTITION_METADATA, BrokenCheckpoint, read_topic_id
from minikafka.storage.disks.disk import Disk

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
"""The name of a file in the directory of a future log: the log is a copy as long as the partition has another log."""
Rivals = dict[TopicPartition, dict[str, bytes | None]]
"""By partition with several logs: the topic id of each log, by path of its data directory."""


@dataclass(slots=True)
class Content:
    """The logs that were found in a data directory.

    Attributes:
        logs: by partition, the topic id of the log; None if the id is missing.
        unflushed: the partitions of `logs` whose log has no topic id and was never flushed.
        futures: by partition, the path of the future log.
        deleted, strays: the paths of deleted logs, and of logs that were set aside.
    """

    logs: dict[TopicPartition, bytes | None] = field(default_factory=dict)
    unflushed: set[TopicPartition] = field(default_factory=set)
    futures: dict[TopicPartition, str] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)

    def add_future(self, key: TopicPartition, path: str) -> None:
        """Adds a future log. A second one of a partition counts as deleted: a power failure has brought it back."""
        if key in self.futures:
            self.deleted.append(path)
        else:
            self.futures[key] = path


def content_of(disk: Disk, directory: DataDirectory, *, without: str) -> Content:
    """Lists the logs in a directory, without the logs of the topic `without`. Raises OSError."""
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
            if content.logs[key] is None and not directory.checkpoints.recovery_points.offsets.get(key, 0):
                content.unflushed.add(key)
    return content


def topic_id_in(disk: Disk, path: str) -> bytes | None:
    """The topic id that the `partition.metadata` of a log names; None without a valid one. Raises OSError."""
    try:
        return read_topic_id(disk, f"{path}/{PARTITION_METADATA}")
    except BrokenCheckpoint:
        return None


def claim(disk: Disk, directory: DataDirectory, key: TopicPartition, topic_id: bytes | None) -> int:
    """Ranks how surely the log in a directory, open or not, belongs to a topic.

    Returns 2 if the log has the topic's id, 1 if it has lost its topic id but was flushed, and otherwise 0. A log
    without a topic id that was never flushed may have the records of a deleted topic: `partition.metadata` becomes
    durable with the first flush, so that a power failure may lose that file and keep records. Raises OSError.
    """
    log = directory.logs.get(key)
    owner = topic_id_in(disk, f"{directory.path}/{key}") if log is None else log.topic_id
    if owner is not None or topic_id is None:
        return 2 if owner == topic_id and topic_id is not None else 0
    was_flushed = directory.checkpoints.recovery_points.offsets.get(key, 0) > 0 if log is None else not log.has_lost_id
    return int(was_flushed)


def check_ids(directories: Sequence[DataDirectory]) -> None:
    """Checks that no two directories have the same id. Raises WrongDirectory."""
    paths: dict[bytes, str] = {}
    for directory in directories:
        other = paths.setdefault(directory.id, directory.path)
        if other != directory.path:
            raise WrongDirectory(
                f"{other} and {directory.path} have the same directory.id in meta.properties: one is a copy of the "
                "other; remove the copy from log.dirs"
            )


def rivals_in(contents: Mapping[str, Content]) -> Rivals:
    """Finds the partitions with a log in several directories. Raises DuplicateLog.

    Args:
        contents: the content of each data directory, by its path.
    """
    found: Rivals = {}
    for path, content in contents.items():
        for key, topic_id in content.logs.items():
            found.setdefault(key, {})[path] = topic_id
    for key, topic_ids in found.items():
        check_duplicates(key, {path: one for path, one in topic_ids.items() if key not in contents[path].unflushed})
    return {key: topic_ids for key, topic_ids in found.items() if len(topic_ids) > 1}


def check_duplicates(key: TopicPartition, topic_ids: Mapping[str, bytes | None]) -> None:
    """Checks that the logs of one partition can be told apart by their topic ids.

    Args:
        key: the partition.
        topic_ids: by path of a data directory, the topic id of the log in it, for each log that may be current.

    Raises:
        DuplicateLog: two logs belong to the same topic, or two logs have no topic id.
    """
    known: dict[bytes | None, str] = {}
    for path, topic_id in topic_ids.items():
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
