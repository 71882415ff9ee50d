"""Validates large batches in steps, a few at a time, while other tasks run. Drives a pure generator.

Records are decompressed in a worker thread, of the disk that the batch is for. Memory is bounded: `AT_ONCE` batches of
`decompressed_size_bytes_max` each.
"""

from typing import Any

import trio

from minikafka.broker.partitions.batch_validation import Rules, validate_in_steps
from minikafka.protocol.records.batch import Batch
from minikafka.storage.disk import Disk

AT_ONCE = 4
"""How many are validated at a time; the others wait their turn."""


class LargeBatches:
    """The large batches of a node."""

    def __init__(self) -> None:
        self._free = trio.Semaphore(AT_ONCE)

    async def validated(self, batch: Batch, rules: Rules, now_ms: int, disk: Disk) -> Batch:
        """The batch to append. Cancellation leaves nothing behind.

        Raises: As `batch_validation.validate`.
        """
        async with self._free:
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
