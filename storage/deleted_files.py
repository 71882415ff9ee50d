"""The names of files that are removed later, so that readers who hold them keep reading."""

from itertools import count

from minikafka.storage.disk import Disk
from minikafka.storage.segment_names import DELETED


def rename_deleted(disk: Disk, path: str) -> str:
    """Renames a deleted file; returns its new path, which no other file has: a segment with the same name may have been
    replaced a moment ago. Raises OSError."""
    new_path = path + DELETED
    for number in count(2):
        if not disk.exists(new_path):
            break
        new_path = f"{path}.{number}{DELETED}"
    disk.rename(path, new_path)
    return new_path
