"""`DirectoryIdentity`: the file meta.properties of a data directory, which says whose directory it is."""

import posixpath
from collections.abc import Mapping
from random import Random

from minikafka.protocol.names import uuid_from_text, uuid_text
from minikafka.storage.directories.directory_ids import UNASSIGNED, is_reserved, new_directory_id
from minikafka.storage.disks import checkpoint_files
from minikafka.storage.disks.checkpoint_files import BrokenCheckpoint
from minikafka.storage.disks.disk import Disk


class WrongDirectory(ValueError):
    """The directory belongs to another node or another cluster."""


class DuplicateLog(WrongDirectory):
    """Two directories have a log of the same partition and topic, and it is unknown which log is current."""


class DirectoryIdentity:
    """The identity of a data directory: its meta.properties.

    Attributes:
        directory_id: the id in meta.properties; "" before `claim`.
        was_blank: whether `claim` has found no meta.properties.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self.directory_id = ""
        self.was_blank = False
        self._disk = disk
        self._path = path

    def claim(self, node_id: int | None, cluster_id: str | None, *, random: Random) -> None:
        """Checks meta.properties, or writes it if it is missing.

        Raises OSError; WrongDirectory; BrokenCheckpoint for an invalid file.
        """
        path = f"{self._path}/{checkpoint_files.META_PROPERTIES}"
        found = checkpoint_files.read_properties(self._disk, path)
        self.was_blank = found is None
        found = found or {}
        self._compare("node.id", found, None if node_id is None else str(node_id))
        self._compare("cluster.id", found, cluster_id)
        self.directory_id = _valid_id(path, found.get("directory.id")) or uuid_text(new_directory_id(random))
        if found.get("directory.id") != self.directory_id and node_id is not None and cluster_id is not None:
            named = {"directory.id": self.directory_id, "version": "1", "cluster.id": cluster_id}
            complete = {**found, "node.id": str(node_id), **named}
            checkpoint_files.write_properties(self._disk, path, complete)

    @property
    def id(self) -> bytes:
        """`directory_id` as 16 bytes; `UNASSIGNED` before `claim`."""
        return uuid_from_text(self.directory_id) if self.directory_id else UNASSIGNED

    def _compare(self, name: str, found: Mapping[str, str], expected: str | None) -> None:
        if expected is not None and found.get(name, expected) != expected:
            raise WrongDirectory(f"{self._path} belongs to {name} {found[name]}, not {expected}")


def _valid_id(path: str, text: str | None) -> str | None:
    """Checks a directory id; None for a missing id, as in directories from before KIP-858. Raises BrokenCheckpoint."""
    if text is None:
        return None
    try:
        reserved = is_reserved(uuid_from_text(text))
    except ValueError:
        reserved = True
    if reserved:
        raise BrokenCheckpoint(f"{path} has an invalid directory.id: {text}")
    return text


def make_durable_directory(disk: Disk, path: str) -> None:
    """Creates a directory and its parents unless they exist; the new names survive a power failure. Raises OSError."""
    missing: list[str] = []
    at = path
    while at and not disk.exists(at):
        missing.append(at)
        at = posixpath.dirname(at)
    disk.make_directory(path)
    for made in missing:
        disk.sync_directory(posixpath.dirname(made) or ".")
