"""What a crash left half done in a log's directory: finished or undone by the names alone (Kafka's `LogLoader`)."""

from minikafka.storage.batch_scan import headers
from minikafka.storage.disk import Disk
from minikafka.storage.segment import DELETED, SUFFIXES

_CLEANED, _SWAP, _TEMPORARY = ".cleaned", ".swap", ".tmp"


def tidy(disk: Disk, directory: str) -> dict[str, list[str]]:
    """Finish or undo what a crash interrupted; returns the names that are left, by what follows the first 20
    characters (the offset), which is all that is kept of each.

    `.deleted`, `.cleaned` and `.tmp` files go. `.swap` files are the whole result of a compaction: the segments
    that they replace go, then they are renamed; but if some `.cleaned` is not above one, then its compaction had
    not ended and it goes as well (KAFKA-6264). Indexes without a log go.
    """
    names = disk.list(directory)
    found = _by_suffix(names)
    if any(suffix.endswith((DELETED, _CLEANED, _TEMPORARY, _SWAP)) for suffix in found):
        _finish_or_undo(disk, directory, names)
        found = _by_suffix(disk.list(directory))
    logs = set(found.get(".log", ()))
    for suffix in SUFFIXES[1:]:
        for offset in set(found.get(suffix, ())) - logs:
            disk.remove(f"{directory}/{offset}{suffix}")
    return found


def _by_suffix(names: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name[20:], []).append(name[:20])
    return found


def _finish_or_undo(disk: Disk, directory: str, names: list[str]) -> None:
    cleaned = min((_offset_of(name) for name in names if name.endswith(_CLEANED)), default=1 << 63)
    swaps: list[str] = []
    for name in names:
        if name.endswith(_SWAP) and _offset_of(name) < cleaned:
            swaps.append(name)
        elif name.endswith((DELETED, _CLEANED, _TEMPORARY, _SWAP)):
            disk.remove(f"{directory}/{name}")
    if swaps:
        _swap(disk, directory, names, swaps)


def _swap(disk: Disk, directory: str, names: list[str], swaps: list[str]) -> None:
    logs = sorted(name for name in swaps if name.endswith(".log" + _SWAP))
    if logs:
        last = disk.open(f"{directory}/{logs[-1]}")
        end = _offset_of(logs[-1])
        for header in headers(last, 0, last.size_bytes):
            end = header.last_offset + 1
        last.close()
        for name in names:
            if name.endswith(SUFFIXES) and _offset_of(logs[0]) <= _offset_of(name) < end:
                disk.remove(f"{directory}/{name}")
    for name in swaps:
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(_SWAP)}")


def _offset_of(name: str) -> int:
    text = name.partition(".")[0]
    return int(text) if len(text) == 20 and text.isdigit() else -1
