"""`LargeBatches`: runs the validation and the search of large batches in steps, a few at a time, beside other tasks.

The steps are those of pure generators. Records are decompressed in a worker thread of the disk that the batch is for.
Memory is bounded: `AT_ONCE` batches of `decompressed_size_bytes_max` each.

Small batches are validated and appended at once. A small batch takes up to some milliseconds, and many may arrive
together, in one request or in many. So the time that small batches take in one round of the event loop is added up.
After `AT_ONCE_S` the next small batch waits here until other tasks have run; it does not wait for large batches.
"""

from collections.abc import Callable
from typing import TypeVar

import trio

from minikafka.broker.partitions.batch_validation import LargeBatch, Rules, validate, validate_in_steps
from minikafka.protocol.records.batch import Batch
from minikafka.storage.disks.disk import Disk
from minikafka.storage.steps import Steps, in_steps, pause
from minikafka.storage.waits import in_task

Result = TypeVar("Result")

AT_ONCE = 4
"""How many large batches are validated or searched at a time; the others wait their turn."""
AT_ONCE_S = 0.005


class LargeBatches:
    """Validates and searches the large batches of a node, and makes small batches wait while there are many.

    Args:
        clock: Returns seconds that only grow. With the clock of a simulated event loop a step takes no time; with the
            default clock, which always returns 0, nothing takes any time.
        rounds: Returns the number of the event loop's current round. By default the number is always the same.

    Attributes:
        clock: The argument `clock`.
    """

    def __init__(self, clock: Callable[[], float] = float, rounds: Callable[[], int] = int) -> None:
        self.clock = clock
        self._free = trio.Semaphore(AT_ONCE)
        self._used_s = 0.0
        self._rounds, self._round = rounds, 0

    def begin(self) -> float:
        """Return the time for `end`, before a small batch is appended.

        Raises:
            LargeBatch: The earlier batches of this round took long together: use `validated`.
        """
        if self._used_s > AT_ONCE_S:
            if self._rounds() == self._round:
                raise LargeBatch
            self._used_s = 0.0
        return self.clock()

    def end(self, began: float) -> None:
        """Count the time since `begin`."""
        now_round = self._rounds()
        if now_round != self._round:
            self._round, self._used_s = now_round, 0.0
        self._used_s += self.clock() - began

    async def validated(self, batch: Batch, rules: Rules, now_ms: int, disk: Disk) -> Batch:
        """Validate a batch while other tasks run, and return the batch to append. Cancellation leaves nothing behind.

        Raises: As `batch_validation.validate`, without `LargeBatch`.
        """
        await pause()
        self._used_s = 0.0
        try:
            return validate(batch, rules, now_ms)
        except LargeBatch:
            async with self._free:
                return await in_steps(validate_in_steps(batch, rules, now_ms), disk)

    async def searched(self, search: Steps[Result], disk: Disk) -> Result:
        """Run a search that decompresses batches, and return its result. Cancellation leaves nothing behind."""
        await in_task()
        async with self._free:
            return await in_steps(search, disk)
