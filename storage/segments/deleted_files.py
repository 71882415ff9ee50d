"""Renames files that are to be removed later, so that readers that hold them can go on reading; removes what is left of
a segment that could not be created.
"""

from collections.abc import Iterable
from contextlib import suppress
from itertools import count

from minikafka.storage.disks.disk import Disk
from minikafka.storage.segments.segment_names import DELETED


def rename_deleted(disk: Disk, path: str) -> str:
    """Renames a deleted file, and returns the new path. Raises OSError.

    The new path is unique: a segment with the same name may have been replaced a moment ago.
    """
    new_path = path + DELETED
    for number in count(2):
        if not disk.exists(new_path):
            break
        new_path = f"{path}.{number}{DELETED}"
    disk.rename(path, new_path)
    return new_path


def remove_left(disk: Disk, paths: Iterable[str]) -> None:
    """Removes files of a segment that could not be created, as far as they exist and can be removed."""
    for path in paths:
        with suppress(OSError):
            if disk.exists(path):
                disk.remove(path)
