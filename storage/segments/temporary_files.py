"""Completes or undoes interrupted deletions and swaps of segments in a log directory, before the log is opened.

The decisions depend on the names of the files, like those of Kafka's `LogLoader`.
"""

from minikafka.storage.disks.disk import Disk
from minikafka.storage.segments.batch_scan import headers
from minikafka.storage.segments.segment_names import DELETED, SUFFIXES, offset_name, offset_of

SWAP = ".swap"
_CLEANED, _TEMPORARY = ".cleaned", ".tmp"


def clean_up(disk: Disk, directory: str) -> dict[str, list[int]]:
    """Completes or undoes interrupted file operations in a log directory.

    `.deleted`, `.cleaned` and `.tmp` files are removed. `.swap` files are the result of a compaction: the segments that
    they replace are removed, then the `.swap` files are renamed. But if there is a `.cleaned` file with the same or a
    lower offset, the compaction was incomplete, and the `.swap` file is removed as well (KAFKA-6264). Index files
    without a log file are removed.

    Returns:
        By suffix, the offsets in the names of the remaining files. Files of other names are left out.
    """
    names = disk.list(directory)
    if any(name.endswith((DELETED, _CLEANED, _TEMPORARY, SWAP)) for name in names):
        _complete_or_undo(disk, directory, names)
        names = disk.list(directory)
    found = _by_suffix(names)
    logs = set(found.get(".log", ()))
    for suffix in SUFFIXES[1:]:
        for offset in sorted(set(found.get(suffix, ())) - logs):
            disk.remove(f"{directory}/{offset_name(offset)}{suffix}")
    return found


def _by_suffix(names: list[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for name in names:
        if (offset := offset_of(name)) >= 0:
            found.setdefault(name[20:], []).append(offset)
    return found


def _complete_or_undo(disk: Disk, directory: str, names: list[str]) -> None:
    incomplete = [offset_of(name) for name in names if name.endswith(_CLEANED) and offset_of(name) >= 0]
    cleaned = min(incomplete, default=1 << 63)
    swaps: list[str] = []
    for name in names:
        if name.endswith(SWAP) and 0 <= offset_of(name) < cleaned:
            swaps.append(name)
        elif name.endswith((DELETED, _CLEANED, _TEMPORARY, SWAP)):
            disk.remove(f"{directory}/{name}")
    if swaps:
        _complete_swap(disk, directory, names, swaps)


def _complete_swap(disk: Disk, directory: str, names: list[str], swaps: list[str]) -> None:
    logs = sorted(name for name in swaps if name.endswith(".log" + SWAP))
    if logs:
        last = disk.open(f"{directory}/{logs[-1]}")
        end = offset_of(logs[-1])
        for header in headers(last, 0, last.size_bytes):
            end = header.last_offset + 1
        last.close()
        replaced = {offset_of(name) for name in logs}  # Even if nothing is left of them.
        for name in names:
            offset = offset_of(name)
            if name.endswith(SUFFIXES) and (offset in replaced or offset_of(logs[0]) <= offset < end):
                disk.remove(f"{directory}/{name}")
    for name in (*logs, *(one for one in swaps if one not in logs)):
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")

