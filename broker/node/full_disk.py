"""Recognizes errors of a full disk, and describes them for users: where, how much is left, what to do."""

import errno
import os
import pwd
from math import inf
from pathlib import Path

from minikafka.protocol.counted import counted

__all__ = ["FULL", "existing", "first_of", "free_bytes", "full_disk_behind", "user", "why_full"]

FULL = (errno.ENOSPC, errno.EDQUOT)
"""The errors of a full disk and of a quota that is used up."""


def first_of(error: BaseException) -> BaseException:
    """The first exception that is not a group, in nested exception groups. Each trio nursery makes a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def full_disk_behind(error: BaseException) -> OSError | None:
    """The error of a full disk that has caused `error`; None if no full disk has.

    An error of a log, for example, does not name the directory, but its cause does.
    """
    left: BaseException | None = error
    while left is not None:
        left = first_of(left)
        if isinstance(left, OSError) and left.errno in FULL:
            return left
        left = left.__cause__ or left.__context__
    return None


def why_full(error: OSError, path: str) -> str:
    """What is full, and what to do; "" if `error` is not the error of a full disk.

    Args:
        error: The error of a write.
        path: The directory that was written to, or a file in the directory; it need not exist.
    """
    if error.errno not in FULL:
        return ""
    at = existing(path)
    file = f" for {error.filename}" if error.filename not in (None, str(at)) else ""
    if error.errno == errno.EDQUOT:
        return f"{user()} has no room left{file}: the disk quota is used up; make room, nothing is lost"
    free = free_bytes(path)
    left = "" if free == inf else f", {counted(int(free), 'byte')} free"
    return f"the disk of {at} is full{file}{left}; make room, nothing is lost"


def free_bytes(path: str) -> float:
    """The bytes that this user may write in the file system of a path; 0 without free inodes, infinite if unknown."""
    try:
        found = os.statvfs(existing(path))
    except OSError:
        return inf
    has_inodes = found.f_favail > 0 or not found.f_files
    return found.f_bavail * found.f_frsize if has_inodes else 0


def existing(path: str) -> Path:
    """The path, if it exists, or the nearest of its parents that exists."""
    at = Path(path)
    while at != at.parent:
        try:
            at.lstat()
        except OSError:
            at = at.parent
        else:
            break
    return at


def user(number: int | None = None) -> str:
    """The words `user NAME`, with the number if the user has no name. None is the user of this process."""
    number = os.geteuid() if number is None else number
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
