"""The lock of the `minikafka cluster` command that runs a cluster; it is released when the process ends in any way.

    DIR/cluster.pid     the pid of the command, which holds a lock on the file while it runs
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from minikafka.cli.clusters.cluster_layout import ClusterError


def lock_file(directory: Path) -> Path:
    """The path of the lock file."""
    return directory / "cluster.pid"


@contextlib.contextmanager
def supervising(directory: Path) -> Iterator[None]:
    """Hold the lock of a cluster during a block. Raises ClusterError if another command holds it."""
    path = lock_file(directory)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(
                f"`minikafka cluster` already runs in {directory} (pid {supervisor(directory)}): "
                "`minikafka cluster status` shows its nodes, `minikafka cluster stop` ends it"
            ) from None
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        yield
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


def supervisor(directory: Path) -> int:
    """The pid of the command that runs a cluster, 0 if none does."""
    try:
        handle = os.open(lock_file(directory), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with contextlib.suppress(OSError, ValueError):
            return int(os.pread(handle, 20, 0))
    finally:
        os.close(handle)
    return 0
