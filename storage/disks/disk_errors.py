"""Distinguishes failures of a disk from passing errors, which fail one call and leave the log usable.

Without descriptors or memory (EMFILE, ENFILE, ENOMEM) and on a full disk (ENOSPC, EDQUOT) a call has no effect, or a
partial effect that is undone: such an error is *passing*. The log stays open, and the next call may succeed. Each other
error takes the directory offline. So does each error of an fsync: the kernel may have dropped the pages and marked them
as clean (Rebello et al., USENIX ATC 2020). Kafka makes no difference: each `IOException` takes the directory offline.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

NO_DESCRIPTORS = frozenset({errno.EMFILE, errno.ENFILE})
_NO_RESOURCES = frozenset({*NO_DESCRIPTORS, errno.ENOMEM})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class FailedSync(OSError):
    """An fsync failed, with any error code. Data that was not synced before may be lost."""


def is_full(error: Exception) -> bool:
    """Whether an error means that a disk is full, or that a disk quota is used up."""
    return isinstance(error, OSError) and error.errno in _FULL and not isinstance(error, FailedSync)


def is_passing(error: BaseException) -> bool:
    """Whether an error only fails one call: there are no descriptors, no memory, or no room on the disk."""
    if not isinstance(error, OSError) or isinstance(error, FailedSync):
        return False
    return error.errno in _NO_RESOURCES or error.errno in _FULL


def as_failure(error: Exception) -> Exception:
    """Turns a passing error into a failure of the disk, for a change that is half done and cannot be undone."""
    if not is_passing(error):
        return error
    failure = OSError(errno.EIO, f"interrupted half-way: {error}")
    failure.__cause__ = error
    return failure


def name_file(error: OSError, path: str) -> None:
    """Adds the path to an error that has none, since the call had only a descriptor: a user is to see which file."""
    if not isinstance(error.filename, str):
        error.filename = path


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Calls `name_file` for each OSError in this block."""
    try:
        yield
    except OSError as error:
        name_file(error, path)
        raise


@contextmanager
def not_half() -> Iterator[None]:
    """Turns each passing OSError in this block into a failure of the disk, for changes that cannot be undone."""
    try:
        yield
    except OSError as error:
        if is_passing(error):
            raise as_failure(error) from error
        raise
