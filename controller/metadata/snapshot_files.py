"""The snapshots beside the metadata log's segments: the newest two `<offset>-<epoch>.checkpoint`.

`snapshots.py` says what is in one.
"""

import re

from minikafka.controller.raft.log_interface import SnapshotId
from minikafka.storage.disk import Disk

__all__ = ["SnapshotFiles"]

NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
KEPT = 2
"""A follower may be fetching the last but one."""


class SnapshotFiles:
    """Those of one directory, which is this process's own. Methods raise OSError."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        found = filter(None, map(NAME.fullmatch, disk.list(directory)))
        self._kept = sorted(SnapshotId(int(match[1]), int(match[2])) for match in found)

    @property
    def newest(self) -> SnapshotId | None:
        """None where there is none yet."""
        return self._kept[-1] if self._kept else None

    def read_newest(self) -> bytes | None:
        """Its content, whole."""
        return self._disk.read_bytes(self._path(self._kept[-1])) if self._kept else None

    def read(self, snapshot: SnapshotId, position: int, size_max: int) -> tuple[int, bytes] | None:
        """The size of a snapshot and some of its bytes; None where it is not kept."""
        if snapshot not in self._kept:
            return None
        file = self._disk.open(self._path(snapshot))
        try:
            return file.size_bytes, file.pread(position, size_max)
        finally:
            file.close()

    def install(self, snapshot: SnapshotId, data: bytes) -> None:
        """Keep what another node had, as the newest from now on."""
        self._disk.write_atomically(self._path(snapshot), data)
        self._kept.append(snapshot)

    async def write(self, snapshot: SnapshotId, data: bytes) -> bool:
        """Keep one of this node's own; whether it is the newest: one as new may have been installed meanwhile."""
        await self._disk.run(self._disk.write_atomically, self._path(snapshot), data)
        if self.newest is not None and self.newest.offset >= snapshot.offset:
            if self.newest != snapshot:
                self._disk.remove(self._path(snapshot))
            return False
        self._kept.append(snapshot)
        return True

    def remove_old(self) -> None:
        """All but the newest `KEPT`."""
        for old in self._kept[:-KEPT]:
            self._disk.remove(self._path(old))
        del self._kept[:-KEPT]

    def _path(self, snapshot: SnapshotId) -> str:
        return f"{self._directory}/{snapshot.offset:020d}-{snapshot.epoch:010d}.checkpoint"
