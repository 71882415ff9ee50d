"""The cluster id: read from the data directories' `meta.properties`, or generated. There is no format step.

Every data directory has a `meta.properties` as Kafka writes it (version=1, cluster.id, node.id, directory.id). Storage
writes it where it is missing; this module only reads it, before any other file of the directory is changed.
"""

from collections.abc import Sequence
from random import Random

from minikafka.protocol.names import uuid_text
from minikafka.storage.checkpoint_files import META_PROPERTIES, read_properties
from minikafka.storage.data_directory import WrongDirectory
from minikafka.storage.disk import Disk

__all__ = ["known_cluster_id", "new_cluster_id", "new_id"]


def known_cluster_id(disk: Disk, directories: Sequence[str], node_id: int) -> str | None:
    """The cluster that the directories belong to; None if all are new.

    Raises:
        WrongDirectory: a directory belongs to another node, or two belong to different clusters.
        BrokenCheckpoint: a `meta.properties` cannot be read.
    """
    cluster_id: str | None = None
    for directory in directories:
        properties = read_properties(disk, f"{directory}/{META_PROPERTIES}") or {}
        if properties.get("node.id", str(node_id)) != str(node_id):
            raise WrongDirectory(
                f"{directory} belongs to node {properties['node.id']}, but node.id is {node_id}: "
                "set another node.id or log.dirs"
            )
        stored = properties.get("cluster.id")
        if stored is not None and cluster_id not in (None, stored):
            raise WrongDirectory(
                f"{directory} belongs to cluster {stored}, other directories of this node to {cluster_id}: "
                "set other log.dirs"
            )
        cluster_id = stored or cluster_id
    return cluster_id


def new_cluster_id(random: Random) -> str:
    """A new cluster id: 22 characters of base64."""
    return uuid_text(new_id(random))


def new_id(random: Random) -> bytes:
    """16 random bytes of a UUID version 4 whose text form does not begin with a dash (as in Kafka)."""
    while True:
        drawn = bytearray(random.randbytes(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        if drawn[0] >> 2 != _DASH:
            return bytes(drawn)


_DASH = 62
"""The base64 digit that is written as a dash."""
