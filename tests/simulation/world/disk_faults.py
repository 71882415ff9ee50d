"""The faults of a simulated disk that are in force, and which of them had an effect."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

READS = frozenset({"read", "list"})
CHANGES = frozenset({"write", "truncate", "sync", "rename", "remove", "mkdir"})
EVERYTHING = frozenset({"open", "stat", *READS, *CHANGES})
READ_ONLY = frozenset({"modify", "write", "truncate", "sync", "rename", "remove", "mkdir"})
"""`modify` is an `open` for writing: everything except `read_bytes`."""
FREE_BYTES = 1 << 40

Delay = Callable[[Random], float]


class ProcessEnded(OSError):
    """The process that uses its disk was killed."""


def under(path: str, prefix: str) -> bool:
    """Whether a path is the directory `prefix` or lies in it."""
    return path == prefix or path.startswith(prefix if prefix.endswith("/") else prefix + "/")


@dataclass(slots=True, eq=False)
class Fault:
    """Operations of some kinds on a directory fail, or are only counted.

    Attributes:
        name: under which its effects are counted.
        code: the `errno`, 0 for none.
        times: how many effects it has; -1 for no limit.
    """

    name: str
    path: str
    kinds: frozenset[str]
    code: int = 0
    probability: float = 1.0
    times: int = -1

    def concerns(self, kind: str, path: str) -> bool:
        return kind in self.kinds and under(path, self.path)


class DiskFaults:
    """The faults in force, shared by the disk and the process that uses it.

    Attributes:
        effects: how often each fault had an effect.
        latency: how long `Disk.run` takes, in seconds; None for one step of the scheduler.
        watched: operations must be announced to `meet`.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.effects: Counter[str] = Counter()
        self.latency: Delay | None = None
        self.watched = False
        self.limits: dict[str, int] = {}
        self.delays: dict[str, Delay] = {}
        self._faults: list[Fault] = []
        self._on_operation: Callable[[str, str], None] | None = None

    def begin(self, fault: Fault) -> None:
        self._faults.append(fault)
        self.watched = True

    def end(self, which: Callable[[Fault], bool]) -> None:
        self._faults = [one for one in self._faults if not which(one)]
        self.watched = bool(self._faults) or self._on_operation is not None

    def watch(self, on_operation: Callable[[str, str], None] | None) -> None:
        """Calls `on_operation` with kind and path of every operation, before its effect; None for no more calls."""
        self._on_operation = on_operation
        self.end(lambda fault: False)

    def meet(self, kind: str, path: str) -> None:
        """Raises OSError if a fault concerns this operation."""
        if self._on_operation is not None and kind != "modify":
            self._on_operation(kind, path)
        for fault in self._faults:
            if not fault.concerns(kind, path):
                continue
            if fault.probability < 1 and self.random.random() >= fault.probability:
                continue
            self.effects[fault.name] += 1
            fault.times -= 1
            if not fault.times:
                self.end(lambda one: not one.times)
            if fault.code:
                raise OSError(fault.code, fault.name, path)

    def allocate(self, path: str, size_bytes: int) -> int:
        """Takes space on the device of `path`, or gives it back if `size_bytes` is negative; returns what there was."""
        device = closest(self.limits, path)
        if device is None:
            return size_bytes
        granted = min(size_bytes, max(0, self.limits[device]))
        self.limits[device] -= granted
        if granted < size_bytes:
            self.effects["full"] += 1
        return granted

    def free_bytes(self, path: str) -> int:
        device = closest(self.limits, path)
        return FREE_BYTES if device is None else max(0, self.limits[device])

    def delay(self, function: Callable[..., object], args: tuple[object, ...]) -> float:
        """Returns how long `function` takes in a thread, in seconds."""
        seconds = self.latency(self.random) if self.latency is not None else 0.0
        if self.delays:
            path = path_of(function, args)
            slow = closest(self.delays, path) if path is not None else min(self.delays)
            if slow is not None:
                self.effects["slow"] += 1
                seconds += self.delays[slow](self.random)
        return seconds


class NoDisk(DiskFaults):
    """What a process has after it was killed."""

    def __init__(self) -> None:
        super().__init__(Random(0))
        self.watched = True

    def meet(self, kind: str, path: str) -> None:
        raise ProcessEnded(errno.EIO, "the process was killed", path)


def closest(table: dict[str, Any], path: str) -> str | None:
    """Returns the longest directory of the table in which a path lies."""
    found = [prefix for prefix in table if under(path, prefix)]
    return max(found, key=len) if found else None


def path_of(function: Callable[..., object], args: tuple[object, ...]) -> str | None:
    """Returns a path on which a function of `Disk.run` works: from its arguments, its object or its closure."""
    if isinstance(function, partial):
        return path_of(function.func, (*function.args, *args))
    cells = getattr(function, "__closure__", None) or ()
    for one in (*args, getattr(function, "__self__", None), *[cell.cell_contents for cell in cells]):
        for part in (one, getattr(one, "path", None), *getattr(one, "_files", ()), *getattr(one, "_directories", ())):
            path = part if isinstance(part, str) else getattr(part, "path", None)
            if isinstance(path, str) and path.startswith("/"):
                return path
    return None
