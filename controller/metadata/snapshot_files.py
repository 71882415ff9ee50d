"""Reads, writes and deletes the snapshot files `<offset>-<epoch>.checkpoint` of the metadata log; keeps the newest two.

For their content see `snapshot_encoding.py`.
"""

import re

from minikafka.controller.raft.log_interface import SnapshotId
from minikafka.storage.disks.disk import Disk

__all__ = ["SnapshotFiles"]

NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
KEPT = 2
"""The number of snapshots that are kept. A follower may still be fetching the second newest."""


class SnapshotFiles:
    """The snapshot files of one directory, which is locked by this process. Methods raise OSError."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        found = filter(None, map(NAME.fullmatch, disk.list(directory)))
        known = sorted(SnapshotId(int(match[1]), int(match[2])) for match in found)
        self._kept = [snapshot for snapshot in known if snapshot.offset]  # that of 0 is the bootstrap checkpoint

    @property
    def newest(self) -> SnapshotId | None:
        """The id of the newest snapshot; None if there is no snapshot yet."""
        return self._kept[-1] if self._kept else None

    def read_newest(self) -> bytes | None:
        """The content of the newest snapshot; None if there is no snapshot yet."""
        return self._disk.read_bytes(self.path(self._kept[-1])) if self._kept else None

    def read(self, snapshot: SnapshotId, position: int, size_max: int) -> tuple[int, bytes] | None:
        """The size of a snapshot and a part of its bytes; None if it was deleted."""
        if snapshot not in self._kept:
            return None
        file = self._disk.open(self.path(snapshot))
        try:
            return file.size_bytes, file.pread(position, size_max)
        finally:
            file.close()

    def install(self, snapshot: SnapshotId, data: bytes) -> None:
        """Write a snapshot fetched from another node. The snapshot becomes the newest when `installed` is called, or at
        the next start. May run in a worker thread."""
        self._disk.write_atomically(self.path(snapshot), data)

    def installed(self, snapshot: SnapshotId) -> None:
        """Make a snapshot that `install` has written the newest."""
        self._kept.append(snapshot)

    async def write(self, snapshot: SnapshotId, data: bytes) -> bool:
        """Write a snapshot of this node. Returns False if a snapshot at least as new was installed meanwhile."""
        await self._disk.run(self._disk.write_atomically, self.path(snapshot), data)
        if self.newest is not None and self.newest.offset >= snapshot.offset:
            if self.newest != snapshot:
                self._disk.remove(self.path(snapshot))
            return False
        self._kept.append(snapshot)
        return True

    def remove_old(self) -> None:
        """Delete all snapshots but the newest `KEPT`."""
        for old in self._kept[:-KEPT]:
            self._disk.remove(self.path(old))
        del self._kept[:-KEPT]

    def path(self, snapshot: SnapshotId) -> str:
        """The path of a snapshot's file."""
        return f"{self._directory}/{snapshot.offset:020d}-{snapshot.epoch:010d}.checkpoint"
