"""`OffsetCheckpoint`: one checkpoint file of a data directory, with an offset for each log."""

from collections.abc import Callable, Mapping
from functools import partial

from minikafka.protocol.names import TopicPartition
from minikafka.storage.disks import checkpoint_files
from minikafka.storage.disks.disk import Disk
from minikafka.storage.logs.log import Log
from minikafka.storage.steps import Steps, in_steps

Offsets = dict[TopicPartition, int]
Prepared = Steps[Callable[[], None]]
"""Prepares a checkpoint in steps, and returns a function that writes the checkpoint. The yielded calls do nothing."""
LOGS_AT_ONCE = 1000


class OffsetCheckpoint:
    """One checkpoint file of a data directory. It is prepared in steps, and may be written by a worker thread.

    A checkpoint whose preparation begins later counts as newer, even if that preparation ends earlier.

    Attributes:
        offsets: the offsets that were read at the start or set since, also those of logs that are not open.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self.offsets: Offsets = {}
        self._disk = disk
        self._path = path
        self._written: Offsets | None = None
        self._prepared: Offsets | None = None
        self._number = 0
        self._newest = 0
        """The number of the preparation that was written last."""
        self._collections: list[set[TopicPartition]] = []
        """For each preparation that has begun, the logs that were forgotten since."""
        self._one_writer = disk.mutex()

    def read(self) -> None:
        """Reads the file. Raises OSError; BrokenCheckpoint: the file is invalid, and counts as empty."""
        self.offsets.update(checkpoint_files.read_offsets(self._disk, self._path))
        self._written = dict(self.offsets)

    def forget(self, key: TopicPartition) -> bool:
        """Removes the offset of an earlier log of the same name.

        Returns whether the file has the offset, or a thread is about to write it: then the file must be written anew.
        """
        self.offsets.pop(key, None)
        for forgotten in self._collections:
            forgotten.add(key)
        return key in (self._written or ()) or key in (self._prepared or ())

    def prepare(
        self,
        logs: Mapping[TopicPartition, Log],
        is_open: Callable[[TopicPartition, Log | None], bool],
        is_kept: Callable[[TopicPartition], bool],
        offset_of: Callable[[TopicPartition, Log], int | None],
    ) -> Prepared:
        """Collects the offsets of open logs, in steps, and returns a function that writes them.

        Logs that are closed or forgotten during the steps are left out.

        Args:
            logs: the open logs.
            is_open: whether a log, or any log of the name, is open now.
            is_kept: whether the earlier offset of a log that is not open is kept.
            offset_of: the offset of an open log, or None if the log has none.
        """
        self._number += 1
        number, offsets, forgotten = self._number, Offsets(), set[TopicPartition]()
        self._collections.append(forgotten)
        try:
            for count, (key, offset) in enumerate([*self.offsets.items()], 1):
                if not is_open(key, None) and is_kept(key):
                    offsets[key] = offset
                if count % LOGS_AT_ONCE == 0:
                    yield nothing_to_write
            for count, (key, log) in enumerate([*logs.items()], 1):
                found = offset_of(key, log) if is_open(key, log) else None
                if found is not None:
                    offsets[key] = found
                if count % LOGS_AT_ONCE == 0:
                    yield nothing_to_write
        finally:
            self._collections.remove(forgotten)
        for key in forgotten:
            offsets.pop(key, None)
        if self._prepared == offsets == self._written:
            return nothing_to_write
        self._prepared = offsets
        return partial(self._write, number, offsets)

    def _write(self, number: int, offsets: Offsets) -> None:
        """Writes the file, unless a newer preparation has been written. So the newest content stays, whatever the order
        of the threads."""
        with self._one_writer:
            if number < self._newest:
                return
            if self._written != offsets:
                checkpoint_files.write_offsets(self._disk, self._path, offsets)
                self._written = offsets
            self._newest = number


async def write_prepared(disk: Disk, preparing: Prepared) -> None:
    """Prepares a checkpoint, and writes the checkpoint in a worker thread."""
    await disk.run(await in_steps(preparing, disk))


def nothing_to_write() -> None:
    """Does nothing. `prepare` returns it if the checkpoint has not changed since it was last written."""
