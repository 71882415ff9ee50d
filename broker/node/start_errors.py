"""Explains why a node cannot start: names the directory or port, its setting, its holder, and what to do."""

import errno
import os
import resource
import shlex
from collections.abc import Iterator
from pathlib import Path

from minikafka.broker.node.full_disk import FULL, existing, free_bytes, user, why_full
from minikafka.broker.node.holders import holder_of_lock, holder_of_port
from minikafka.broker.settings.node_config import NodeConfig
from minikafka.protocol.counted import counted

__all__ = ["why_not_started"]

_REFUSED = (errno.EACCES, errno.EPERM)


def why_not_started(error: OSError, config: NodeConfig) -> str:
    """Describe an error of the operating system in terms of the node's settings.

    Args:
        error: The error that ended the start, or the running node.
        config: The settings of the node.
    """
    if error.errno == errno.EADDRINUSE:
        return _port_in_use(error, config)
    if error.errno == errno.EFBIG:
        return _file_too_large()
    found = _directory_of(error, config)
    if found is not None:
        path, option = found
        return f"data directory {path} ({option}) cannot be used: {_reason(error, path, option)}"
    where = f" ({error.filename})" if error.filename else ""
    return f"{error.strerror or error}{where}"


def _port_in_use(error: OSError, config: NodeConfig) -> str:
    listeners = [(one, "listeners") for one in (*config.listeners.for_clients, *config.listeners.for_controllers)]
    if config.metrics_listener is not None:
        listeners.append((config.metrics_listener, "metrics.listener"))
    for listener, option in listeners:
        if f":{listener.port}: " in str(error):
            holder = holder_of_port(listener.port)
            by = f", by {holder}" if holder else ""
            return f"{error.strerror}{by}: stop that process, or set another port in {option}"
    return error.strerror or str(error)


def _file_too_large() -> str:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if limit == resource.RLIM_INFINITY:
        return "a file would be larger than its file system allows: set a lower segment.bytes"
    return (
        f"a file would be larger than the {counted(limit, 'byte')} that this process may write: raise the limit "
        "(`ulimit -f`, LimitFSIZE); a segment alone has up to segment.bytes"
    )


def _directories(config: NodeConfig) -> Iterator[tuple[str, str]]:
    option = "log.dir" if config.values["log.dirs"] is None else "log.dirs"
    yield from ((path, option) for path in config.log_dirs)
    yield config.metadata_log_dir, option if config.metadata_log_dir in config.log_dirs else "metadata.log.dir"


def _directory_of(error: OSError, config: NodeConfig) -> tuple[str, str] | None:
    """The data directory that an error concerns, and the name of its setting; None if it concerns none.

    The error of a full disk may name no file. Then it is the data directory with the least room.
    """
    if isinstance(error.filename, str):
        inside = [one for one in _directories(config) if f"{error.filename}/".startswith(f"{one[0]}/")]
        above = [one for one in _directories(config) if one[0].startswith(f"{error.filename}/")]
        return max(inside, key=lambda one: len(one[0]), default=above[0] if above else None)
    return min(_directories(config), key=lambda one: free_bytes(one[0])) if error.errno in FULL else None


def _reason(error: OSError, path: str, option: str) -> str:
    at = existing(path)
    if isinstance(error, BlockingIOError):
        holder = holder_of_lock(str(error.filename)) or "another process"
        return f"{holder} uses it; stop that node, or set another {option}"
    if not at.is_dir():
        return f"{at} is a file; move it away, or set another {option}"
    if error.errno in _REFUSED:
        return f"{user()} may not write to {_refused_part(error, path, at)}, or set another {option}"
    if error.errno == errno.EROFS:
        return f"the file system of {at} is read-only; mount it for writing, or set another {option}"
    if why := why_full(error, path):
        return why
    if error.errno == errno.ENOENT and str(at) != path:
        return f"it cannot be made in {at}; make it, or set another {option}"
    where = f" ({error.filename})" if error.filename not in (None, path) else ""
    return f"{error.strerror}{where}"


def _refused_part(error: OSError, path: str, at: Path) -> str:
    """The file or directory that the node may not write to, and what the user can do about it.

    It is the file that the error names, if that file exists, otherwise the directory `at`. If the data directory `path`
    belongs to the same owner, all of it has to change hands.
    """
    named = Path(str(error.filename or at))
    part = named if os.path.lexists(named) else at
    owner = _owner(part)
    whole = part.is_relative_to(path) and _owner(Path(path)) == owner
    return (
        f"{part}, which belongs to {user(owner)}: change its owner "
        f"(`chown -R {os.geteuid()} {shlex.quote(path if whole else str(part))}`), "
        f"run the node as its owner (in a container `--user {owner}`)"
    )


def _owner(path: Path) -> int:
    """The id of the user to whom a file or directory belongs."""
    return path.lstat().st_uid
