"""`NodeDisk`: the disk of a node in memory. A node that is killed writes to it in vain: the next one has a copy."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random

from minikafka.storage.disks.memory_disk import MemoryDisk

__all__ = ["NodeDisk"]


class NodeDisk(MemoryDisk):
    """A disk in memory, as one life of a node sees it.

    Args:
        now_ms: The clock for modification times, in milliseconds since 1970.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__(Random(0), now_ms=now_ms)

    def copied(self) -> NodeDisk:
        """A disk with the same files as they are now, for the next life of the node."""
        disk = NodeDisk(self.now_ms)
        disk._root, disk.remaining_bytes = copy.deepcopy(self._root), self.remaining_bytes
        return disk
