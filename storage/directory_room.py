"""`Room`: what a data directory knows of passing errors: whether its disk is full, and what the log says of it.

Each write to a full disk is tried and refused, as what is refused for a large batch may succeed for a small one. This
state is for others: new logs are made in another directory, and what waits for room is tried again when a file can be
written.
"""

import structlog

from minikafka.storage.disk import Disk
from minikafka.storage.disk_errors import is_full, is_passing

PROBE = ".room"
PROBE_BYTES = 1 << 16
FREE_BYTES_MIN = 1 << 21
"""Less counts as no room: a disk that is full now and then would move leaders to and fro."""
WARNING_MS = 10_000


class Room:
    """See above.

    Args:
        path: the directory, for the log.

    Attributes:
        is_full: a write was refused, and no file could be written since.
    """

    def __init__(self, path: str) -> None:
        self.is_full = False
        self._path = path
        self._warned_ms: int | None = None
        self._logger = structlog.get_logger("minikafka.storage")

    def refused(self, error: Exception, now_ms: int) -> None:
        """An operation was not possible, with a passing error."""
        if is_full(error):
            if not self.is_full:
                self.is_full = True
                self._logger.error("log directory full", directory=self._path, error=str(error))
        elif self._warned_ms is None or not 0 <= now_ms - self._warned_ms < WARNING_MS:
            self._warned_ms = now_ms
            self._logger.warning("log directory without descriptors", directory=self._path, error=str(error))

    def check(self, disk: Disk) -> None:
        """Looks whether there is room again: writes a file, and removes it. Raises OSError if the disk fails."""
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
