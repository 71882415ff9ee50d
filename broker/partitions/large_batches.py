"""Validates and searches large batches in steps, a few at a time, while other tasks run. Drives pure generators.

Records are decompressed in a worker thread, of the disk that the batch is for. Memory is bounded: `AT_ONCE` batches of
`decompressed_size_bytes_max` each.

Small batches are validated and appended at once. One takes up to some milliseconds, and many may arrive together, in
one request or in many. So their time in one round of the event loop is added up; after `AT_ONCE_S` the next one waits
here until other tasks have run, but not for large ones.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import trio

from minikafka.broker.partitions.batch_validation import LargeBatch, Rules, validate, validate_in_steps
from minikafka.protocol.records.batch import Batch
from minikafka.storage.disk import Disk
from minikafka.storage.off_loop import Blocking, off_loop

Result = TypeVar("Result")

AT_ONCE = 4
"""How many large ones are validated or searched at a time; the others wait their turn."""
AT_ONCE_S = 0.005


class LargeBatches:
    """The large batches of a node.

    Args:
        clock: Seconds that only grow; on that of the event loop, a simulated step takes none. By default nothing takes
            any time.
        rounds: The number of the event loop's round. By default it is always the same.

    Attributes:
        clock: The same.
    """

    def __init__(self, clock: Callable[[], float] = float, rounds: Callable[[], int] = int) -> None:
        self.clock = clock
        self._free = trio.Semaphore(AT_ONCE)
        self._used_s = 0.0
        self._rounds, self._round = rounds, 0

    def begin(self) -> float:
        """The time, before a batch is appended at once. Raises LargeBatch if those before it took long together."""
        if self._used_s > AT_ONCE_S:
            if self._rounds() == self._round:
                raise LargeBatch
            self._used_s = 0.0
        return self.clock()

    def end(self, began: float) -> None:
        """Count the time since `begin`."""
        if self._rounds() != self._round:
            self._round, self._used_s = self._rounds(), 0.0
        self._used_s += self.clock() - began

    async def validated(self, batch: Batch, rules: Rules, now_ms: int, disk: Disk) -> Batch:
        """The batch to append. Cancellation leaves nothing behind.

        Raises: As `batch_validation.validate`, without LargeBatch.
        """
        await trio.lowlevel.checkpoint()
        self._used_s = 0.0
        try:
            return validate(batch, rules, now_ms)
        except LargeBatch:
            async with self._free:
                return await _validated_in_steps(batch, rules, now_ms, disk)

    async def searched(self, search: Blocking[Result], disk: Disk) -> Result:
        """The result of a search that decompresses batches. Cancellation leaves nothing behind."""
        async with self._free:
            return await off_loop(disk, search)


async def _validated_in_steps(batch: Batch, rules: Rules, now_ms: int, disk: Disk) -> Batch:
    steps = validate_in_steps(batch, rules, now_ms)
    result: Any = None
    try:
        while True:
            function = steps.send(result)
            if function is None:
                await trio.lowlevel.checkpoint()
            result = None if function is None else await disk.run(function)
    except StopIteration as done:
        validated: Batch = done.value
        return validated
    finally:
        steps.close()
