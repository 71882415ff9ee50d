"""Workers run functions that need much processor time, one after the other, and keep state between the calls.

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
    """The state of a worker, which each function receives as its first argument.

    Attributes:
        disk: the `Disk` of the worker.
        kept: objects that functions keep for later calls, by name.
    """

    disk: Any
    kept: dict[str, object] = field(default_factory=dict[str, object])


class Lane(Protocol):
    """Sends functions to one worker."""

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        """Calls `function(worker, *args)` in the worker. The call is completed even if the caller is cancelled.

        Args:
            function: a function of a module, so that it can be pickled, like its result and its exceptions.
            args: the arguments, which can be pickled; the first is the path on which the function works.
        """
        ...

    def close(self) -> None:
        """Ends the worker."""
        ...


class ThreadLane:
    """A `Lane` to a worker in the threads of a disk's `run`."""

    def __init__(self, disk: Any) -> None:
        self._disk = disk
        self._worker = Worker(disk)

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        result: Result = await self._disk.run(function, self._worker, *args)
        return result

    def close(self) -> None:
        self._worker.kept.clear()


def attempt(
    outcomes: list[tuple[Any, Exception | None]], function: Callable[..., Any], args: tuple[object, ...]
) -> None:
    """Calls a function in a thread, and appends (result, exception) to `outcomes`.

    The exception is not raised, since trio would keep a raised exception in a reference cycle.
    """
    try:
        outcomes.append((function(*args), None))
    except Exception as error:  # noqa: BLE001 (the caller raises it)
        outcomes.append((None, error))


class WorkerLost(Exception):
    """The process of a worker did not start, or has ended, and the state that it kept is lost."""
