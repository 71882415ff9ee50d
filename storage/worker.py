"""Workers: they run functions that need much processor time, one after the other, and keep state between them.

lane = disk.lane(size_bytes)
try:
    await lane.run(begin, path, plan)      # calls begin(worker, path, plan)
    step = await lane.run(advance, path)
finally:
    lane.close()
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


@dataclass(slots=True)
class Worker:
    """What a function finds where it runs.

    Attributes:
        disk: the `Disk` of the worker.
        kept: what earlier functions have left, by name.
    """

    disk: Any
    kept: dict[str, object] = field(default_factory=dict[str, object])


class Lane(Protocol):
    """The way to one worker."""

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        """Calls `function(worker, *args)`, to the end even if the caller is cancelled. The function belongs to a
        module; the arguments, the result and its exceptions can be pickled. The first argument is a path on which it
        works."""
        ...

    def close(self) -> None:
        """Ends the worker; does not wait."""
        ...


class ThreadLane:
    """A worker in the threads of a disk's `run`."""

    def __init__(self, disk: Any) -> None:
        self._disk = disk
        self._worker = Worker(disk)

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        result: Result = await self._disk.run(function, self._worker, *args)
        return result

    def close(self) -> None:
        self._worker.kept.clear()


def attempt(found: list[tuple[Any, Exception | None]], function: Callable[..., Any], args: tuple[object, ...]) -> None:
    """Calls a function in a thread; appends the result and the exception. trio keeps one that is raised in a cycle."""
    try:
        found.append((function(*args), None))
    except Exception as error:  # noqa: BLE001 (the caller raises it)
        found.append((None, error))


class WorkerLost(Exception):
    """The process of a worker has ended, with all that it kept."""
