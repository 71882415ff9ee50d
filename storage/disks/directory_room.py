"""`Room`: remembers whether the disk of a data directory is full, and logs the passing errors of the directory.

Writes to a full disk are tried nevertheless, since a small batch may succeed where a large batch was refused. Other
parts of the node use the state: new logs are created in another directory, and operations that wait for room are tried
again once a file can be written.
"""

import structlog

from minikafka.storage.disks.disk import Disk
from minikafka.storage.disks.disk_errors import is_full, is_passing

PROBE = ".room"
PROBE_BYTES = 1 << 16
FREE_BYTES_MIN = 1 << 21
"""With fewer free bytes a full disk stays full. Otherwise a disk that is often full would move leaders to and fro."""
WARNING_MS = 10_000


class Room:
    """The state of one data directory's disk: full or not.

    Args:
        path: the path of the directory.

    Attributes:
        is_full: whether a write was refused, and no file could be written since then.
    """

    def __init__(self, path: str) -> None:
        self.is_full = False
        self._path = path
        self._warned_ms: int | None = None
        self._logger = structlog.get_logger("minikafka.storage")

    def refused(self, error: Exception, now_ms: int) -> None:
        """Note that an operation has failed with a passing error (`disk_errors.py`), and log it."""
        if is_full(error):
            if not self.is_full:
                self.is_full = True
                self._logger.error("log directory full", directory=self._path, error=str(error))
        elif self._warned_ms is None or not 0 <= now_ms - self._warned_ms < WARNING_MS:
            self._warned_ms = now_ms
            self._logger.warning("log directory without descriptors", directory=self._path, error=str(error))

    def check(self, disk: Disk) -> None:
        """Checks whether the disk has room again, by writing and removing a file. Raises OSError if the disk fails."""
        probe = f"{self._path}/{PROBE}"
        try:
            if disk.free_bytes(self._path) < FREE_BYTES_MIN:
                return
            disk.write_atomically(probe, bytes(PROBE_BYTES), sync=False)
            disk.remove(probe)
        except OSError as error:
            if not is_passing(error):
                raise
            return
        self.is_full = False
        self._logger.info("log directory has room again", directory=self._path)
