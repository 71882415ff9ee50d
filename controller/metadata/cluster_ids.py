"""Which cluster the data directories belong to; there is no format step.

Every data directory has a `meta.properties` as Kafka writes it (version=1, cluster.id, node.id,
directory.id). Storage writes it where it is missing; here it is only asked whose it is, before anything
else is touched.
"""

from collections.abc import Sequence
from random import Random

from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.names import uuid_text
from minikafka.storage.checkpoint_files import META_PROPERTIES, read_properties
from minikafka.storage.data_directory import WrongDirectory
from minikafka.storage.disk import Disk

__all__ = ["data_directories", "known_cluster_id", "metadata_directory", "new_cluster_id", "new_id"]


def data_directories(static: StaticSettings) -> list[str]:
    """`log.dirs`, or `log.dir` where that is not set."""
    named = static.value("log.dirs")
    found = static.value("log.dir") if named is None else named
    assert isinstance(found, tuple), "log.dir has a default"
    return list(found)


def metadata_directory(static: StaticSettings) -> str:
    """Where `__cluster_metadata-0` is kept: `metadata.log.dir`, or else the first of the data directories."""
    named = static.value("metadata.log.dir")
    return named if isinstance(named, str) else data_directories(static)[0]


def known_cluster_id(disk: Disk, directories: Sequence[str], node_id: int) -> str | None:
    """The cluster that the directories belong to, None where all are new.

    Raises:
        WrongDirectory: one belongs to another node, or two to different clusters.
        BrokenCheckpoint: a `meta.properties` cannot be read.
    """
    cluster_id: str | None = None
    for directory in directories:
        found = read_properties(disk, f"{directory}/{META_PROPERTIES}") or {}
        if found.get("node.id", str(node_id)) != str(node_id):
            raise WrongDirectory(
                f"{directory} belongs to node {found['node.id']}, but node.id is {node_id}: "
                "set another node.id or log.dirs"
            )
        told = found.get("cluster.id")
        if told is not None and cluster_id not in (None, told):
            raise WrongDirectory(
                f"{directory} belongs to cluster {told}, other directories of this node to {cluster_id}: "
                "set other log.dirs"
            )
        cluster_id = told or cluster_id
    return cluster_id


def new_cluster_id(random: Random) -> str:
    """22 characters that no other cluster has."""
    return uuid_text(new_id(random))


def new_id(random: Random) -> bytes:
    """16 random bytes as of a UUID version 4, never one that begins with a dash as text (as in Kafka)."""
    while True:
        drawn = bytearray(random.randbytes(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        if drawn[0] >> 2 != _DASH:
            return bytes(drawn)


_DASH = 62
"""The digit of base64 that is written as a dash."""
