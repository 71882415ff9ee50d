"""Finds the process that runs a node of a local cluster, and sends signals to this process and to no other.

The process of a node is found by its pid file, if the process with that pid has the node's configuration on its command
line; otherwise, on Linux, by the lock that the process holds on its data directory. So a node that was started by hand
is found, and a process that has got the pid of a killed node is never taken for the node.

On systems with pidfds (Linux), a signal cannot reach another process if the node ends between the check and the signal.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

_LOCK = re.compile(r"\d+: FLOCK +ADVISORY +WRITE +(\d+) +[0-9a-f]+:[0-9a-f]+:(\d+) ")
"""A line of /proc/locks: the pid and the inode. The device is not used, since it differs on overlay file systems."""


def pid_of_node(pid_file: Path, config: Path, data: Path) -> int:
    """The pid of the process that runs a node, 0 if none does.

    Args:
        pid_file: the pid file, which the node and the command that starts it write; it may be stale.
        config: the node's server.properties, an absolute path.
        data: the node's data directory.
    """
    with contextlib.suppress(OSError, ValueError):
        pid = int(pid_file.read_text())
        if _runs(_command_line(pid), config, _directory_of(pid)):
            return pid
    return _holder(data / ".lock")


def send(find: Callable[[], int], number: signal.Signals) -> bool:
    """Send a signal to the process whose pid `find` returns; return whether there was a process."""
    pid = find()
    if not pid:
        return False
    with contextlib.suppress(ProcessLookupError):
        if not hasattr(os, "pidfd_open"):
            os.kill(pid, number)
            return True
        handle = os.pidfd_open(pid)
        try:
            if find() == pid:
                signal.pidfd_send_signal(handle, number)
                return True
        finally:
            os.close(handle)
    return False


def has_ended(pid: int) -> bool:
    """Whether a process has ended, even if its parent has not waited for it yet."""
    if Path("/proc/self").exists():
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
        except OSError:
            return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@contextlib.contextmanager
def pid_file_of_this_process(config: Path | None) -> Iterator[None]:
    """Keep this process's pid in the file `pid` beside the configuration of a node of a local cluster.

    The file is removed when this process ends. If another process runs the node, the file is left alone, since this
    process will not start.
    """
    if config is None or not _is_of_cluster(config):
        yield
        return
    path = config.resolve().parent / "pid"
    if pid_of_node(path, config.resolve(), path.parent / "data") in (0, os.getpid()):
        path.write_text(f"{os.getpid()}\n")
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            if int(path.read_text()) == os.getpid():
                path.unlink()


def _is_of_cluster(config: Path) -> bool:
    """Whether a configuration file is of a node that a local cluster has started, now or before."""
    folder = config.resolve().parent
    return folder.name.startswith("node-") and (folder / "server.log").exists()


def _runs(words: Sequence[str], config: Path, directory: Path) -> bool:
    """Whether a command line, run in a directory, is of a server with this configuration."""
    if "server" not in words or "--config" not in words[:-1]:
        return False
    return (directory / words[words.index("--config") + 1]).resolve() == config.resolve()


def _command_line(pid: int) -> list[str]:
    """The words of a process's command line; none for a zombie. Raises OSError if there is no such process."""
    if Path("/proc/self").exists():
        return [os.fsdecode(word) for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    words = ["ps", "-p", str(pid), "-o", "command="]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()


def _directory_of(pid: int) -> Path:
    """The working directory of a process; / if it is not known, so that relative paths match nothing."""
    try:
        return Path(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return Path("/")


def _holder(lock: Path) -> int:
    """The pid of the minikafka server that holds the lock of a data directory; 0 if none is known."""
    try:
        inode = lock.stat().st_ino
        found = [int(pid) for pid, of in _LOCK.findall(Path("/proc/locks").read_text()) if int(of) == inode]
        for pid in found:
            words = _command_line(pid)
            if pid > 0 and "server" in words and any("minikafka" in word for word in words):
                return pid if _has_open(pid, lock) else 0
    except OSError:
        return 0
    return 0


def _has_open(pid: int, path: Path) -> bool:
    """Whether a process has a file open. The inode alone is not enough, since two file systems may use the same."""
    wanted = path.stat()
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if os.path.samestat(one.stat(), wanted):
                return True
    return False
