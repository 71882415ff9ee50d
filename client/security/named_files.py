"""Reads the files that settings name."""

from __future__ import annotations

from pathlib import Path

from minikafka.protocol.counted import counted

__all__ = ["UnreadableFile", "read_named_file"]


class UnreadableFile(Exception):
    """A file cannot be read; the message says why, and begins as in "is a pipe"."""


def read_named_file(path: str, size_bytes_max: int) -> bytes:
    """The content of a file. Raises UnreadableFile, also for pipes and devices: reading them would wait or not end."""
    file = Path(path)
    try:
        if file.is_fifo() or file.is_char_device():
            raise UnreadableFile("is a pipe or device: must be a file")
        with file.open("rb") as opened:
            data = opened.read(size_bytes_max + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UnreadableFile(f"cannot be read: {reason}") from None
    if len(data) > size_bytes_max:
        raise UnreadableFile(f"has more than {counted(size_bytes_max, 'byte')}")
    return data
