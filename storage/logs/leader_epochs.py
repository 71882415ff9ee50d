"""`LeaderEpochs`: the start offset of each leader epoch, by which replicas find divergence (KIP-101, KIP-279).

The rules are those of Kafka's `LeaderEpochFileCache`. Entries strictly increase in epoch and start offset. They are
stored in `leader-epoch-checkpoint`, one `epoch offset` per line. The flush that advances the recovery point writes the
file; a change of the entries does not. Epochs beyond the recovery point are rebuilt from the batches at the next start,
and epochs without records are then forgotten. After a crash, the file may reflect a truncation that the log does not,
or the reverse. A damaged or missing file is rebuilt completely (KAFKA-16541).
"""

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from minikafka.storage.disks import checkpoint_files
from minikafka.storage.disks.disk import Disk

UNDEFINED = -1
"""An undefined epoch or end offset."""


class EpochEnd(NamedTuple):
    """The largest known epoch up to a requested epoch, and its end offset; both -1 if undefined."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """The leader epochs of one log.

    Args:
        entries: (epoch, start offset), increasing in both.

    Attributes:
        latest: the latest epoch; None without entries.
        unsynced: whether the next flush has to include the file, because it was written or is out of date.
    """

    def __init__(self, disk: Disk, path: str, entries: list[tuple[int, int]]) -> None:
        self._disk = disk
        self.path = path
        self.unsynced = False
        self._unwritten = False
        self.latest: int | None = None
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in entries:
            self._enter(epoch, start)

    @property
    def earliest(self) -> tuple[int, int] | None:
        """The first entry, as (epoch, start offset); None without entries."""
        return (self._epochs[0], self._starts[0]) if self._epochs else None

    @property
    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    def previous(self, epoch: int) -> int | None:
        """The latest epoch before `epoch`; None if there is no such epoch."""
        index = bisect_left(self._epochs, epoch)
        return self._epochs[index - 1] if index else None

    def assign(self, epoch: int, start_offset: int) -> None:
        """Records the start offset of an epoch. The latest epoch keeps its start; conflicting entries are removed."""
        if self._epochs and self._epochs[-1] == epoch and start_offset >= self._starts[-1]:
            return
        self._enter(epoch, start_offset)
        self._changed()

    def _enter(self, epoch: int, start: int) -> None:
        if epoch < 0 or start < 0:
            raise ValueError(f"invalid leader epoch {epoch} at offset {start}")
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start):
            self._pop()
        self._epochs.append(epoch)
        self._starts.append(start)
        self.latest = epoch

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Returns the end offset of an epoch, by Kafka's rules.

        The latest epoch ends at the log end offset. An epoch older than all entries ends at the start of the first
        entry. For a missing epoch, the epoch before it is returned, with the end offset of that epoch.
        """
        if epoch == UNDEFINED:
            return EpochEnd(UNDEFINED, UNDEFINED)
        if self._epochs and self._epochs[-1] == epoch:
            return EpochEnd(epoch, log_end_offset)
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return EpochEnd(UNDEFINED, UNDEFINED)
        if higher == 0:
            return EpochEnd(epoch, self._starts[0])
        return EpochEnd(self._epochs[higher - 1], self._starts[higher])

    def epoch_of(self, offset: int) -> int | None:
        """Returns the leader epoch of the record at `offset`; None if it is unknown."""
        index = bisect_right(self._starts, offset)
        return self._epochs[index - 1] if index else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Removes the epochs that start at `end_offset` or later."""
        if end_offset >= 0 and self._starts and self._starts[-1] >= end_offset:
            while self._starts and self._starts[-1] >= end_offset:
                self._pop()
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Removes the epochs before `start_offset`. The epoch that contains `start_offset` then starts there."""
        index = bisect_right(self._starts, start_offset)
        if index:
            before = (self._epochs[index - 1], self._starts[index - 1])
            del self._epochs[:index], self._starts[:index]
            self._epochs.insert(0, before[0])
            self._starts.insert(0, start_offset)
            if index > 1 or before[1] != start_offset:
                self._changed()

    def replace(self, entries: list[tuple[int, int]]) -> None:
        """Replaces all entries by the entries of another log with the same records."""
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self.latest = self._epochs[-1] if self._epochs else None
        self._changed()

    def clear(self) -> None:
        self._epochs.clear()
        self._starts.clear()
        self.latest = None
        self._changed()

    def _pop(self) -> None:
        self._epochs.pop()
        self._starts.pop()
        self.latest = self._epochs[-1] if self._epochs else None

    def complete(self) -> None:
        """Writes the file if it is out of date; called by a flush. Raises OSError."""
        if self._unwritten:
            checkpoint_files.write_epochs(self._disk, self.path, self.entries, sync=False)
            self._unwritten = False

    def _changed(self) -> None:
        self.unsynced = self._unwritten = True
