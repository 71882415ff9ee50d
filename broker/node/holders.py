"""Finds the process that holds a port or a lock, for error messages, as far as `/proc` tells."""

import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["holder_of_lock", "holder_of_port"]

PROC = Path("/proc")
LISTENING = "0A"
COMMAND_LENGTH_MAX = 80


def holder_of_port(port: int, proc: Path = PROC) -> str:
    """The process that listens on a TCP port, as in `process 4242 (java kafka.Kafka)`; "" if that is unknown."""
    sockets = {f"socket:[{inode}]" for inode in _listening(port, proc)}
    if not sockets:
        return ""
    for process in _processes(proc):
        if sockets & set(_descriptors(proc / process / "fd")):
            return _described(process, proc)
    return "a process of another user"


def holder_of_lock(path: str, proc: Path = PROC) -> str:
    """The process that has locked a file with flock, in the same form; "" if that is unknown."""
    try:
        found = os.stat(path)
        lines = (proc / "locks").read_text().splitlines()
    except OSError:
        return ""
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    for line in lines:
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK" and words[5] == place and int(words[4]) > 0:
            return _described(words[4], proc)
    return ""


def _listening(port: int, proc: Path) -> Iterator[str]:
    """The inodes of the sockets that listen on a port."""
    for table in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            if len(words) > 9 and words[3] == LISTENING and int(words[1].rpartition(":")[2], 16) == port:
                yield words[9]


def _processes(proc: Path) -> list[str]:
    try:
        return sorted((name for name in os.listdir(proc) if name.isdecimal()), key=int)
    except OSError:
        return []


def _descriptors(directory: Path) -> Iterator[str]:
    """The targets of the descriptors of a process; none if the process has ended or belongs to another user."""
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in names:
        try:
            yield os.readlink(directory / name)
        except OSError:
            continue


def _described(process: str, proc: Path) -> str:
    try:
        words = (proc / process / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        words = []
    command = " ".join(filter(None, words))
    if len(command) > COMMAND_LENGTH_MAX:
        command = f"{command[: COMMAND_LENGTH_MAX - 1]}…"
    return f"process {process} ({command})" if command else f"process {process}"
