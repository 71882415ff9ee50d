"""Reads the cluster id from the `meta.properties` of the data directories, or generates it. Formatting is optional.

If a data directory belongs to a cluster and the metadata directory has no metadata log, the log is lost or not mounted.
The node must not start then: a voter with an empty log could found a second cluster, or vote against its lost votes.

Every data directory has a `meta.properties` as Kafka writes it (version=1, cluster.id, node.id, directory.id). Storage
writes it where it is missing; this module only reads it, before any other file of the directory is changed.
`minikafka storage format` writes it as well, before the first start (`broker/node/format.py`).
"""

from collections.abc import Sequence
from random import Random

import structlog

from minikafka.controller.raft.election_state import FILE_NAME, UnreadableElectionState, fixed_voters, what_to_do
from minikafka.protocol.names import uuid_from_text, uuid_text
from minikafka.storage.directories.directory_identity import WrongDirectory
from minikafka.storage.directories.directory_ids import UNASSIGNED
from minikafka.storage.directories.directory_scan import parse_directory_name
from minikafka.storage.disks.checkpoint_files import META_PROPERTIES, BrokenCheckpoint, read_properties
from minikafka.storage.disks.disk import Disk

__all__ = [
    "check_alone",
    "check_metadata_directory",
    "known_cluster_id",
    "known_directory_id",
    "new_cluster_id",
    "new_id",
]

METADATA_TOPIC = "__cluster_metadata"
log = structlog.get_logger("minikafka.controller")


def known_cluster_id(disk: Disk, directories: Sequence[str], node_id: int) -> str | None:
    """The id of the cluster that the directories belong to; None if all are new. Unreadable directories are skipped.

    Raises:
        WrongDirectory: a directory belongs to another node, or two belong to different clusters.
        BrokenCheckpoint: a `meta.properties` cannot be read.
    """
    cluster_id: str | None = None
    for directory in directories:
        properties = _properties(disk, directory, told=False)
        if properties.get("node.id", str(node_id)) != str(node_id):
            raise WrongDirectory(
                f"{directory} belongs to node {properties['node.id']}, but node.id is {node_id}: "
                "set another node.id or log.dirs"
            )
        stored = properties.get("cluster.id")
        if stored is not None and cluster_id not in (None, stored):
            raise WrongDirectory(
                f"{directory} belongs to cluster {stored}, other directories of this node to {cluster_id}: "
                "set other log.dirs or metadata.log.dir"
            )
        cluster_id = stored or cluster_id
    return cluster_id


def known_directory_id(disk: Disk, directory: str) -> bytes:
    """The id of a data directory: 16 bytes, all of them 0 if it has no id yet. Raises BrokenCheckpoint."""
    text = _properties(disk, directory).get("directory.id")
    try:
        return UNASSIGNED if text is None else uuid_from_text(text)
    except ValueError as error:
        raise BrokenCheckpoint(f"{directory}/{META_PROPERTIES} has an invalid directory.id: {error}") from error


def _properties(disk: Disk, directory: str, *, told: bool = True) -> dict[str, str]:
    """The properties of a directory; empty if it has none or cannot be read. The latter is logged unless `told`."""
    try:
        return read_properties(disk, f"{directory}/{META_PROPERTIES}") or {}
    except OSError as error:
        if not told:
            log.error("log directory cannot be read", directory=directory, error=str(error))
        return {}


def check_metadata_directory(
    disk: Disk, directory: str, data_directories: Sequence[str], *, has_fixed_voters: bool = True
) -> None:
    """Check that the metadata log exists if a data directory belongs to a cluster already.

    A voter that is known by its node id alone must not start without its log and its votes. A voter of a dynamic quorum
    is known by its directory id as well (KIP-853), so its metadata disk may be replaced by a newly formatted disk.

    Args:
        disk: the disk.
        directory: the metadata directory, in which `__cluster_metadata-0` is.
        data_directories: the directories of `log.dirs`.
        has_fixed_voters: whether the settings name the voters.

    Raises:
        WrongDirectory: the metadata log is missing; the text says what to do.
        OSError: the metadata directory cannot be read.
    """
    named = [one for one in data_directories if "cluster.id" in _properties(disk, one)]
    if not named or _has_metadata(disk, f"{directory}/__cluster_metadata-0"):
        return
    concerned = data_directories if has_fixed_voters else [directory]
    if "cluster.id" in _properties(disk, directory) and not any(_has_logs(disk, one) for one in concerned):
        return  # formatted, and not started yet
    removals = " ".join(f"{one}/{META_PROPERTIES}" for one in named)
    raise WrongDirectory(
        f"{directory} has no metadata log, but {' and '.join(named)} {'belong' if named[1:] else 'belongs'} to a "
        "cluster: the metadata directory is not mounted, or its content is lost. Mount or restore it. If it is lost "
        f"for good, type `rm {removals}` and start again: a node alone then founds a new cluster, and a voter joins "
        "the others with an empty log, which is safe only while all other voters are running. Logs of topics that the "
        "cluster does not know are kept as directories whose names end in -stray"
    )


def check_alone(disk: Disk, directory: str) -> None:
    """Check that a metadata directory can be used by a node whose settings name no quorum, and which is the only voter.

    Raises:
        WrongDirectory: the directory is of a quorum of several voters, which would not get the records that this node
            writes; or of a dynamic quorum (KIP-853), whose log names its voters; or its election state is damaged.
        OSError: the directory cannot be read.
    """
    path = f"{directory}/{METADATA_TOPIC}-0"
    state = f"{path}/{FILE_NAME}"
    data = disk.read_bytes(state) if disk.exists(state) else b""
    try:
        voters = fixed_voters(data) if data else []
    except UnreadableElectionState as error:
        raise WrongDirectory(f"{state}: {error}. {what_to_do(path)}") from error
    if len(voters) > 1:
        raise WrongDirectory(
            f"the metadata log in {directory} is of a quorum of several nodes ({', '.join(map(str, voters))}): start "
            "this node with the server.properties of that cluster, which names them in controller.quorum.voters; a "
            "node alone needs a directory of its own"
        )
    if b'"data_version":1' in data or disk.exists(f"{path}/{0:020d}-{0:010d}.checkpoint"):
        raise WrongDirectory(
            f"the metadata log in {directory} names the voters of its quorum (kraft.version 1): set "
            "controller.quorum.bootstrap.servers, and a listener named in controller.listener.names"
        )


def _has_metadata(disk: Disk, path: str) -> bool:
    """Whether a metadata directory has a record, a snapshot, or an election state."""
    if not disk.exists(path):
        return False
    names = disk.list(path)
    if any(name.endswith(".checkpoint") or name == FILE_NAME for name in names):
        return True
    return any(name.endswith(".log") and disk.file_size(f"{path}/{name}") > 0 for name in names)


def _has_logs(disk: Disk, directory: str) -> bool:
    """Whether a data directory has logs of topics; False if it cannot be read."""
    try:
        keys = [parse_directory_name(name) for name in disk.list(directory)]
    except OSError:
        return False  # logged by `_properties`
    return any(key is not None and key.topic != METADATA_TOPIC for key in keys)


def new_cluster_id(random: Random) -> str:
    """A new cluster id: 22 characters of base64."""
    return uuid_text(new_id(random))


def new_id(random: Random) -> bytes:
    """A random UUID version 4, as 16 bytes, whose text form does not begin with a dash (as in Kafka)."""
    while True:
        drawn = bytearray(random.randbytes(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        if drawn[0] >> 2 != _DASH:
            return bytes(drawn)


_DASH = 62
"""The base64 digit that is written as a dash."""
